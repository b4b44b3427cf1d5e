// Events in the Metal driver: completion and timing.
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "check.h"

using namespace test;

CASE(times_events) {
  Array<float> a(device, 4);
  const float one = 1;
  Event* const from = device.driver->new_event();
  Event* const to = device.driver->new_event();
  CHECK(device.driver->query(from));
  device.driver->synchronize(from);
  THROWS(device.driver->elapsed_ms(from, to), "recorded");
  device.driver->record(from, device.stream);
  CHECK(device.driver->query(from));  // completes at once, because no work precedes it
  mpsx_emulation_delay(50000);
  usleep(20000);
  device.launch("fill", {a.argument(), value(one)}, {4});
  device.driver->record(to, device.stream);
  device.driver->wait(to, device.driver->new_stream());
  if (!device.driver->query(to)) THROWS(device.driver->elapsed_ms(from, to), "complete");
  device.driver->synchronize(to);
  CHECK(device.driver->query(to));
  const double elapsed = device.driver->elapsed_ms(from, to);
  CHECK(elapsed >= 20 && elapsed < 10000);
  CHECK(std::abs(device.driver->elapsed_ms(to, from) + elapsed) < 1e-6);
  CHECK(a[0] == 1);  // the event completes only after earlier work
  device.driver->destroy(from);
  device.driver->destroy(to);
  mpsx_emulation_delay(300);
}

// An event's timestamp is taken when the GPU reaches the event, or when it is recorded if the GPU is idle.
CASE(measures_gpu_time) {
  Array<float> a(device, 4);
  const float one = 1;
  std::vector<Event*> events;
  const auto mark = [&] {
    events.push_back(device.driver->new_event());
    device.driver->record(events.back(), device.stream);
  };
  const auto between = [&](int from, int to) { return device.driver->elapsed_ms(events[from], events[to]); };
  const auto begin = std::chrono::steady_clock::now();
  mpsx_emulation_delay(40000);
  mark();
  for (int batch = 0; batch < 3; ++batch) {
    for (int i = 0; i < 3; ++i) device.launch("fill", {a.argument(), value(one)}, {4});
    mark();
  }
  mark();
  const double queued = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  for (Event* event : events) device.driver->synchronize(event);
  const double all = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  CHECK(between(0, 1) >= 0 && between(1, 2) >= 0 && between(2, 3) >= 0);
  CHECK(std::abs(between(0, 1) + between(1, 2) + between(2, 3) - between(0, 3)) < 1e-6);
  CHECK(between(0, 3) <= all);
  if (between(0, 3) > queued) CHECK(between(3, 4) == 0);  // the GPU was busy, so both events mark the same moment
  mpsx_emulation_delay(0);
  mark();
  usleep(20000);
  mark();
  CHECK(between(5, 6) >= 20 && between(4, 5) >= 0);
  for (Event* event : events) device.driver->destroy(event);
  mpsx_emulation_delay(300);
}

// An event completes when the GPU reaches it, before the command buffer completes.
CASE(completes_events_when_the_gpu_reaches_them) {
  Array<float> a(device, 4);
  const float one = 1, two = 2;
  Event* const from = device.driver->new_event();
  Event* const to = device.driver->new_event();
  device.driver->record(from, device.stream);
  mpsx_emulation_hold_completions(1);
  device.launch("fill", {a.argument(), value(one)}, {4});
  device.driver->record(to, device.stream);
  for (int i = 0; i < 5000 && !device.driver->query(to); ++i) usleep(1000);
  CHECK(device.driver->query(to));
  CHECK(a[3] == 1);
  CHECK(!device.driver->idle(device.stream));
  std::thread later([] {
    usleep(20000);
    mpsx_emulation_hold_completions(0);
  });
  const double elapsed = device.driver->elapsed_ms(from, to);  // waits for the command buffer, which provides the time
  later.join();
  CHECK(elapsed >= 20 && elapsed == device.driver->elapsed_ms(from, to));
  // An event that is recorded again completes only after the new work.
  mpsx_emulation_delay(50000);
  device.launch("fill", {a.argument(), value(two)}, {4});
  device.driver->record(to, device.stream);
  while (!device.driver->query(to)) usleep(100);
  CHECK(a[3] == 2);
  mpsx_emulation_delay(300);
  device.driver->destroy(from);
  device.driver->destroy(to);
}

CASE(completes_events_after_failed_work) {
  Array<float> a(device, 4);
  const float one = 1;
  Event* const from = device.driver->new_event();
  Event* const to = device.driver->new_event();
  device.driver->record(from, device.stream);
  mpsx_emulation_fail("command_buffer", 0, 1);
  device.launch("fill", {a.argument(), value(one)}, {4});
  device.driver->record(to, device.stream);
  for (int i = 0; i < 5000 && !device.driver->query(to); ++i) usleep(1000);
  CHECK(device.driver->query(to));
  device.driver->synchronize(to);
  CHECK(device.driver->elapsed_ms(from, to) >= 0);
  THROWS(device.wait(), "kernel fill");
  device.driver->destroy(from);
  device.driver->destroy(to);
}

BARE_CASE(needs_a_shared_event) {
  mpsx_emulation_fail("event", 0, 1);
  THROWS(make_metal_driver(directory), "Metal could not create a command queue");
}
