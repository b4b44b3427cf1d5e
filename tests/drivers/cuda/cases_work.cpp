// Memory, kernels and launches.
#include <filesystem>
#include <fstream>
#include <thread>

#include "check.h"
#include "driver/graph.h"

namespace test {

CASE(allocates_on_the_gpu) {
  const Device device(directory);
  const Buffer b = device.driver->allocate(1000);
  CHECK(b.handle == b.contents && b.size == 1000);
  const auto& log = gpu().log;
  CHECK((std::vector<std::string>(log.end() - 3, log.end()) ==
         std::vector<std::string>{"cuMemAllocManaged", "cuMemAdvise", "cuMemPrefetchAsync"}));
  const size_t free = device.driver->free_memory();
  device.driver->release(b);
  CHECK(device.driver->free_memory() == free + 1000);
  CHECK(!device.driver->wrap(b.contents, 4096).handle);
}

// Whether both a launch and a node of a graph that waits for one other node start early.
bool starts_early(const std::string& directory) {
  Device device(directory);
  const Buffer b = device.driver->allocate(64);
  for (int i = 0; i < 2; ++i) device.launch("scaled", {at(b)});
  const std::vector<Argument> arguments = {at(b)};
  const RecordedDispatch recorded = {&device.kernel("scaled"), arguments.data(), 1, {}};
  const RecordedDispatch dispatches[] = {recorded, recorded};
  auto graph = dynamic_cast<GraphDriver&>(*device.driver).new_graph(dispatches, 2);
  graph->launch();
  device.launch("scaled", {at(b)});
  const auto& launches = gpu().launches;
  CHECK(launches.size() == 5 && !launches[0].early && !launches[2].early && launches[3].early == launches[1].early);
  CHECK(!launches[4].early);  // it waits for the whole graph
  CHECK(gpu().edges[1] == std::vector<size_t>{0});
  graph.reset();
  device.driver->release(b);
  return launches[1].early;
}
CASE(kernels_start_early) { CHECK(starts_early(directory)); }
CASE(kernels_do_not_start_early_before_hopper) {
  gpu().major = 8;
  CHECK(!starts_early(directory));
}
CASE(kernels_do_not_start_early_with_an_older_driver) {
  gpu().version = 12020;
  CHECK(!starts_early(directory));
}

CASE(exact_buffers) {
  setenv("MPSX_CUDA_EXACT_BUFFERS", "1", 1);
  const Device device(directory);
  CHECK(device.driver->traits().exact_allocations);
  const Buffer b = device.driver->allocate(1000);
  CHECK(gpu().log.back() == "cuMemAlloc");
  device.driver->prefetch(b.contents, 1000);  // must not migrate the memory
  CHECK(gpu().log.back() == "cuMemAlloc");
  device.driver->release(b);
}

CASE(host_resident_memory) {
  Device device(directory);
  const Buffer near = device.driver->allocate_host_resident(24), far = device.driver->allocate(24);
  CHECK(near.handle == near.contents && gpu().log[gpu().log.size() - 4] == "cuMemHostAlloc");
  device.launch("limited", {at(near)});
  const char text[24] = "over there";
  device.driver->copy(far.contents, text, sizeof text);
  CHECK(gpu().log.back() == "cuMemcpy" && std::string(static_cast<char*>(far.contents)) == text);
  device.driver->prefetch(far.contents, 24);
  CHECK(gpu().log.back() == "cuMemPrefetchAsync");
  device.driver->release(near);
  device.driver->release(far);
}

CASE(allocates_at_most_the_free_memory) {
  gpu().free = size_t(1) << 30;
  const Device device(directory);
  const size_t half = size_t(256) << 20;
  const Buffer first = device.driver->allocate(half);
  gpu().free = size_t(1) << 30;  // as if pages had migrated to the CPU
  const Buffer second = device.driver->allocate(half);
  throws<OutOfMemory>([&] { device.driver->allocate(1); }, {"has 0 bytes available, 1 are needed"}, __LINE__);
  device.driver->release(second);
  gpu().free = size_t(300) << 20;  // as if a different process used the rest
  throws<OutOfMemory>([&] { device.driver->allocate(1); }, {"bytes available"}, __LINE__);
  device.driver->release(first);
}

CASE(caches_compiled_kernels_on_disk) {
  {
    Device device(directory);
    const Kernel& plain = device.kernel("plain");
    CHECK(plain.name == "plain" && plain.max_threads == 1024 && &plain == &device.kernel("plain"));
    CHECK(device.kernel("limited").max_threads == 64);
    CHECK(!device.driver->kernel("unknown"));
    CHECK(gpu().compiled == 2);
  }
  Device again(directory);
  again.kernel("plain");
  CHECK(gpu().compiled == 2);
  gpu().version = 13010;  // simulate a driver with a newer PTX compiler
  Device newer(directory);
  newer.kernel("plain");
  CHECK(gpu().compiled == 3);
}

CASE(generates_line_information_on_request) {
  Device device(directory);
  device.kernel("plain");
  CHECK(gpu().compiled == 1 && !gpu().line_info);
  setenv("MPSX_CUDA_LINE_INFO", "1", 1);
  Device with_lines(directory);
  with_lines.kernel("plain");
  CHECK(gpu().compiled == 2 && gpu().line_info);  // the cached kernel has no lines
}

CASE(compiles_kernels_for_larger_threadgroups) {
  Device device(directory);
  device.kernel("plain");
  CHECK(gpu().compiled == 1 && gpu().registers == 0);
  const Kernel& large = device.kernel("plain|[threads]=512");
  CHECK(large.name == "plain" && gpu().compiled == 2 && gpu().registers == 128);
  device.kernel("plain|constant=3|[threads]=768");
  CHECK(gpu().compiled == 3 && gpu().registers == 80);
  CHECK(&device.kernel("plain|[threads]=512") == &large);
  // The value of a function constant named `threads` does not limit registers, so the code is the first kernel's.
  CHECK(device.kernel("plain|threads=8").name == "plain|threads=8" && gpu().compiled == 3);
  Device again(directory);
  again.kernel("plain|[threads]=512");
  CHECK(gpu().compiled == 3);  // from the cache
}

CASE(compiles_kernels_in_parallel) {
  Device device(directory);
  gpu().links_at_once = 2;
  const Kernel* found[3] = {};
  std::vector<std::thread> threads;
  for (const Kernel*& kernel : found)
    threads.emplace_back([&] { kernel = &device.kernel(&kernel == found ? "plain" : "limited"); });
  for (std::thread& thread : threads) thread.join();
  CHECK(gpu().wrong.empty() && gpu().compiled == 2);  // two threads look up the same kernel
  CHECK(found[0]->name == "plain" && found[1]->name == "limited" && found[1] == found[2]);
}

CASE(recompiles_damaged_cache_files) {
  namespace fs = std::filesystem;
  const auto compiled = [&](std::initializer_list<const char*> kernels) {
    Device device(directory);
    const int before = gpu().compiled;
    for (const char* name : kernels) device.kernel(name);
    return gpu().compiled - before;
  };
  CHECK(compiled({"limited"}) == 1 && compiled({"limited"}) == 0);
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(std::getenv("MPSX_CACHE_DIR")))
    if (entry.is_regular_file()) files.push_back(entry.path());
  CHECK(files.size() == 1);
  const auto read = [](const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(file)), {});
  };
  const std::string data = read(files[0]);
  std::string changed = data;
  changed[data.size() / 2] ^= 1;
  for (const std::string& damaged :
       {std::string(), data.substr(0, data.size() / 2), data.substr(1), data + "x", changed, std::string(200, 'x')}) {
    std::ofstream(files[0], std::ios::binary) << damaged;
    CHECK(compiled({"limited"}) == 1 && compiled({"limited"}) == 0 && read(files[0]) == data);
  }
  // Replace the file with a valid file of a different kernel.
  CHECK(compiled({"plain"}) == 1);
  for (const auto& entry : fs::directory_iterator(files[0].parent_path()))
    if (entry.path() != files[0]) fs::copy_file(entry.path(), files[0], fs::copy_options::overwrite_existing);
  CHECK(compiled({"limited"}) == 1 && read(files[0]) == data);
  CHECK((fs::status(files[0].parent_path()).permissions() & fs::perms::all) == fs::perms::owner_all);
  fs::permissions(files[0].parent_path(), fs::perms::all);  // let other users write to the folder
  CHECK(compiled({"limited"}) == 1);
}

