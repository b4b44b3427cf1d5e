// Kernels that overlap: barriers between those that conflict, fences between command buffers, and lifetimes of memory.
#include <unistd.h>

#include <random>

#include "check.h"
#include "driver/metal/hazards.h"

using namespace test;
using mpsx::driver::metal::Hazards;

namespace {

// `count` elements of an array that the kernel reads or writes.
template <typename T>
Argument part(const Array<T>& array, Access access, size_t first, size_t count) {
  Argument a = array.argument(first);
  a.access = access;
  a.begin = first * sizeof(T);
  a.end = (first + count) * sizeof(T);
  return a;
}
template <typename T>
Argument in(const Array<T>& array) {
  return part(array, Access::read, 0, array.buffer.size / sizeof(T));
}
template <typename T>
Argument out(const Array<T>& array) {
  return part(array, Access::write, 0, array.buffer.size / sizeof(T));
}

// Calls `f` and returns the number of barriers that it encodes.
template <typename F>
unsigned long barriers(F&& f) {
  const unsigned long before = mpsx_emulation_barriers();
  f();
  return mpsx_emulation_barriers() - before;
}

void fill(Device& device, const Argument& to, float v, uint32_t count = 16) {
  device.launch("fill", {to, value(v)}, {count}, {16});
}
void add(Device& device, const Argument& to, const Argument& a, const Argument& b, uint32_t count = 16) {
  device.launch("add", {to, a, b}, {count}, {16});
}

}  // namespace

CASE(overlaps_independent_kernels) {
  Array<float> a(device, 16), b(device, 16), c(device, 16), d(device, 16);
  CHECK(barriers([&] {
          fill(device, out(a), 1);
          fill(device, out(b), 2);
        }) == 0);
  CHECK(barriers([&] { add(device, out(c), in(a), in(b)); }) == 1);
  CHECK(barriers([&] { add(device, out(d), in(a), in(a)); }) == 0);
  device.wait();
  CHECK(c[15] == 3 && d[15] == 2);
  CHECK(barriers([&] {  // a new encoder follows all earlier work
          add(device, out(a), in(c), in(d));
          add(device, out(b), in(c), in(c));
        }) == 0);
  device.wait();
  CHECK(a[0] == 5 && b[0] == 6);
}

CASE(orders_conflicting_kernels) {
  Array<float> a(device, 16), b(device, 16), c(device, 16);
  for (int round = 0; round < 20; ++round) {
    fill(device, out(a), 1);
    CHECK(barriers([&] { add(device, out(b), in(a), in(a)); }) == 1);  // reads what was written
    CHECK(barriers([&] { fill(device, out(a), 5); }) == 1);            // writes what was read
    CHECK(barriers([&] { fill(device, out(a), 7); }) == 1);            // writes what was written
    CHECK(barriers([&] { fill(device, out(c), 8); }) == 0);
    device.wait();
    CHECK(a[3] == 7 && b[3] == 2 && c[3] == 8);
  }
}

CASE(orders_kernels_by_the_ranges_that_they_access) {
  Array<float> a(device, 64);
  const auto range = [&](Access access, size_t first, size_t count) { return part(a, access, first, count); };
  CHECK(barriers([&] {
          fill(device, range(Access::write, 0, 16), 1);
          fill(device, range(Access::write, 16, 16), 2);
          fill(device, range(Access::write, 32, 16), 3);
        }) == 0);
  CHECK(barriers([&] {
          add(device, range(Access::write, 48, 16), range(Access::read, 0, 16), range(Access::read, 16, 16));
        }) == 1);
  CHECK(barriers([&] { fill(device, range(Access::write, 32, 16), 9); }) == 0);  // the barrier already orders it
  CHECK(barriers([&] { fill(device, a.argument(31), 6, 1); }) == 1);             // may use the whole buffer
  CHECK(barriers([&] { fill(device, range(Access::write, 16, 15), 4, 15); }) == 1);
  device.wait();
  CHECK(a[0] == 1 && a[30] == 4 && a[31] == 6 && a[32] == 9 && a[63] == 3);
}

// Barriers separate exactly the dispatches that conflict, as long as the hash table has room.
CASE(finds_the_conflicts_of_random_dispatches) {
  constexpr size_t kBlock = 256, kRoom = 512;
  struct Use {
    const void* buffer;
    size_t begin;
    bool written;
  };
  std::mt19937 random(7);
  struct Memory {
    size_t buffers, blocks;
  };
  for (const auto& [buffers, blocks] : {Memory{3, 3}, Memory{3, 40}, Memory{400, 1}, Memory{3, 1000000}}) {
    Hazards hazards;
    std::vector<Use> since;  // the last barrier
    size_t full = 0;
    for (int step = 0; step < 3000; ++step) {
      std::vector<Argument> arguments;
      std::vector<Use> uses;
      for (size_t i = 0, n = step % 2 ? 31 : random() % 32; i < n; ++i) {
        const size_t begin = random() % blocks * kBlock;
        const size_t k = random() % buffers;
        const auto* const buffer = reinterpret_cast<const void*>(64 + k * k * 64);  // uneven, so that slots collide
        const Access access = random() % 8 ? Access::read : Access::write;
        arguments.push_back(
            {Argument::Kind::buffer, random() % 9 ? buffer : nullptr, begin, access, begin, begin + kBlock});
        if (arguments.back().data) uses.push_back({buffer, begin, access == Access::write});
      }
      bool conflict = false;
      for (const Use& a : since)
        for (const Use& b : uses) conflict |= a.buffer == b.buffer && a.begin == b.begin && (a.written || b.written);
      if (step % 100 == 99) {
        hazards.clear();
        since.clear();
        conflict = false;
      }
      const bool barrier = hazards.add(arguments.data(), arguments.size(), {{1}, {1}});
      CHECK(barrier || !conflict);
      if (barrier && !conflict) CHECK(++full && since.size() > kRoom);
      if (barrier) since.clear();
      since.insert(since.end(), uses.begin(), uses.end());
    }
    CHECK((full > 0) == (blocks == 1000000));
  }
}

