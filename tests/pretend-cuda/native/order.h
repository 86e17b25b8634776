// Streams and events: which work of the device is certain to come before which.
//
// Work is done at once, in the order in which the host gives it. What a real device promises is less: work of one stream
// is in order, and other streams and the host know of it only through events and waits. So each stream and the host keep
// a clock of vectors (how far they know every stream to be), and a use of memory that another stream wrote, and of which
// the user's clock does not know, fails, however the two would have met in time.
#pragma once

#include <c10/core/Stream.h>

#include <array>
#include <cstdint>
#include <functional>

namespace pretend {

constexpr size_t kStreams = 8;
using Clock = std::array<uint64_t, kStreams>;

// What one stream does at one time.
struct Moment {
  size_t stream = 0;
  uint64_t time = 0;
};

// Who has used a block of memory.
struct Uses {
  Moment written;
  Clock read{};      // when each stream read it last
  Clock recorded{};  // not 0: the allocator was told of that stream
  size_t home = 0;   // the stream that it was allocated for
};

enum class Access { read, write };

size_t current_stream();
size_t exchange_stream(size_t stream);

// The next piece of work of the current stream. All that the host knows comes before it.
Moment launch();

// Notes a use. Fails where it is in no order with what others did to the same memory.
void use(Uses& uses, Moment now, Access access);

// Whether the stream that a block was allocated for knows of all its uses; else it may not be used again.
bool is_settled(const Uses& uses);

// The host now knows that everything has been done: of one stream, or of all.
void know(size_t stream);
void know_all();

// Whether the host knows of it.
bool is_known(Moment moment);

// Events.
Clock record(size_t stream);
void block(size_t stream, const Clock& event);
void know(const Clock& event);

// Called whenever the host has come to know more, before it goes on.
void when_host_learns(std::function<void()> listener);

}  // namespace pretend
