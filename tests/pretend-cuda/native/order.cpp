#include "order.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <mutex>

namespace pretend {

namespace {

std::mutex order_mutex;
std::array<Clock, kStreams> clocks{};
Clock host_clock{};
std::function<void()> listener;
thread_local size_t stream_of_thread = 0;
// Of a thread, because ranks, which are threads, share the streams.
thread_local std::array<std::shared_ptr<Work>, kStreams> work_of_thread;

void merge(Clock& into, const Clock& from) {
  for (size_t i = 0; i < kStreams; ++i) into[i] = std::max(into[i], from[i]);
}

void learn(const Clock& news) {
  {
    std::lock_guard<std::mutex> lock(order_mutex);
    merge(host_clock, news);
  }
  if (listener) listener();
}

}  // namespace

size_t current_stream() { return stream_of_thread; }

size_t exchange_stream(size_t stream) {
  TORCH_CHECK(stream < kStreams, "the pretend device has ", kStreams, " streams");
  return std::exchange(stream_of_thread, stream);
}

Moment launch() {
  std::lock_guard<std::mutex> lock(order_mutex);
  Clock& clock = clocks[stream_of_thread];
  merge(clock, host_clock);
  return {stream_of_thread, ++clock[stream_of_thread]};
}

void use(Uses& uses, Moment now, Access access) {
  std::lock_guard<std::mutex> lock(order_mutex);
  const Clock& known = clocks[now.stream];
  TORCH_CHECK(uses.written.time <= known[uses.written.stream], "stream ", now.stream,
              access == Access::read ? " reads" : " writes over", " what stream ", uses.written.stream,
              " writes, and no event or wait orders the two");
  if (access == Access::read) {
    uses.read[now.stream] = now.time;
    return;
  }
  for (size_t other = 0; other < kStreams; ++other)
    TORCH_CHECK(uses.read[other] <= known[other], "stream ", now.stream, " writes over what stream ", other,
                " reads, and no event or wait orders the two");
  uses.written = now;
}

bool is_settled(const Uses& uses) {
  std::lock_guard<std::mutex> lock(order_mutex);
  Clock known = clocks[uses.home];
  merge(known, host_clock);
  const auto unknown = [&](size_t stream, uint64_t time) { return time > known[stream] && !uses.recorded[stream]; };
  for (size_t stream = 0; stream < kStreams; ++stream)
    if (unknown(stream, uses.read[stream])) return false;
  return !unknown(uses.written.stream, uses.written.time);
}

void know(size_t stream) { learn(record(stream)); }

void know_all() {
  for (size_t stream = 0; stream < kStreams; ++stream) know(stream);
}

bool is_known(Moment moment) {
  std::lock_guard<std::mutex> lock(order_mutex);
  return moment.time <= host_clock[moment.stream];
}

std::shared_ptr<Work> work(size_t stream) { return work_of_thread[stream]; }

void set_work(size_t stream, std::shared_ptr<Work> work) { work_of_thread[stream] = std::move(work); }

Clock record(size_t stream) {
  std::lock_guard<std::mutex> lock(order_mutex);
  merge(clocks[stream], host_clock);
  return clocks[stream];
}

void block(size_t stream, const Clock& event) {
  std::lock_guard<std::mutex> lock(order_mutex);
  merge(clocks[stream], event);
}

void know(const Clock& event) { learn(event); }

void when_host_learns(std::function<void()> what) { listener = std::move(what); }

}  // namespace pretend
