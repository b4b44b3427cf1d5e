// Labels, captures, and buffers shared with other libraries.
#include <thread>

#include "check.h"

using namespace test;

CASE(labels_kernels) {
  Array<float> a(device, 4);
  const float one = 1;
  const auto groups = mpsx_emulation_debug_groups(), begun = mpsx_emulation_intervals_begun(),
             ended = mpsx_emulation_intervals_ended();
  device.driver->begin_label("forward");
  device.launch("fill", {a.argument(), value(one)}, {4});
  device.driver->begin_label("attention");
  device.launch("fill", {a.argument(), value(one)}, {4});
  device.launch("fill", {a.argument(), value(one)}, {4});
  // Labels are thread-local, so this launch has no label.
  std::thread([&] { device.launch("add", {a.argument(), a.argument(), a.argument()}, {4}); }).join();
  device.driver->end_label();
  device.driver->end_label();
  device.driver->end_label();  // has no effect without a matching begin_label()
  mpsx_emulation_fail("command_buffer", 0, 1);
  THROWS(device.wait(), "fill in forward, fill x2 in forward/attention, add (");
  CHECK(mpsx_emulation_debug_groups() - groups == 2);
  CHECK(mpsx_emulation_intervals_begun() - begun == 2 && mpsx_emulation_intervals_ended() - ended == 2);
  device.launch("fill", {a.argument(), value(one)}, {4});
  device.wait();
  CHECK(mpsx_emulation_debug_groups() - groups == 2);
  device.driver->begin_label("backward");  // labels the last kernel of a command buffer
  device.launch("fill", {a.argument(), value(one)}, {4});
  device.driver->end_label();
  device.wait();
  CHECK(mpsx_emulation_debug_groups() - groups == 3);
}

CASE(captures_kernels) {
  Array<float> a(device, 4);
  const float one = 1;
  const auto captures = mpsx_emulation_captures(), buffers = mpsx_emulation_command_buffers();
  device.launch("fill", {a.argument(), value(one)}, {4});
  device.driver->start_capture("trace.gputrace");
  CHECK(mpsx_emulation_command_buffers() - buffers == 1);  // earlier work was committed, to exclude it from the capture
  THROWS(device.driver->start_capture("other.gputrace"), "already running");
  device.launch("fill", {a.argument(), value(one)}, {4});
  device.driver->stop_capture();
  CHECK(device.driver->idle(device.stream));  // all work was completed before the capture ended
  CHECK(mpsx_emulation_captures() - captures == 1);
  device.driver->stop_capture();
  CHECK(mpsx_emulation_captures() - captures == 1);
  mpsx_emulation_fail("no_capture", 0, 1);
  THROWS(device.driver->start_capture("trace.gputrace"), "METAL_CAPTURE_ENABLED=1");
  mpsx_emulation_fail("capture", 0, 1);
  THROWS(device.driver->start_capture("trace.gputrace"), "cannot capture to trace.gputrace", "injected");
}

CASE(shares_buffers_of_other_libraries) {
  const float seven = 7;
  const Buffer others = device.driver->allocate(4096);
  const Buffer shared = device.driver->share(others.handle);
  CHECK(shared.contents == others.contents && shared.size == 4096);
  device.driver->release(others);  // `shared` keeps the buffer alive
  device.launch("fill", {{Argument::Kind::buffer, shared.handle, 64}, value(seven)}, {4});
  device.wait();
  CHECK(static_cast<float*>(shared.contents)[19] == 7);
  device.driver->release(shared);
}

CASE(waits_for_one_dispatch) {
  Array<float> a(device, 4), b(device, 4);
  const float one = 1;
  const Argument first[] = {a.argument(), value(one)}, second[] = {b.argument(), value(one)};
  const Kernel& fill = device.kernel("fill");
  const Dispatch four{{4}, {4}};
  mpsx_emulation_delay(20000);
  const uint64_t seq = device.driver->dispatch(device.stream, fill, first, 2, four);
  device.driver->commit(device.stream);
  const uint64_t later = device.driver->dispatch(device.stream, fill, second, 2, four);
  CHECK(seq && later > seq);
  CHECK(!device.driver->is_complete(later));
  const auto waits = mpsx_emulation_waits(), buffers = mpsx_emulation_command_buffers();
  device.driver->wait_until(seq);
  CHECK(device.driver->is_complete(seq) && !device.driver->is_complete(later));
  CHECK(mpsx_emulation_waits() - waits == 1 && mpsx_emulation_command_buffers() == buffers);
  CHECK(a[3] == 1);
  device.driver->wait_until(seq);  // already complete
  CHECK(mpsx_emulation_waits() - waits == 1);
  device.driver->wait_until(later);  // also commits the command buffer
  CHECK(mpsx_emulation_waits() - waits == 2 && mpsx_emulation_command_buffers() - buffers == 1);
  CHECK(b[3] == 1 && device.driver->is_complete(later));
  mpsx_emulation_delay(300);

  // wait_until_nothrow() keeps an error for the next wait.
  mpsx_emulation_fail("command_buffer", 0, 1);
  const uint64_t failing = device.driver->dispatch(device.stream, fill, first, 2, four);
  device.driver->wait_until_nothrow(failing);
  CHECK(device.driver->is_complete(failing));
  THROWS(device.driver->wait_until(seq), "kernel fill");
  device.wait();
}
