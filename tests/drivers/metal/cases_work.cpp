// Launches, batching, waits, memory, and libraries of the Metal driver.
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "check.h"

using namespace test;

CASE(describes_the_device) {
  const Info& info = device.driver->info();
  CHECK(info.name == "metal" && info.isa == "apple9" && info.device == "Emulated Apple GPU");
  const Traits& traits = device.driver->traits();
  CHECK(traits.asynchronous && traits.memory == Memory::buffers && traits.vector_bytes == 16);
  CHECK(info.total_memory == uint64_t(8) << 30);
}

CASE(finds_kernels) {
  CHECK(device.driver->kernel("add") == device.driver->kernel("add"));
  CHECK(!device.driver->kernel("no_such_kernel"));
  CHECK(device.kernel("add").name == "add" && device.kernel("add").max_threads == 1024);
  const auto names = device.driver->kernel_names();
  CHECK(names.size() == 6 && names.front() == "add" && names.back() == "scale");
  CHECK(device.kernel("add").simd_width == 32);
  THROWS(device.driver->kernel("add|bias"), "add: expected constant=value, got \"bias\"");
  THROWS(device.driver->kernel("add|bias=1"), "add", "no function constant named bias");
}

CASE(runs_a_kernel) {
  Array<float> a(device, 1000), b(device, 1000), c(device, 1000);
  for (int i = 0; i < 1000; ++i) a[i] = float(i), b[i] = float(2 * i);
  mpsx_emulation_delay(20000);
  device.launch("add", {c.argument(), a.argument(), b.argument()}, {1000}, {256});
  const auto before = mpsx_emulation_waits();
  device.wait();
  CHECK(mpsx_emulation_waits() == before + 1);
  mpsx_emulation_delay(300);
  CHECK(device.driver->idle(device.stream));
  for (int i = 0; i < 1000; ++i) CHECK(c[i] == float(3 * i));
}

CASE(honors_offsets) {
  Array<float> a(device, 64), b(device, 64);
  for (int i = 0; i < 64; ++i) a[i] = float(i), b[i] = 0;
  device.launch("add", {b.argument(8), a.argument(16), a.argument(32)}, {16}, {16});
  device.wait();
  for (int i = 0; i < 64; ++i) CHECK(b[i] == (i >= 8 && i < 24 ? float(2 * i + 32) : 0));
}

CASE(preserves_order) {
  Array<uint32_t> state(device, 7);
  uint32_t expected = 1;
  for (int i = 0; i < 7; ++i) state[i] = 1;
  for (uint32_t step = 0; step < 1000; ++step) {
    device.launch("advance", {state.argument(), value(step)}, {7}, {7});
    expected = expected * 1664525u + step;
  }
  device.wait();
  for (int i = 0; i < 7; ++i) CHECK(state[i] == expected);
}

CASE(commits_in_batches) {
  Array<float> a(device, 4);
  const float one = 1;
  mpsx_emulation_delay(20000);
  const auto before = mpsx_emulation_command_buffers();
  for (int i = 0; i < 8 + 4 * 64; ++i) device.launch("fill", {a.argument(), value(one)}, {4});
  const auto committed = mpsx_emulation_command_buffers() - before;
  CHECK(committed >= 4 && committed <= 1 + 4 * 8);  // commits each of the first 8 immediately, then in batches of 64
  device.wait();
  CHECK(mpsx_emulation_command_buffers() - before == committed);
  mpsx_emulation_delay(300);
}

CASE(commits_on_request) {
  Array<float> a(device, 4);
  const float one = 1;
  const auto before = mpsx_emulation_command_buffers();
  device.driver->commit(device.stream);
  CHECK(mpsx_emulation_command_buffers() == before && device.driver->idle(device.stream));  // nothing to commit
  device.launch("fill", {a.argument(), value(one)}, {4});
  CHECK(mpsx_emulation_command_buffers() == before);
  device.driver->commit(device.stream);
  CHECK(mpsx_emulation_command_buffers() == before + 1);
  device.wait();
  CHECK(a[0] == 1);
}

CASE(waits_only_for_work) {
  Array<float> a(device, 4);
  const float one = 1;
  device.launch("fill", {a.argument(), value(one)}, {4});
  mpsx_emulation_delay(20000);
  const auto before = mpsx_emulation_waits();
  device.wait();
  CHECK(mpsx_emulation_waits() == before + 1);
  device.wait();
  CHECK(mpsx_emulation_waits() == before + 1);
  mpsx_emulation_delay(300);
}

