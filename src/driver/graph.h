// Graphs: dispatches that a driver prepares once and launches together many times, like CUDA graphs.
#pragma once

#include "driver/driver.h"

namespace mpsx::driver {

// A dispatch of a graph. `arguments` and the values that they point to must outlive the graph.
struct RecordedDispatch {
  const Kernel* kernel;
  const Argument* arguments;
  size_t count;
  Dispatch dispatch;
};

class Graph {
 public:
  virtual ~Graph() = default;
  // Reads the values that dispatch `index` receives by value again, before the next launch.
  virtual void update(size_t index) = 0;
  virtual uint64_t launch() = 0;  // returns a sequence number like Driver::dispatch
};

// A driver that supports graphs.
class GraphDriver {
 public:
  virtual ~GraphDriver() = default;
  // Prepares dispatches, which have succeeded before, to run in order. Returns null if they cannot be part of a graph.
  virtual std::unique_ptr<Graph> new_graph(const RecordedDispatch*, size_t count) = 0;
};

}  // namespace mpsx::driver
