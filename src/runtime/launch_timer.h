// How long launches took on the device: by events around each, read when somebody asks.
#pragma once

#include "driver/driver.h"
#include "runtime/kernel_library.h"

namespace mpsx::runtime {

// One launch, on a driver whose launches are asynchronous. The caller holds launch_mutex().
class LaunchTimer {
 public:
  LaunchTimer(KernelEntry&, driver::Stream*);
  void stop();  // behind the launch; without it the launch is not counted
  ~LaunchTimer();
  LaunchTimer(const LaunchTimer&) = delete;

 private:
  KernelEntry& entry_;
  driver::Stream* stream_;
  driver::Event* from_;
};

// Waits for what was timed, and adds it to the kernels' entries.
void collect_launch_times();
void forget_launch_times();

}  // namespace mpsx::runtime
