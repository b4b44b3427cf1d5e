// Graphs of recorded dispatches.
#include <algorithm>

#include "check.h"
#include "driver/graph.h"

namespace test {
namespace {

// Two dispatches of "plain", and the memory and the value that they use. The second one is split into two launches.
struct Recording {
  Device device;
  Buffer buffer;
  float factor = 2.5f;
  std::vector<std::vector<Argument>> arguments;
  std::vector<RecordedDispatch> dispatches;

  explicit Recording(const std::string& directory) : device(directory), buffer(device.driver->allocate(64)) {
    arguments = {{at(buffer), absent(), value(factor)}, {at(buffer, 8), value(factor), value(factor)}};
    const Kernel* const plain = &device.kernel("plain");
    dispatches = {{plain, arguments[0].data(), 3, {{100, 1, 1}, {32, 1, 1}, true, 1}},
                  {plain, arguments[1].data(), 3, {{1, 65536, 1}, {1, 1, 1}, false, 1}}};
  }
  ~Recording() { device.driver->release(buffer); }
  std::unique_ptr<Graph> graph() {
    return dynamic_cast<GraphDriver&>(*device.driver).new_graph(dispatches.data(), dispatches.size());
  }
};

}  // namespace

CASE(launches_a_graph) {
  Recording recording(directory);
  auto graph = recording.graph();
  CHECK(graph && gpu().launches.empty() && gpu().graphs == 2);
  const uint64_t first = graph->launch(), second = graph->launch();
  CHECK(second == first + 1 && gpu().launches.size() == 6);
  const fake::Launch &a = gpu().launches[0], &b = gpu().launches[1], &c = gpu().launches[2];
  CHECK(a.grid[0] == 4 && a.block == 32 && parameter<float>(a, 2) == 2.5f);
  CHECK(parameter<char*>(a, 0) == recording.buffer.contents);
  CHECK(b.grid[1] == 65535 && c.grid[1] == 1 && parameter<uint32_t>(c, 3, 40) == 65535);
  CHECK(*parameter<float*>(b, 1) == 2.5f);  // a value that the kernel reads through a pointer
  recording.device.driver->wait_until(second);
  CHECK(recording.device.driver->is_complete(second));
}

CASE(orders_the_nodes_of_a_graph_that_conflict) {
  Device device(directory);
  const Buffer memory = device.driver->allocate(1024);
  const float factor = 1;
  const auto use = [&](Access access, size_t begin, size_t end) {
    return Argument{Argument::Kind::buffer, memory.handle, begin, access, begin, end};
  };
  const auto read = [&](size_t begin) { return use(Access::read, begin, begin + 64); };
  const auto write = [&](size_t begin) { return use(Access::write, begin, begin + 64); };
  const std::vector<std::vector<Argument>> arguments = {
      {write(0), absent(), value(factor)},                    // 0
      {write(64), absent(), value(factor)},                   // 1: overlaps with 0
      {write(128), read(0), value(factor)},                   // 2: reads what 0 wrote
      {write(0), read(64), value(factor)},                    // 3: overwrites what 2 reads, and reads what 1 wrote
      {write(192), read(192), value(factor)},                 // 4: independent, and reads what it writes
      {write(256), absent(), value(factor)},                  // 5: uses other memory, so it waits for everything
      {write(320), absent(), value(factor)},                  // 6: everything later waits for 5
      {write(0), use(Access::read, 0, 1024), value(factor)},  // 7: reads everything
  };
  std::vector<RecordedDispatch> dispatches;
  for (const auto& a : arguments)
    dispatches.push_back({&device.kernel("plain"), a.data(), a.size(), {{32, 1, 1}, {32, 1, 1}, true, 1}});
  dispatches[5].dispatch.uses_other_memory = true;
  auto graph = dynamic_cast<GraphDriver&>(*device.driver).new_graph(dispatches.data(), dispatches.size());
  CHECK(graph && (gpu().edges == std::vector<std::vector<size_t>>{{}, {}, {0}, {1, 2}, {}, {3, 4}, {5}, {6}}));
  graph.reset();
  device.driver->release(memory);
}

CASE(updates_a_graph) {
  Recording recording(directory);
  auto graph = recording.graph();
  graph->launch();
  recording.factor = 7;
  for (size_t i = 0; i < 2; ++i) graph->update(i);
  CHECK(*parameter<float*>(gpu().launches[1], 1) == 7);  // the launch has completed before the value changes in place
  graph->launch();
  for (size_t i = 3; i < 6; ++i) CHECK(parameter<float>(gpu().launches[i], 2) == 7);
  CHECK(parameter<float>(gpu().launches[0], 2) == 2.5f);
  const auto& log = gpu().log;
  const auto waited = std::find(log.begin(), log.end(), "cuEventSynchronize");
  CHECK(waited != log.end() && waited < std::find(log.rbegin(), log.rend(), "cuGraphExecKernelNodeSetParams").base());
}

CASE(destroys_a_graph_after_its_last_launch) {
  Recording recording(directory);
  gpu().paused = true;
  auto graph = recording.graph();
  graph->launch();
  graph.reset();  // the fake libcuda reports a graph that is destroyed while it runs
  CHECK(gpu().graphs == 0);
}

CASE(no_graph_of_a_buffer_passed_by_value) {
  Recording recording(directory);
  recording.arguments[1][2] = at(recording.buffer);  // the kernel expects a value
  CHECK(!recording.graph() && gpu().graphs == 0);
}

CASE(no_graph_while_debugging) {
  setenv("MPSX_CUDA_DEBUG", "1", 1);  // runs one kernel at a time, so that errors name it
  CHECK(!Recording(directory).graph());
}

CASE(names_the_graph_that_failed) {
  Recording recording(directory);
  auto graph = recording.graph();
  gpu().failing = "k_plain";
  graph->launch();
  THROWS(recording.device.driver->synchronize(recording.device.driver->default_stream()),
         "kernel a recorded graph of 2 kernels");
}

}  // namespace test
