// Timing events in a device's stream. The safe wrapper is src/device/native/marks.rs.

#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "native.h"

using cloze::guarded;

namespace {

// Event with timing enabled. The default events only order work.
struct Mark {
  c10::Event moment{c10::DeviceType::CUDA, c10::EventFlag::BACKEND_DEFAULT};
};

}  // namespace

extern "C" {

// Records an event after all work that this thread has enqueued. Reuses `mark` if it is set. Does not wait.
int cloze_mark(int index, void** mark) {
  return guarded([&] {
    const c10::Device device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index));
    if (!*mark) *mark = new Mark;
    static_cast<Mark*>(*mark)->moment.record(c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).getStream(device));
  });
}

// Whether the device has reached the event.
int cloze_mark_is_past(const void* mark, int* is_past) {
  return guarded([&] { *is_past = static_cast<const Mark*>(mark)->moment.query(); });
}

// Makes the host wait until the device has reached the event.
int cloze_mark_wait(const void* mark) {
  return guarded([&] { static_cast<const Mark*>(mark)->moment.synchronize(); });
}

// Device time in milliseconds between two past events.
int cloze_marks_apart(const void* from, const void* to, double* ms) {
  return guarded([&] { *ms = static_cast<const Mark*>(from)->moment.elapsedTime(static_cast<const Mark*>(to)->moment); });
}

void cloze_mark_free(void* mark) { delete static_cast<Mark*>(mark); }
}
