// How tests steer the emulation and read what it saw.
#pragma once

#pragma GCC visibility push(default)
extern "C" {

// Live objects of a class ("EmulatedBuffer"), or of all classes.
long mpsx_emulation_live(const char* class_name);
// Prints every class with live objects to stderr.
void mpsx_emulation_print_live(void);

// Makes the next `times` occasions of `what` fail, after `after` that go well:
//   allocation, queue, event, encoder, compile, pipeline   the call returns nil
//   command_buffer                          it ends with an error, its kernels not run
//   gpu_memory                              like that, for lack of memory
//   device_lost                             like that, and so do all command buffers after it
//   no_device, old_gpu, old_macos, macos_15, macos_26   what MTLCopyAllDevices and NSProcessInfo find
//   macos_14                                compile options are those of macOS 14
//   exception                               newBufferWithLength: and commandBuffer raise one that is not C++'s
//   archive                                 nothing is put into it; archive_file: it is not written;
//                                           archive_exception: that raises one
//   no_capture, capture                     a capture is not supported; it does not start
// MPSX_EMULATION_FAIL="what[:after[:times]]" does the same from outside.
void mpsx_emulation_fail(const char* what, int after, int times);

// The most by which the start and the end of a command buffer are delayed, in microseconds. MPSX_EMULATION_DELAY, else
// 300. The delays are random; MPSX_EMULATION_SEED repeats them.
void mpsx_emulation_delay(unsigned microseconds);

// While this is not 0, no command buffer is complete: those that have run have signalled their events, and stay so.
void mpsx_emulation_hold_completions(int hold);

// Buffers of somebody else's, as void*.
void* mpsx_emulation_new_buffer(unsigned long bytes);
void* mpsx_emulation_contents(void* buffer);
void mpsx_emulation_release(void* buffer);

// The last source that was to be compiled, after a line of its options: "3.1 safe precise".
const char* mpsx_emulation_compiled(void);

// Counts since the process began.
unsigned long mpsx_emulation_waits(void);            // for a command buffer that was not complete
unsigned long mpsx_emulation_command_buffers(void);  // committed
unsigned long mpsx_emulation_dispatches(void);
unsigned long mpsx_emulation_debug_groups(void);
unsigned long mpsx_emulation_pipelines(void);  // compiled, for an archive too
unsigned long mpsx_emulation_captures(void);  // that were stopped
unsigned long mpsx_emulation_intervals_begun(void);  // of signposts
unsigned long mpsx_emulation_intervals_ended(void);
}
#pragma GCC visibility pop