CASE(orders_kernels_of_many_buffers) {
  constexpr size_t kArrays = 600;  // more than the hash table has buckets
  std::vector<std::unique_ptr<Array<float>>> arrays;
  for (size_t i = 0; i < kArrays; ++i) arrays.push_back(std::make_unique<Array<float>>(device, 4));
  for (int round = 0; round < 2; ++round)
    for (size_t i = 0; i < kArrays; ++i) {
      fill(device, out(*arrays[i]), float(i), 4);
      if (i % 7 == 6) add(device, out(*arrays[i - 1]), in(*arrays[i - 3]), in(*arrays[i]), 4);
    }
  device.wait();
  for (size_t i = 0; i < kArrays; ++i)
    CHECK((*arrays[i])[3] == (i % 7 == 5 && i + 1 < kArrays ? float(i - 2) + float(i + 1) : float(i)));
}

CASE(orders_command_buffers) {
  Array<uint32_t> state(device, 7);
  uint32_t expected = 1;
  for (int i = 0; i < 7; ++i) state[i] = 1;
  for (uint32_t step = 0; step < 20; ++step) {
    device.launch("advance", {state.argument(), value(step)}, {7}, {7});
    device.driver->commit(device.stream);
    expected = expected * 1664525u + step;
  }
  device.wait();
  for (int i = 0; i < 7; ++i) CHECK(state[i] == expected);
}

// A kernel may use memory through pointers that its arguments contain.
CASE(orders_kernels_that_use_other_memory) {
  Array<float> a(device, 16), b(device, 16), c(device, 16);
  const auto launch = [&](const Array<float>& to, bool uses_other_memory) {
    const float one = 1;
    const Argument arguments[] = {out(to), value(one)};
    device.driver->dispatch(device.stream, device.kernel("fill"), arguments, 2,
                            {{16}, {16}, true, 1, uses_other_memory});
  };
  CHECK(barriers([&] { launch(a, true); }) == 0);
  CHECK(barriers([&] { launch(b, false); }) == 1);
  CHECK(barriers([&] { launch(c, false); }) == 0);
  CHECK(barriers([&] { launch(a, true); }) == 1);
  device.wait();
  CHECK(a[0] == 1 && b[0] == 1 && c[0] == 1);
}

CASE(detects_writes_to_memory_declared_as_read_only) {
  Array<float> a(device, 16), b(device, 16);
  fill(device, part(a, Access::read, 0, 16), 1);
  THROWS(device.wait(), "fill: write of 4 bytes at byte ", "of buffer 0, which the launcher declared as read-only");
  add(device, out(a), in(a), in(b));  // the same memory is also declared as written
  device.wait();
}

CASE(detects_accesses_outside_the_declared_range) {
  Array<float> a(device, 32);
  fill(device, part(a, Access::write, 8, 8), 1);
  THROWS(device.wait(), "fill: out-of-bounds write of 4 bytes at byte ", "of buffer 0, which has 32 bytes");
}

CASE(keeps_released_memory_until_its_work_is_complete) {
  const long before = mpsx_emulation_live("EmulatedBuffer");
  mpsx_emulation_delay(20000);
  {
    Array<float> a(device, 16), b(device, 16);
    fill(device, out(a), 1);
    device.driver->commit(device.stream);
    fill(device, out(b), 1);
  }
  CHECK(mpsx_emulation_live("EmulatedBuffer") == before + 2);
  device.wait();
  CHECK(mpsx_emulation_live("EmulatedBuffer") == before);
  Array<float>(device, 16);
  CHECK(mpsx_emulation_live("EmulatedBuffer") == before);  // freed immediately, because no work is in flight
  mpsx_emulation_delay(300);
}

CASE(keeps_memory_resident) {
  Array<float> a(device, 16);
  CHECK(!mpsx_emulation_resident(a.buffer.handle));
  fill(device, out(a), 1);
  device.wait();
  CHECK(mpsx_emulation_resident(a.buffer.handle));
  Array<float> b(device, (size_t(5) << 30) / sizeof(float));  // the emulated GPU has 8 GiB
  Array<float> c(device, (size_t(5) << 30) / sizeof(float));
  fill(device, out(a), 1);
  device.wait();
  CHECK(mpsx_emulation_resident(b.buffer.handle) && !mpsx_emulation_resident(c.buffer.handle));
}

BARE_CASE(keeps_memory_resident_on_macos_15) {
  for (const char* what : {"macos_15", "no_metal_4"}) mpsx_emulation_fail(what, 0, 1000);
  {
    Device device(directory);
    Array<float> a(device, 16);
    fill(device, out(a), 1);
    device.wait();
    CHECK(a[15] == 1 && mpsx_emulation_resident(a.buffer.handle));
  }
  for (const char* what : {"macos_15", "no_metal_4"}) mpsx_emulation_fail(what, 0, 0);
}

BARE_CASE(runs_without_residency_sets) {
  mpsx_emulation_fail("no_residency_sets", 0, 1);
  Device device(directory);
  Array<float> a(device, 16);
  fill(device, out(a), 1);
  device.wait();
  CHECK(a[15] == 1 && !mpsx_emulation_resident(a.buffer.handle));
}