CASE(reports_compiler_errors) {
  Device device(directory);
  gpu().reject_link = 1;
  THROWS(device.driver->kernel("plain"), "plain: the NVIDIA driver cannot compile it", "ptxas says no");
  device.kernel("plain");  // the failure must not be cached
}

CASE(checks_threadgroup_memory_before_compiling) {
  Device device(directory);
  THROWS(device.driver->kernel("large"), "large: expected at most 32768 bytes of threadgroup memory, got 65536");
  CHECK(gpu().compiled == 0);
  device.kernel("plain");  // other kernels in the same library file still work
}

CASE(passes_parameters) {
  Device device(directory);
  const Buffer a = device.driver->allocate(64);
  const float s = 2.5f;
  device.launch("plain", {at(a, 16), absent(), value(s)}, {{100, 3, 1}, {32, 2, 1}, true, 1});
  const fake::Launch& l = gpu().launches.at(0);
  CHECK(parameter<char*>(l, 0) == static_cast<char*>(a.contents) + 16 && !parameter<char*>(l, 1));
  CHECK(parameter<float>(l, 2) == s && parameter<uint32_t>(l, 2, 4) == 0);  // omitted bytes are zero
  CHECK(l.grid[0] == 4 && l.grid[1] == 2 && l.grid[2] == 1 && l.block == 64 && l.shared == 0);
  const uint32_t grid[] = {100, 3, 1, 4, 2, 1, 32, 2, 1, 0, 0, 0};
  for (size_t i = 0; i < 12; ++i) CHECK(parameter<uint32_t>(l, 3, 4 * i) == grid[i]);
  device.driver->release(a);
}

