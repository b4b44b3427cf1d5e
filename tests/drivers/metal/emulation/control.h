// Functions with which tests control and inspect the emulation.
#pragma once

#pragma GCC visibility push(default)
extern "C" {

// Returns the number of live objects of a class such as "EmulatedBuffer". With nullptr, counts all classes.
long mpsx_emulation_live(const char* class_name);
// Prints the names of all classes that have live objects to stderr.
void mpsx_emulation_print_live(void);

// Lets `what` succeed `after` times and then fail `times` times:
//   allocation, queue, event, encoder, compile, pipeline   the call returns nil
//   command_buffer                          the command buffer fails without running its kernels
//   execution                               the command buffer completes without running its kernels, to count work
//   gpu_memory                              the command buffer fails with an out-of-memory error
//   device_lost                             this and all later command buffers fail
//   no_device, old_gpu, old_macos, macos_15, macos_26   change the results of MTLCopyAllDevices and NSProcessInfo
//   m5                                      the device has family Apple10, on macOS 26.2
//   macos_14                                MTLCompileOptions has the options of macOS 14
//   exception                               newBufferWithLength: and commandBuffer raise an Objective-C exception
//   archive                                 adding to an archive fails; archive_file: writing fails;
//                                           archive_exception: writing raises an exception
//   tensor, tensor_commands                 creating a tensor fails; a Metal 4 command buffer fails
//   no_metal_4                              the device has no Metal 4 queues
//   no_residency_sets                       the device has no residency sets, as on macOS 14
//   no_capture, capture                     capture is not supported; starting a capture fails
// MPSX_EMULATION_FAIL="what[:after[:times]],…" has the same effect.
void mpsx_emulation_fail(const char* what, int after, int times);

// Sets the maximum of the random delays before a command buffer starts and before it ends. The default is
// $MPSX_EMULATION_DELAY, or 300 microseconds if that is not set. MPSX_EMULATION_SEED makes the delays reproducible.
void mpsx_emulation_delay(unsigned microseconds);

// While `hold` is nonzero, command buffers signal their events but do not complete.
void mpsx_emulation_hold_completions(int hold);

// Create, access and release a buffer that belongs to a different library.
void* mpsx_emulation_new_buffer(unsigned long bytes);
void* mpsx_emulation_contents(void* buffer);
void mpsx_emulation_release(void* buffer);

// Returns the length of the longest chain of dispatches since the last call. Each dispatch in a chain conflicts with
// the one before it.
unsigned long mpsx_emulation_longest_chain(void);
// Returns whether a buffer is in a residency set of a queue.
int mpsx_emulation_resident(void* buffer);

// Returns the last compiled source. Its first line lists the compiler options, for example "3.1 safe precise".
const char* mpsx_emulation_compiled(void);

// Counts since the process started.
unsigned long mpsx_emulation_waits(void);            // waits for incomplete command buffers
unsigned long mpsx_emulation_command_buffers(void);  // committed command buffers
unsigned long mpsx_emulation_dispatches(void);
unsigned long mpsx_emulation_barriers(void);
unsigned long mpsx_emulation_debug_groups(void);
unsigned long mpsx_emulation_pipelines(void);  // compiled pipelines, including those for archives
unsigned long mpsx_emulation_captures(void);  // completed captures
unsigned long mpsx_emulation_intervals_begun(void);  // begun signpost intervals
unsigned long mpsx_emulation_intervals_ended(void);
}
#pragma GCC visibility pop
