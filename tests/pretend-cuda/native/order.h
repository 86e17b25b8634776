// Order of device work by streams and events.
//
// Work runs at once, in the order of its launch by the host. A real device guarantees less: work of one stream is
// ordered, and other streams and the host are ordered with it only by events and waits. Each stream and the host
// therefore keep a vector clock. A use of memory fails if another stream wrote the memory and the user's clock does
// not include that write, regardless of the actual timing.
//
// Work that needs other ranks ends later than its launch. Who waits for an event after it waits for the work.
#pragma once

#include <c10/core/Stream.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>

namespace pretend {

constexpr size_t kStreams = 8;
using Clock = std::array<uint64_t, kStreams>;

// Position in the work of one stream.
struct Moment {
  size_t stream = 0;
  uint64_t time = 0;
};

// Uses of a block of memory.
struct Uses {
  Moment written;
  Clock read{};      // last read of each stream
  Clock recorded{};  // not 0: `record_stream` was called for that stream
  size_t home = 0;   // stream of the allocation
};

enum class Access { read, write };

size_t current_stream();
size_t exchange_stream(size_t stream);

// Starts the next piece of work of the current stream. It is ordered after everything that the host knows.
Moment launch();

// Records a use. Fails if it is unordered with other uses of the same memory.
void use(Uses& uses, Moment now, Access access);

// Returns whether the stream of the allocation is ordered after all uses. Otherwise the block may not be reused.
bool is_settled(const Uses& uses);

// Records that all work is complete: of one stream, or of all.
void know(size_t stream);
void know_all();

// Returns whether the host has waited for it.
bool is_known(Moment moment);

// Work that may end later than its launch.
class Work {
 public:
  virtual ~Work() = default;
  virtual bool is_done() = 0;
  virtual void wait() = 0;
};

// Newest such work that this thread has launched on a stream.
std::shared_ptr<Work> work(size_t stream);
void set_work(size_t stream, std::shared_ptr<Work> work);

// Events.
Clock record(size_t stream);
void block(size_t stream, const Clock& event);
void know(const Clock& event);

// Sets a function that runs each time the host has waited for more work.
void when_host_learns(std::function<void()> listener);

}  // namespace pretend
