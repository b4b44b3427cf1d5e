// Runs the backward pass on the calling thread, on drivers whose kernels run on the CPU.
//
// Autograd runs the backward passes of every non-CPU device on a separate thread. With a GPU, that thread only launches
// kernels. But if kernels run on the CPU, that thread opens parallel regions, and libgomp creates a second worker pool
// for it. As soon as there are more workers than cores, libgomp stops spinning, so every parallel region in the
// process, including PyTorch's own, must wake its workers. A small model then takes twice as long.
#pragma once

namespace mpsx::backend {

// Starts autograd's engine before the device is registered, so that the engine creates no thread for the device. Also
// intercepts backward passes that C++ code starts. Does nothing if a GPU driver is expected.
void register_engine();

}  // namespace mpsx::backend
