// Kernels with tensor operations. They need staging memory, and they have code for two targets.
#include "check.h"

namespace test {
namespace {

// The kernels `first` and `last` allow at most 256 and 128 threads in sm_90a code, and at most 512 threads in sm_80
// code.
struct Limits {
  uint32_t first, last;
  bool operator==(const Limits&) const = default;
};

Limits limits(const std::string& directory, int major, int version, const std::string& isa) {
  gpu().major = major;
  gpu().version = version;
  Device device(directory + "/tensors");
  CHECK(device.driver->info().isa == isa);
  return {device.kernel("first").max_threads, device.kernel("last").max_threads};
}

}  // namespace

CASE(runs_sm_90a_code_on_hopper) {
  CHECK((limits(directory, 9, 12050, "sm_90a") == Limits{256, 128}));
  CHECK((limits(directory, 9, 13000, "sm_90a") == Limits{256, 128}));
}

CASE(runs_sm_80_code_with_old_drivers) { CHECK((limits(directory, 9, 12040, "sm_90") == Limits{512, 512})); }

CASE(runs_sm_80_code_on_other_gpus) {
  CHECK((limits(directory, 8, 13000, "sm_80") == Limits{512, 512}));
  CHECK((limits(directory, 10, 13000, "sm_100") == Limits{512, 512}));
}

CASE(finds_only_kernels_that_the_gpu_can_run) {
  const Device hopper(directory + "/tensors");
  CHECK((hopper.driver->kernel_names() ==
         std::vector<std::string>{"deep", "deep_with_buffer", "first", "in_clusters", "last", "only"}));
  gpu().major = 8;
  const Device ampere(directory + "/tensors");
  CHECK((ampere.driver->kernel_names() == std::vector<std::string>{"first", "last"}));
  CHECK(!ampere.driver->kernel("only"));
}

// The kernel cache stores the code for each target separately.
CASE(caches_each_target) {
  limits(directory, 9, 13000, "sm_90a");
  CHECK(gpu().compiled == 2);
  limits(directory, 8, 13000, "sm_80");
  CHECK(gpu().compiled == 4);
  CHECK((limits(directory, 9, 13000, "sm_90a") == Limits{256, 128}) && gpu().compiled == 4);
}

namespace {

// Launches `kernel` with two [[threadgroup(n)]] arguments. Checks their offsets and the size of the dynamic memory.
void check_staging(Device& device, const char* kernel, uint32_t threads, uint32_t staging) {
  const size_t size = 20, other = 30000;
  device.launch(kernel, {absent(), threadgroup(size), threadgroup(other)}, {{1, 1, 1}, {threads, 1, 1}, false, 1});
  const fake::Launch& l = gpu().launches.back();
  CHECK(l.block == threads);
  CHECK(parameter<uint32_t>(l, 1) == staging);
  CHECK(parameter<uint32_t>(l, 2) == staging + 32);
  CHECK(l.shared == staging + 32 + 30000);
  device.launch(kernel, {absent(), threadgroup(0), threadgroup(0)}, {{1, 1, 1}, {threads, 1, 1}, false, 1});
  CHECK(gpu().launches.back().shared == staging);
}

}  // namespace

CASE(staging_memory_per_threadgroup) {
  Device device(directory + "/tensors");
  check_staging(device, "first", 256, 131072);
  check_staging(device, "first", 32, 131072);
}

CASE(staging_memory_per_simdgroup) {
  Device device(directory + "/tensors");
  check_staging(device, "last", 128, 4 * 16384);
  check_staging(device, "last", 33, 2 * 16384);
  check_staging(device, "last", 1, 16384);
}

CASE(staging_memory_is_the_larger_of_both) {
  gpu().major = 8;
  Device device(directory + "/tensors");
  check_staging(device, "first", 64, 1008);  // max(1000, 2 * 384), rounded up to 16 bytes
  check_staging(device, "first", 65, 3 * 384);
  check_staging(device, "last", 512, 16 * 384);
}

// A kernel whose pipeline can be deeper gets more memory if each multiprocessor runs at most one threadgroup.
CASE(more_staging_memory_for_small_grids) {
  Device device(directory + "/tensors");
  const auto shared = [&](const char* kernel, Size grid, bool by_threads,
                          std::vector<Argument> arguments = {absent()}) {
    device.launch(kernel, arguments, {grid, {64, 1, 1}, by_threads, 1});
    return gpu().launches.back().shared;
  };
  const uint32_t processors = 132, least = 65536, most = 131072 + 1024;
  CHECK(shared("deep", {processors, 1, 1}, false) == most);
  CHECK(shared("deep", {processors + 1, 1, 1}, false) == least);
  CHECK(shared("deep", {64 * processors, 1, 1}, true) == most);
  CHECK(shared("deep", {64 * processors, 2, 1}, true) == least);
  CHECK(shared("deep", {11, 4, 3}, false) == most);
  CHECK(shared("deep", {1, 1, 100000}, false) == least);  // more than one launch
  CHECK(shared("deep_with_buffer", {1, 1, 1}, false, {absent(), threadgroup(0)}) == least);
}

// The kernel has more threads than the dispatch asks for.
CASE(additional_threads) {
  Device device(directory + "/tensors");
  CHECK(device.kernel("in_clusters").max_threads == 256);
  device.launch("in_clusters", {absent()}, {{8, 1, 3}, {64, 1, 1}, false, 1});
  CHECK(gpu().launches.back().block == 96);
  device.launch("in_clusters", {absent()}, {{128, 1, 1}, {64, 1, 1}, true, 1});
  CHECK(gpu().launches.back().block == 96);
  THROWS(device.launch("in_clusters", {absent()}, {{100, 1, 1}, {64, 1, 1}, true, 1}), "in_clusters",
         "complete, one-dimensional");
  THROWS(device.launch("in_clusters", {absent()}, {{4, 1, 1}, {32, 2, 1}, false, 1}), "in_clusters",
         "complete, one-dimensional");
}

CASE(no_more_staging_memory_than_the_gpu_has) {
  gpu().shared_memory = 131072 + 1023;
  Device device(directory + "/tensors");
  device.launch("deep", {absent()}, {{1, 1, 1}, {64, 1, 1}, false, 1});
  CHECK(gpu().launches.back().shared == 65536);
}

// Staging memory does not count toward Metal's limit on threadgroup memory.
CASE(metal_limits_apply_without_staging_memory) {
  Device device(directory + "/tensors");
  const Dispatch one{{1, 1, 1}, {32, 1, 1}, false, 1};
  device.launch("first", {absent(), threadgroup(32768), threadgroup(0)}, one);
  CHECK(gpu().launches.back().shared == 131072 + 32768);
  THROWS(device.launch("first", {absent(), threadgroup(32768), threadgroup(16)}, one),
         "first: expected at most 32768 bytes of threadgroup memory, got 32784");
}

CASE(staging_memory_is_limited) {
  gpu().shared_memory = 140000;
  Device device(directory + "/tensors");
  const Dispatch one{{1, 1, 1}, {32, 1, 1}, false, 1};
  device.launch("first", {absent(), threadgroup(0), threadgroup(0)}, one);
  THROWS(device.launch("first", {absent(), threadgroup(16384), threadgroup(0)}, one),
         "first: expected at most 140000 bytes for tensor operations and threadgroup memory, got 147456");
}

// After a kernel whose threadgroups fill a multiprocessor, which lets the next one start early, only such kernels start
// early. Threadgroups of others would gather on a few multiprocessors.
CASE(starts_early_after_kernels_that_fill_a_multiprocessor) {
  Device device(directory + "/tensors");
  const auto launch = [&](bool fills) {
    device.launch("deep", {absent()}, {{fills ? 1u : 133u, 1, 1}, {64, 1, 1}, false, 1});
    CHECK((gpu().launches.back().shared > 114 * 1024) == fills);
    return gpu().launches.back().early;
  };
  launch(false);
  CHECK(launch(false) && launch(true) && launch(true) && !launch(false) && launch(false));
}

}  // namespace test
