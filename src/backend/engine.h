// Runs the backward pass on the calling thread, on drivers whose kernels run on the CPU.
//
// Autograd runs the backward pass of every non-CPU device on a separate thread. With a GPU, that thread only launches
// kernels. With kernels on the CPU, that thread opens parallel regions, and libgomp creates a second worker pool for
// it. Once there are more workers than cores, libgomp stops spinning, so every parallel region in the process,
// including PyTorch's own, has to wake its workers. This makes a small model take twice as long.
#pragma once

namespace mpsx::backend {

// Starts autograd's engine before the device is registered, so that the engine creates no thread for it, and intercepts
// backward passes started by C++ code. Does nothing if a GPU driver is expected.
void register_engine();

}  // namespace mpsx::backend
