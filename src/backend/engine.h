// Runs the backward pass on the thread that asked for it, on drivers whose kernels run on the CPU.
//
// Autograd gives every device but the CPU a thread of its own. On a GPU that thread only launches kernels. Where
// kernels run on the CPU it opens parallel regions, and libgomp gives it a second pool of workers. More workers than
// cores make libgomp stop spinning, so each parallel region of the process, PyTorch's own CPU operators included, then
// pays for waking its workers: a small model takes twice as long.
#pragma once

namespace mpsx::backend {

// Starts autograd's engine while the device is not registered yet, so that the engine creates no thread for it, and
// redirects backward passes that C++ code starts. Does nothing where a GPU driver is expected.
void register_engine();

}  // namespace mpsx::backend