CASE(commits_large_buffers_soon) {
  Array<float> a(device, size_t(150) << 20);  // 600 MiB; two of them exceed the limit
  const float one = 1;
  const auto before = mpsx_emulation_command_buffers();
  for (int i = 0; i < 4; ++i) device.launch("fill", {a.argument(), value(one)}, {4});
  CHECK(mpsx_emulation_command_buffers() == before + 2);
  device.wait();
}

CASE(covers_the_grid) {
  Array<uint32_t> out(device, 13 * 7 * 5);
  for (int i = 0; i < 13 * 7 * 5; ++i) out[i] = 0;
  device.launch("positions", {out.argument()}, {13, 7, 5}, {4, 2, 3});
  device.wait();
  for (uint32_t z = 0, i = 0; z < 5; ++z)
    for (uint32_t y = 0; y < 7; ++y)
      for (uint32_t x = 0; x < 13; ++x, ++i) CHECK(out[i] == x + 100 * y + 10000 * z + 1);
}

CASE(covers_the_grid_in_threadgroups) {
  Array<uint32_t> out(device, 8 * 6 * 6);
  for (int i = 0; i < 8 * 6 * 6; ++i) out[i] = 0;
  device.launch("positions", {out.argument()}, {2, 3, 2}, {4, 2, 3}, false);
  device.wait();
  for (uint32_t z = 0, i = 0; z < 6; ++z)
    for (uint32_t y = 0; y < 6; ++y)
      for (uint32_t x = 0; x < 8; ++x, ++i) CHECK(out[i] == x + 100 * y + 10000 * z + 1);
}

CASE(has_threadgroup_memory) {
  const uint32_t columns = 37;
  Array<float> in(device, 5 * columns), out(device, 5);
  for (uint32_t i = 0; i < 5 * columns; ++i) in[i] = float(i % 10);
  const uint32_t threads = std::min<uint32_t>(32, device.kernel("row_sum").max_threads);
  device.launch("row_sum", {out.argument(), in.argument(), value(columns), threadgroup(threads * 4), threadgroup(4)},
                {5}, {threads}, false);
  device.wait();
  for (uint32_t row = 0; row < 5; ++row) {
    float sum = 0;
    for (uint32_t i = 0; i < columns; ++i) sum += float((row * columns + i) % 10);
    CHECK(out[row] == sum);
  }
}

CASE(accepts_absent_arguments) {
  Array<float> out(device, 8);
  const uint32_t no = 0;
  for (int i = 0; i < 8; ++i) out[i] = 3;
  device.launch("scale", {out.argument(), {Argument::Kind::buffer, nullptr, 0}, value(no)}, {8}, {8});
  device.wait();
  CHECK(out[7] == 6);
}

CASE(copies_values_immediately) {
  Array<float> out(device, 3);
  for (int i = 0; i < 3; ++i) {
    float v = float(i + 1);
    device.launch("fill", {out.argument(i), value(v)}, {1});
    v = -1;
  }
  device.wait();
  CHECK(out[0] == 1 && out[1] == 2 && out[2] == 3);
}

CASE(ignores_empty_grids) {
  Array<float> out(device, 3);
  const float one = 1;
  device.launch("fill", {out.argument(), value(one)}, {0});
  CHECK(device.driver->idle(device.stream));
}

CASE(frees_memory_in_use) {
  Array<float> sum(device, 1000);
  const float one = 1;
  device.launch("fill", {sum.argument(), value(one)}, {1000}, {256});
  for (int i = 0; i < 20; ++i) {
    Array<float> a(device, 1000);
    const float v = float(i);
    device.launch("fill", {a.argument(), value(v)}, {1000}, {256});
    device.launch("add", {sum.argument(), sum.argument(), a.argument()}, {1000}, {256});
  }
  device.wait();
  for (int i = 0; i < 1000; ++i) CHECK(sum[i] == 191);
}

CASE(accepts_values_up_to_the_limit) {
  struct Many {
    float first, others[1023];
  } many{};
  static_assert(sizeof many == 4096);
  many.first = 5;
  Array<float> a(device, 4);
  device.launch("fill", {a.argument(), value(many)}, {4});
  device.wait();
  CHECK(a[3] == 5);
}

