// Failures, and operations that Metal does not support.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "check.h"

using namespace test;

CASE(rejects_unsupported_launches) {
  Array<float> a(device, 4);
  const float one = 1;
  const std::vector<char> large(4097);
  const Argument v = value(one);
  THROWS(device.launch("fill", {a.argument(), v}, {4}, {2048}), "fill", "1024 threads per threadgroup, got 2048x1x1");
  THROWS(device.launch("fill", {a.argument(), v}, {4}, {0}), "fill", "threads per threadgroup, got 0");
  THROWS(device.launch("fill", {a.argument(), {Argument::Kind::bytes, large.data(), 4097}}, {4}), "1 to 4096 bytes",
         "got 4097");
  THROWS(device.launch("fill", {a.argument(), {Argument::Kind::bytes, &one, 0}}, {4}), "1 to 4096 bytes", "got 0");
  THROWS(device.launch("fill", {a.argument(4), v}, {4}), "16 bytes of buffer 0, got 16");
  THROWS(device.launch("fill", std::vector<Argument>(32, v), {4}), "at most 31 buffers");
  THROWS(device.launch("fill", {a.argument(), v}, {1u << 30}, {8}, false), "fill",
         "at most 4294967295 threads per dimension");
  THROWS(device.launch("fill", {a.argument(), v, threadgroup(32769)}, {4}),
         "at most 32768 bytes of threadgroup memory, got 32784");
  device.launch("fill", {a.argument(), v}, {4});  // the driver is still usable
  device.wait();
  CHECK(a[3] == 1);
}

CASE(reports_out_of_memory) {
  test::throws<OutOfMemory>([&] { device.driver->allocate(size_t(1) << 40); }, {"at most 6442450944 bytes"}, __LINE__);
  mpsx_emulation_fail("allocation", 0, 1);
  test::throws<OutOfMemory>([&] { device.driver->allocate(64); }, {"64 bytes"}, __LINE__);
  device.driver->release(device.driver->allocate(64));
}

CASE(throws_errors_at_the_next_wait) {
  Array<float> a(device, 4);
  const float one = 1;
  for (int i = 0; i < 4; ++i) a[i] = 5;
  mpsx_emulation_fail("command_buffer", 0, 1);
  device.launch("fill", {a.argument(), value(one)}, {4});
  device.launch("fill", {a.argument(), value(one)}, {4});
  device.launch("add", {a.argument(), a.argument(), a.argument()}, {4});
  device.driver->commit(device.stream);
  THROWS(device.wait(), "mpsx ", "fill x2, add", "Caused GPU Timeout Error", "(code 2)", "MPSX_METAL_DEBUG");
  CHECK(a[0] == 5);
  device.wait();  // the error is thrown only once
  device.launch("fill", {a.argument(), value(one)}, {4});
  device.wait();
  CHECK(a[0] == 1);
}

CASE(counts_later_failures) {
  Array<float> a(device, 4);
  const float one = 1;
  mpsx_emulation_fail("command_buffer", 1, 2);
  for (int i = 0; i < 4; ++i) {
    device.launch("fill", {a.argument(), value(one)}, {4});
    device.driver->commit(device.stream);
  }
  THROWS(device.wait(), "kernel fill", "1 command buffers after it failed too");
}

CASE(survives_a_missing_command_buffer) {
  Array<float> a(device, 4);
  const float one = 1;
  for (const char* what : {"queue", "encoder"}) {
    mpsx_emulation_fail(what, 0, 1);
    THROWS(device.launch("fill", {a.argument(), value(one)}, {4}), "Metal could not create a command");
    device.launch("fill", {a.argument(), value(one)}, {4});
    device.wait();
  }
}

CASE(reports_pipeline_errors) {
  mpsx_emulation_fail("pipeline", 0, 2);  // fail with the archive, and again without it
  THROWS(device.driver->kernel("positions"), "positions", "injected");
  CHECK(device.driver->kernel("positions"));  // the failure was not cached
}

