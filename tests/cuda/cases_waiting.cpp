// Places, events and errors.
#include "check.h"

namespace test {
namespace {
uint64_t launch(Device& device) { return device.launch("plain", {absent(), absent(), absent()}); }
size_t count(const std::string& call) {
  size_t n = 0;
  for (const std::string& c : gpu().log) n += c == call;
  return n;
}
}  // namespace

CASE(places_grow_and_are_reached) {
  Device device(directory);
  gpu().paused = true;
  const uint64_t first = launch(device), second = launch(device);
  CHECK(0 < first && first < second);
  CHECK(!device.driver->reached(first) && !device.driver->idle(device.driver->default_stream()));
  device.driver->reach(first);
  CHECK(device.driver->reached(first));
  const size_t waits = count("cuEventSynchronize");
  device.driver->reach(first);  // known
  CHECK(count("cuEventSynchronize") == waits);
  device.driver->synchronize(device.driver->default_stream());
  CHECK(device.driver->reached(second) && device.driver->idle(device.driver->default_stream()));
  device.driver->reach(0);
}

// Waiting for work of long ago does not wait for the latest.
CASE(waits_no_longer_than_needed) {
  Device device(directory);
  gpu().paused = true;
  const uint64_t first = launch(device);
  uint64_t last = first;
  for (int i = 0; i < 200; ++i) last = launch(device);
  device.driver->reach(first);
  CHECK(device.driver->reached(first) && !device.driver->reached(last));
  device.driver->finish(UINT64_MAX);
  CHECK(device.driver->reached(last));
}

CASE(events) {
  Device device(directory);
  Driver& d = *device.driver;
  gpu().paused = true;
  Event *const from = d.new_event(), *const to = d.new_event();
  CHECK(d.done(from));
  THROWS(d.elapsed_ms(from, to), "both events must have been recorded");
  d.record(from, d.default_stream());
  launch(device), launch(device);
  d.record(to, d.default_stream());
  CHECK(!d.done(to));
  THROWS(d.elapsed_ms(from, to), "must have been reached");
  d.wait(to, d.new_stream());
  d.synchronize(to);
  CHECK(d.done(to) && d.elapsed_ms(from, to) == 2);
  d.destroy(from);
  d.destroy(to);
}

// An event is complete after a wait for its stream, though no kernel comes before it.
CASE(synchronize_reaches_events) {
  Device device(directory);
  Event* const event = device.driver->new_event();
  device.driver->record(event, device.driver->default_stream());
  const size_t waits = count("cuStreamSynchronize");
  device.driver->synchronize(device.driver->default_stream());
  CHECK(count("cuStreamSynchronize") == waits + 1);
  device.driver->destroy(event);
}

CASE(failures_name_kernels) {
  Device device(directory);
  gpu().failing = "k_limited";
  launch(device), launch(device);
  device.launch("limited", {absent()});
  THROWS(device.driver->synchronize(device.driver->default_stream()), "the GPU failed: an illegal memory access",
         "CUDA_ERROR_ILLEGAL_ADDRESS", "among the kernels plain x2, limited", "MPSX_CUDA_DEBUG=1",
         "cannot use the GPU");
  THROWS(launch(device), "limited");  // a context does not recover
  THROWS(device.driver->reach(1), "limited");
}

CASE(one_by_one) {
  setenv("MPSX_CUDA_DEBUG", "1", 1);
  Device device(directory);
  gpu().failing = "k_limited";
  launch(device);
  THROWS(device.launch("limited", {absent()}), "; kernel limited.");
}

CASE(finish_leaves_failures_to_others) {
  Device device(directory);
  gpu().failing = "k_plain";
  const uint64_t place = launch(device);
  device.driver->finish(place);
  THROWS(device.driver->reach(place), "kernel plain");
}

}  // namespace test