CASE(allocates_empty_buffers) {
  const Buffer nothing = device.driver->allocate(0);
  CHECK(nothing.handle && nothing.size == 0);
  Array<float> a(device, 4);
  const uint32_t no = 0;
  for (int i = 0; i < 4; ++i) a[i] = 3;
  device.launch("scale", {a.argument(), {Argument::Kind::buffer, nothing.handle, 0}, value(no)}, {4});
  device.wait();
  device.driver->release(nothing);
  CHECK(a[3] == 6);
}

CASE(addresses_more_than_4_gib) {
  const size_t far = (size_t(9) << 29) / sizeof(float);  // 4.5 GiB, most of which is never touched
  Array<float> a(device, far + 4);
  const float seven = 7;
  device.launch("fill", {a.argument(far), value(seven)}, {4});
  device.wait();
  CHECK(a[far + 3] == 7 && a[far - 1] == 0 && a[far % (size_t(1) << 30)] == 0);
}

CASE(becomes_idle_while_polled) {
  Array<float> a(device, 4);
  const float one = 1;
  device.launch("fill", {a.argument(), value(one)}, {4});  // not committed yet
  for (int i = 0; i < 5000 && !device.driver->idle(device.stream); ++i) usleep(1000);
  CHECK(device.driver->idle(device.stream));
  CHECK(a[3] == 1);
}

CASE(wraps_whole_pages) {
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  auto* memory = static_cast<char*>(aligned_alloc(page, 2 * page));
  const float seven = 7;
  CHECK(!device.driver->wrap(memory + 64, page).handle);
  CHECK(!device.driver->wrap(memory, page + 64).handle);
  const Buffer wrapped = device.driver->wrap(memory, 2 * page);
  CHECK(wrapped.handle && wrapped.contents == memory && wrapped.size == 2 * page);
  device.launch("fill", {{Argument::Kind::buffer, wrapped.handle, page}, value(seven)}, {16}, {16});
  device.wait();
  CHECK(reinterpret_cast<float*>(memory + page)[15] == 7);
  device.driver->release(wrapped);
  free(memory);
}

CASE(reports_free_memory) {
  const size_t before = device.driver->free_memory();
  const Buffer b = device.driver->allocate(size_t(1) << 20);
  CHECK(before - device.driver->free_memory() == size_t(1) << 20);
  device.driver->release(b);
  CHECK(device.driver->free_memory() == before);
}

CASE(runs_on_many_threads) {
  constexpr int kThreads = 4, kRounds = 60;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&device, t] {
      for (int round = 0; round < kRounds; ++round) {
        Array<float> a(device, 64), b(device, 64);
        const float v = float(t * kRounds + round);
        device.launch("fill", {a.argument(), value(v)}, {64}, {64});
        device.launch("add", {b.argument(), a.argument(), a.argument()}, {64}, {64});
        device.wait();
        for (int i = 0; i < 64; ++i) CHECK(b[i] == 2 * v);
        device.driver->idle(device.stream);
      }
    });
  for (auto& thread : threads) thread.join();
}

CASE(exits_with_work_in_flight) {
  Array<float> a(device, 4);
  const float one = 1;
  for (int i = 0; i < 100; ++i) device.launch("fill", {a.argument(), value(one)}, {4});
}

CASE(compiles_sources_given_at_run_time) {
  const std::string text =
      "#include <metal_stdlib>\nusing namespace metal;\n"
      "kernel void triple(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] *= 3; }\n";
  Array<float> a(device, 4);
  for (int i = 0; i < 4; ++i) a[i] = 2;
  const auto library = device.driver->load_library({"a shader", "", text});
  CHECK(library->kernel_names() == std::vector<std::string>{"triple"});
  CHECK(!library->kernel("add"));
  const Argument argument = a.argument();
  device.driver->dispatch(device.stream, *library->kernel("triple"), &argument, 1, {{4}, {4}});
  device.wait();
  CHECK(a[3] == 6);
  THROWS(device.driver->load_library({"a shader", "", "kernel void wrong("}), "cannot compile a shader");
  // Destroy a library while its kernel is in flight.
  const auto other = device.driver->load_library({"another", "", text});
  mpsx_emulation_fail("command_buffer", 0, 1);
  device.driver->dispatch(device.stream, *other->kernel("triple"), &argument, 1, {{4}, {4}});
}
