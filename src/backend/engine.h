// Runs the backward pass on the calling thread on drivers whose kernels run on the CPU.
//
// Autograd runs the backward pass of every device except the CPU on a separate thread. On a GPU that thread only
// launches kernels. Where kernels run on the CPU it opens parallel regions, for which libgomp creates a second pool of
// workers. With more workers than cores, libgomp stops spinning, so every parallel region of the process, including
// PyTorch's own, has to wake its workers: a small model takes twice as long.
#pragma once

namespace mpsx::backend {

// Starts autograd's engine before the device is registered, so that the engine creates no thread for it, and redirects
// backward passes started by C++ code. Does nothing if a GPU driver is expected.
void register_engine();

}  // namespace mpsx::backend
