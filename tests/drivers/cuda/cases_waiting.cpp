// Sequence numbers, events and errors.
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

CASE(sequence_numbers_increase_and_complete) {
  Device device(directory);
  gpu().paused = true;
  const uint64_t first = launch(device), second = launch(device);
  CHECK(0 < first && first < second);
  CHECK(!device.driver->is_complete(first) && !device.driver->idle(device.driver->default_stream()));
  device.driver->wait_until(first);
  CHECK(device.driver->is_complete(first));
  const size_t waits = count("cuEventSynchronize");
  device.driver->wait_until(first);  // the driver already knows that this work is complete
  CHECK(count("cuEventSynchronize") == waits);
  device.driver->synchronize(device.driver->default_stream());
  CHECK(device.driver->is_complete(second) && device.driver->idle(device.driver->default_stream()));
  device.driver->wait_until(0);
}

// Waiting for an early launch must not wait for later launches.
CASE(waits_no_longer_than_needed) {
  Device device(directory);
  gpu().paused = true;
  const uint64_t first = launch(device);
  uint64_t last = first;
  for (int i = 0; i < 200; ++i) last = launch(device);
  device.driver->wait_until(first);
  CHECK(device.driver->is_complete(first) && !device.driver->is_complete(last));
  device.driver->wait_until_nothrow(UINT64_MAX);
  CHECK(device.driver->is_complete(last));
}

CASE(events) {
  Device device(directory);
  Driver& d = *device.driver;
  gpu().paused = true;
  Event *const from = d.new_event(), *const to = d.new_event();
  CHECK(d.query(from));
  THROWS(d.elapsed_ms(from, to), "expected both events to be recorded");
  d.record(from, d.default_stream());
  launch(device), launch(device);
  d.record(to, d.default_stream());
  CHECK(!d.query(to));
  THROWS(d.elapsed_ms(from, to), "expected both events to be complete");
  d.wait(to, d.new_stream());
  d.synchronize(to);
  CHECK(d.query(to) && d.elapsed_ms(from, to) == 2);
  d.destroy(from);
  d.destroy(to);
}

// Synchronizing a stream completes its events, even if no kernel was launched before them.
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
         "can no longer use the GPU");
  THROWS(launch(device), "limited");  // the error makes the CUDA context unusable
  THROWS(device.driver->wait_until(1), "limited");
}

CASE(debug_mode_runs_kernels_one_by_one) {
  setenv("MPSX_CUDA_DEBUG", "1", 1);
  Device device(directory);
  gpu().failing = "k_limited";
  launch(device);
  THROWS(device.launch("limited", {absent()}), "; kernel limited.");
}

CASE(wait_until_nothrow_leaves_failures_pending) {
  Device device(directory);
  gpu().failing = "k_plain";
  const uint64_t seq = launch(device);
  device.driver->wait_until_nothrow(seq);
  THROWS(device.driver->wait_until(seq), "kernel plain");
}

}  // namespace test