CASE(throws_after_a_fork) {
  Array<float> a(device, 4);
  const float one = 1;
  Event* const event = device.driver->new_event();
  device.launch("fill", {a.argument(), value(one)}, {4});  // fork during encoding, while a second thread runs
  device.driver->record(event, device.stream);
  std::atomic<bool> ends{false};
  std::thread busy([&] {
    while (!ends) device.launch("fill", {a.argument(), value(one)}, {4});
  });
  const pid_t child = fork();
  if (child == 0) {
    THROWS(device.launch("fill", {a.argument(), value(one)}, {4}), "forked", "spawn");
    THROWS(device.wait(), "forked");
    THROWS(device.driver->allocate(4), "forked");
    THROWS(device.driver->commit(device.stream), "forked");
    THROWS(device.driver->query(event), "forked");
    THROWS(device.driver->synchronize(event), "forked");
    THROWS(device.driver->elapsed_ms(event, event), "forked");
    device.driver->destroy(event);
    std::_Exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  ends = true;
  busy.join();
  CHECK(status == 0);
  device.driver->destroy(event);
}

CASE(translates_objective_c_exceptions) {
  Array<float> a(device, 4);
  const float one = 1;
  mpsx_emulation_fail("exception", 0, 1);
  THROWS(device.driver->allocate(4), "Metal raised an exception");
  mpsx_emulation_fail("exception", 0, 1);
  THROWS(device.launch("fill", {a.argument(), value(one)}, {4}), "Metal raised an exception");
  device.launch("fill", {a.argument(), value(one)}, {4});  // the driver is still usable
  device.wait();
  CHECK(a[3] == 1);
}

BARE_CASE(runs_kernels_one_by_one_for_debugging) {
  setenv("MPSX_METAL_DEBUG", "1", 1);
  {
    Device device(directory);
    unsetenv("MPSX_METAL_DEBUG");
    Array<float> a(device, 4);
    const float one = 1;
    const auto before = mpsx_emulation_command_buffers();
    mpsx_emulation_fail("command_buffer", 1, 1);
    for (int i = 0; i < 3; ++i) device.launch("fill", {a.argument(), value(one)}, {4});
    THROWS(device.wait(), "kernel fill", "mpsx 2");
    CHECK(mpsx_emulation_command_buffers() - before == 3);
    // Exceed the queue's limit on incomplete command buffers.
    for (int i = 0; i < 200; ++i) device.launch("fill", {a.argument(), value(one)}, {4});
    device.wait();
  }
}

BARE_CASE(finds_no_device) {
  mpsx_emulation_fail("no_device", 0, 1);
  CHECK(!make_metal_driver(directory));
}

BARE_CASE(needs_a_new_macos) {
  mpsx_emulation_fail("old_macos", 0, 1);
  THROWS(make_metal_driver(directory), "macOS 14 or later", "got macOS 13.6");
}

BARE_CASE(needs_an_apple_gpu) {
  mpsx_emulation_fail("old_gpu", 0, 1000);  // supportsFamily: returns NO for all families
  THROWS(make_metal_driver(directory), "expected an Apple GPU (M1 or later), got Emulated Apple GPU");
  mpsx_emulation_fail("old_gpu", 0, 0);
}

BARE_CASE(needs_a_kernel_library) {
  THROWS(make_metal_driver(directory + "/none"), "expected mpsx.metallib or mpsx.metal", "reinstall");
  mpsx_emulation_fail("compile", 0, 1);
  THROWS(make_metal_driver(directory), "cannot load the kernel library", "mpsx.metallib", "injected");
}

BARE_CASE(compiles_sources_on_demand) {
  Device device(directory + "/sources");
  CHECK(device.driver->kernel_names().size() == 8);
  THROWS(device.driver->kernel("broken"), "broken: cannot compile broken.metal", "program_source:2");
  Array<float> a(device, 4);
  const float one = 1;
  mpsx_emulation_fail("macos_14", 0, 1);
  mpsx_emulation_fail("macos_26", 0, 1000);                     // the driver's own kernels still use Metal 3.1
  device.launch("fill", {a.argument(), value(one)}, {4}, {4});  // compiles the first unit
  CHECK(compiled("3.1 safe precise"));
  device.launch("twice", {a.argument()}, {4}, {4});  // compiles the second unit
  CHECK(compiled("3.1 safe precise"));
  mpsx_emulation_fail("macos_26", 0, 0);
  device.wait();
  CHECK(a[3] == 2);
}

BARE_CASE(compiles_a_broken_file_once) {
  Device device(directory + "/sources");
  mpsx_emulation_fail("compile", 0, 1);
  for (int i = 0; i < 2; ++i)
    THROWS(device.driver->kernel("twice"), "twice: cannot compile second.metal", "injected");
  CHECK(device.driver->kernel("fill"));  // of another file
  Device other(directory + "/sources");
  CHECK(other.driver->kernel("twice"));
}

CASE(distinguishes_out_of_memory_errors) {
  Array<float> a(device, 4);
  const float one = 1;
  mpsx_emulation_fail("gpu_memory", 0, 1);
  device.launch("fill", {a.argument(), value(one)}, {4});
  test::throws<OutOfMemory>([&] { device.wait(); }, {"kernel fill", "Insufficient Memory", "(code 8)"}, __LINE__);
  mpsx_emulation_fail("command_buffer", 0, 1);
  device.launch("fill", {a.argument(), value(one)}, {4});
  try {
    device.wait();
    CHECK(false);
  } catch (const OutOfMemory&) {
    CHECK(false);
  } catch (const Error&) {
  }
  device.launch("fill", {a.argument(), value(one)}, {4});  // the driver is still usable
  device.wait();
  CHECK(a[3] == 1);
}

BARE_CASE(loses_the_device) {
  Device device(directory);
  Array<float> a(device, 4);
  const float one = 1;
  mpsx_emulation_fail("device_lost", 0, 1);
  device.launch("fill", {a.argument(), value(one)}, {4});
  THROWS(device.wait(), "fill", "Internal Error");
  device.launch("fill", {a.argument(), value(one)}, {4});
  THROWS(device.wait(), "fill", "Internal Error");
}