CASE(converts_between_values_and_addresses) {
  Device device(directory);
  const Buffer a = device.driver->allocate(64);
  *static_cast<float*>(a.contents) = 3.5f;
  const uint64_t shape[512] = {7};
  // Pass a value to a buffer parameter, and a buffer to a value parameter. The driver reads the buffer once the earlier
  // work has finished.
  for (int i = 0; i < 300; ++i) device.launch("plain", {at(a), value(shape), at(a)});
  const fake::Launch& first = gpu().launches.at(0);
  CHECK(*parameter<uint64_t*>(first, 1) == 7 && parameter<float>(first, 2) == 3.5f);
  // The ring buffer for values wraps around only after the GPU has read the old values.
  CHECK(parameter<char*>(gpu().launches.at(256), 1) == parameter<char*>(first, 1));
  device.driver->release(a);
}

CASE(threadgroup_memory) {
  Device device(directory);
  const Buffer a = device.driver->allocate(64);
  device.launch("with threadgroup", {at(a), threadgroup(20), threadgroup(8)}, {{2, 1, 1}, {32, 1, 1}, false, 1});
  const fake::Launch& l = gpu().launches.back();
  CHECK(parameter<uint32_t>(l, 1) == 0 && parameter<uint32_t>(l, 2) == 32 && l.shared == 48);
  THROWS(device.launch("with threadgroup", {at(a), threadgroup(20)}), "missing argument [[threadgroup(1)]]");
  THROWS(device.launch("with threadgroup", {at(a), threadgroup(20000), threadgroup(20000)}),
         "expected at most 32768 bytes of threadgroup memory, got 40000");
  device.driver->release(a);
}

CASE(splits_grids_beyond_cuda_limits) {
  Device device(directory);
  device.launch("plain", {absent(), absent(), absent()}, {{2, 70000, 131071}, {1, 1, 1}, false, 1});
  CHECK(gpu().launches.size() == 6);
  uint64_t groups = 0;
  for (const auto& l : gpu().launches) {
    groups += uint64_t(l.grid[0]) * l.grid[1] * l.grid[2];
    CHECK(parameter<uint32_t>(l, 3, 16) == 70000);
  }
  CHECK(groups == uint64_t(2) * 70000 * 131071);
  const fake::Launch& last = gpu().launches.back();
  CHECK(parameter<uint32_t>(last, 3, 40) == 65535 && parameter<uint32_t>(last, 3, 44) == 131070 && last.grid[2] == 1);
}

CASE(rejects_what_metal_rejects) {
  Device device(directory);
  THROWS(device.launch("plain", {absent()}), "plain: expected 3 buffers, got 1");
  THROWS(device.launch("limited", {absent()}, {{1, 1, 1}, {65, 1, 1}, true, 1}), "expected 1 to 64 threads", "got 65");
  THROWS(device.launch("limited", {absent()}, {{1, 1, 1}, {0, 1, 1}, true, 1}), "got 0");
  THROWS(device.launch("limited", {absent()}, {{1u << 31, 1, 1}, {2, 1, 1}, false, 1}), "at most 4294967295 threads");
  CHECK(device.launch("limited", {absent()}, {{0, 1, 1}, {1, 1, 1}, true, 1}) == 0 && gpu().launches.empty());
}

CASE(keys_with_function_constants) {
  Device device(directory);
  CHECK(device.kernel("scaled|factor=2.5|on=1").name == "scaled|factor=2.5|on=1" && gpu().launches.empty());
  CHECK(!device.driver->kernel("other|factor=1"));
}

CASE(other_threads) {
  Device device(directory);
  const Buffer a = device.driver->allocate(64);
  std::thread([&] {
    device.launch("plain", {at(a), absent(), absent()});
    device.driver->synchronize(device.driver->default_stream());
    device.driver->release(a);
  }).join();
}

}  // namespace test
