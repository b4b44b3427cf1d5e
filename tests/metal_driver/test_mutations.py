"""Planted mistakes: each changes one line of the driver, and the check that is named has to notice."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import harness
import pytest
from harness import emulated_metal, run_cases

STREAM = "command_stream.mm"
CHECKS = "../dispatch_check.h"
OWNED = "the CPU touched memory that the GPU still owns"


@dataclass(frozen=True)
class Mutation:
    """`old` becomes `new` in a file of the driver; the case that notices, and what it says."""

    name: str
    old: str
    new: str
    case: str
    says: str
    file: str = STREAM


# The default run has one of each kind; the sweep has all.
MUTATIONS = [
    Mutation("no wait before the CPU reads", "for (const auto& buffer : waited) [buffer.get() waitUntilCompleted];", "",
             "honours_offsets", OWNED),
    Mutation("no wait for one block before the CPU reads", "if (waited) [waited.get() waitUntilCompleted];", "",
             "waits_for_one_dispatch", r"expected device.driver->is_complete\(seq\)"),
    Mutation("command buffer not retained", "Owned<id<MTLCommandBuffer>>::retain([queue_.get() commandBuffer])",
             "Owned<id<MTLCommandBuffer>>::adopt([queue_.get() commandBuffer])", "runs_a_kernel",
             "a freed object of EmulatedCommandBuffer"),
    Mutation("wrong index", "[to setBytes:a.data length:a.size atIndex:buffers++]",
             "[to setBytes:a.data length:a.size atIndex:++buffers]", "keeps_the_order",
             "nothing is bound at buffer index 1"),
    Mutation("encoder not ended", "[encoder_.get() endEncoding];", "", "runs_a_kernel",
             "an encoder is freed without endEncoding"),
    Mutation("wrong grid", "MTLSizeMake(size.x, size.y, size.z)", "MTLSizeMake(size.y, size.x, size.z)",
             "covers_the_grid", r"expected out\[i\]"),
    Mutation("offset forgotten", "offset:a.data ? a.size : 0", "offset:0", "honours_offsets", r"expected b\[i\]"),
    Mutation("odd threadgroup memory", "setThreadgroupMemoryLength:round_up_threadgroup_memory(a.size)",
             "setThreadgroupMemoryLength:a.size", "has_threadgroup_memory", "4 is not a multiple of 16"),
    Mutation("no autorelease pool", "  AutoreleasePool pool;\n  check(kernel", "  check(kernel", "runs_a_kernel",
             "is autoreleased and no pool is in place"),
    Mutation("failures kept silent", "  retire_completed();\n  throw_failure();", "  retire_completed();",
             "throws_what_failed_at_the_next_wait", "expected an error"),
    Mutation("event without commit", "  commit_open();\n  return {committed_,", "  return {committed_,", "times_events",
             OWNED),
    Mutation("event not signalled",
             "  [open_.buffer.get() encodeSignalEvent:progress_.get() value:open_.number];\n", "",
             "sees_events_as_soon_as_they_are_reached", r"expected device.driver->query\(to\)"),
    Mutation("buffer not released", "[as_buffer(buffer.handle) release];", "(void)buffer;",
             "frees_memory_that_is_in_use", "21 live objects of EmulatedBuffer", "memory.mm"),
    Mutation("pipeline retained twice", "return Owned<id<MTLComputePipelineState>>::adopt(",
             "return Owned<id<MTLComputePipelineState>>::retain(", "runs_a_kernel",
             "live objects of EmulatedPipeline", "archive.mm"),
]  # fmt: skip
SWEEP = [
    Mutation("no commit before the wait",
             "    commit_open();\n    for (const Batch& batch : in_flight_) waited",
             "    for (const Batch& batch : in_flight_) waited", "honours_offsets", OWNED),
    Mutation("no commit before the wait for one block", "if (batch > committed_) commit_open();", "",
             "waits_for_one_dispatch", "expected mpsx_emulation_waits"),
    Mutation("wait for one batch too few", "if (b.number <= batch)", "if (b.number < batch)", "waits_for_one_dispatch",
             r"expected device.driver->is_complete\(seq\)"),
    Mutation("encoder not retained", "encoder_ = Owned<id<MTLComputeCommandEncoder>>::retain(",
             "encoder_ = Owned<id<MTLComputeCommandEncoder>>::adopt(", "runs_a_kernel",
             "an encoder is freed without endEncoding"),
    Mutation("threads for threadgroups", "if (dispatch.by_threads)", "if (!dispatch.by_threads)",
             "covers_the_grid_in_threadgroups", r"expected out\[i\]"),
    Mutation("value cut short", "length:a.size atIndex:buffers++", "length:2 atIndex:buffers++", "keeps_the_order",
             "out-of-bounds read of 4 bytes at byte 0 of buffer 1, which has 2 bytes"),
    Mutation("failures not seen", "if (buffer.status == MTLCommandBufferStatusError &&",
             "if (buffer.status == MTLCommandBufferStatusScheduled &&", "throws_what_failed_at_the_next_wait",
             "expected an error"),
    Mutation("absent argument not bound", "a.data ? as_buffer(a.data) : null_buffer_.get()", "as_buffer(a.data)",
             "takes_absent_arguments", "nothing is bound at buffer index 1"),
    Mutation("no commit at the end", "  commit_open();\n  for (const Batch& batch : in_flight_) [batch",
             "  for (const Batch& batch : in_flight_) [batch", "ends_with_work_on_its_way",
             "an encoder is freed without endEncoding"),
    Mutation("no wait at the end", "for (const Batch& batch : in_flight_) [batch.buffer.get() waitUntilCompleted];", "",
             "captures_what_runs", "expected device.driver->idle"),
    Mutation("buffers never too large", "open_.bytes += buffer.length;", "", "commits_large_buffers_soon",
             "expected mpsx_emulation_command_buffers"),
    Mutation("batches without end", "kernels >= kBatch ||", "", "commits_in_batches", "expected committed >= 4"),
    Mutation("complete batches kept", "    in_flight_.pop_front();\n", "", "runs_a_kernel", "a hang"),
    Mutation("asked for idleness in vain", "  commit_open();  // a caller that polls is waiting for this work\n",
             "  if (encoder_) return false;\n", "is_polled_until_it_is_idle", "expected device.driver->idle"),
    Mutation("missing arguments let through",
             "if (kernel.reflected) check_bindings", "if (false) check_bindings", "says_what_a_kernel_takes",
             "nothing is bound at buffer index 2"),
    Mutation("unused arguments asked for", "    if (!binding.used) continue;\n", "", "says_what_a_kernel_takes",
             "expected facts", "pipelines.mm"),
    Mutation("constants of one type", "type:constant.type atIndex", "type:MTLDataTypeInt atIndex",
             "gives_function_constants_values", "a value of type 29 for its constant", "library.mm"),
    Mutation("exceptions let through", "throw Error(\"Metal raised an exception\" + describe_raised());", "throw;",
             "translates_what_objective_c_raises", "emulation::Raised", "objc.h"),
    Mutation("committed twice", "  [open_.buffer.get() commit];\n",
             "  [open_.buffer.get() commit];\n  [open_.buffer.get() commit];\n", "runs_a_kernel", "a second commit"),
    Mutation("values of any size", "a.size > kMaxBytesArgument)", "a.size > 2 * kMaxBytesArgument)",
             "rejects_what_metal_cannot_do", "setBytes: of 4097 bytes, the limit is 4096", CHECKS),
    Mutation("threadgroups of any size", "|| group.count() > kernel.max_threads", "",
             "rejects_what_metal_cannot_do", "2048 threads per threadgroup, the limit is 1024", CHECKS),
    Mutation("offsets of any size", "a.data && a.size >= as_buffer(a.data).length", "false",
             "rejects_what_metal_cannot_do", "offset 16 is beyond the buffer's 16 bytes"),
    Mutation("buffers of any number", "buffers > kMaxBuffers ||", "buffers > 2 * kMaxBuffers ||",
             "rejects_what_metal_cannot_do", "at index 31, the limit is 31", CHECKS),
    Mutation("threadgroup memory without end", "if (threadgroup_memory > max_threadgroup_memory)", "if (false)",
             "rejects_what_metal_cannot_do", "32784 bytes of threadgroup memory, the limit is 32768", CHECKS),
    Mutation("empty batches", "  if (!encoder_) return;\n", "", "commits_when_asked", "expected"),
    Mutation("group not closed", "  set_debug_group(nullptr);\n", "", "labels_what_runs",
             "endEncoding with a debug group open"),
    Mutation("labels of all threads", "thread_local std::vector<Region>", "std::vector<Region>", "labels_what_runs",
             r"expected .*add \(", "labels.mm"),
    Mutation("event not waited for", "if (checkpoint.last) [checkpoint.last.get() waitUntilCompleted];", "",
             "times_events",
             r"expected device.driver->query\(to\)", "event.mm"),
    Mutation("event signalled too early", "value:open_.number]", "value:open_.number + 1]",
             "sees_events_as_soon_as_they_are_reached", OWNED),
    Mutation("event of failed work is never complete",
             "return checkpoint.last.get().status >= MTLCommandBufferStatusCompleted;", "return false;",
             "passes_events_of_work_that_failed", r"expected device.driver->query\(to\)", "event.mm"),
    Mutation("time of an event asked too early", "  [checkpoint.last.get() waitUntilCompleted];  // the signal",
             "  // the signal", "sees_events_as_soon_as_they_are_reached", "expected elapsed", "event.mm"),
    Mutation("shared event retained twice", "Owned<id<MTLSharedEvent>>::adopt(", "Owned<id<MTLSharedEvent>>::retain(",
             "times_events", "live objects of EmulatedSharedEvent"),
    Mutation("memory that is not pages", "|| bytes % page_", "", "wraps_whole_pages", "are not whole pages",
             "memory.mm"),
    Mutation("share without a count", "[buffer retain];", "", "shares_buffers_of_others",
             "a freed object of EmulatedBuffer", "memory.mm"),
    Mutation("wrong limit", "uint32_t(pipeline.maxTotalThreadsPerThreadgroup)",
             "uint32_t(pipeline.threadExecutionWidth)", "finds_kernels", "max_threads == 1024", "pipelines.mm"),
    Mutation("compiled library dropped", "  auto& library = compiled_[found->second];",
             "  auto library = compiled_[found->second];", "compiles_sources_when_they_are_needed",
             "a freed object of EmulatedLibrary", "library.mm"),
    Mutation("fast math", "options.get().fastMathEnabled = language.fast_math;", "",
             "compiles_sources_when_they_are_needed", "expected compiled", "library.mm"),
    Mutation("fast functions",
             "language.fast_math ? MTLMathFloatingPointFunctionsFast : MTLMathFloatingPointFunctionsPrecise;",
             "MTLMathFloatingPointFunctionsFast;",
             "compiles_sources_when_they_are_needed", "expected compiled", "library.mm"),
    Mutation("kernels in the users' language", "compile(units_[found->second], kKernelLanguage)",
             "compile(units_[found->second], units_.empty() ? kKernelLanguage : user_language())",
             "compiles_sources_when_they_are_needed", "expected compiled", "library.mm"),
    Mutation("lack of memory is any failure", "if (out_of_memory_) throw OutOfMemory(message);", "",
             "tells_lack_of_memory_from_other_failures", "Insufficient Memory|terminate"),
    Mutation("lack of memory for good", "out_of_memory_ = buffer.error.code",
             "out_of_memory_ |= buffer.error.code", "tells_lack_of_memory_from_other_failures", "expected false"),
    Mutation("options that macOS 14 does not have",
             "if ([options.get() respondsToSelector:@selector(setMathMode:)])", "",
             "compiles_sources_when_they_are_needed", "is macOS 15's", "library.mm"),
    Mutation("used after a fork", "forked.store(true)", "forked.store(false)", "does_not_survive_a_fork",
             "expected an error", "device.mm"),
    Mutation("copy without a count", "Owned(const Owned& other) : object_([other.object_ retain]) {}",
             "Owned(const Owned& other) : object_(other.object_) {}", "runs_a_kernel", "a freed object of", "objc.h"),
]  # fmt: skip


def name(mutation: Mutation) -> str:
    return mutation.name


@pytest.mark.parametrize(
    "mutation", [*MUTATIONS, *(pytest.param(m, marks=pytest.mark.sweep) for m in SWEEP)], ids=name
)
def test_mutation(mutation: Mutation, kernels: Path, tmp_path: Path) -> None:
    """The case passes on the driver as it is (test_driver.py) and fails on the changed copy."""
    copy = tmp_path / "driver" / "metal"
    shutil.copytree(emulated_metal.DRIVER, copy)
    for header in emulated_metal.DRIVER.parent.glob("*.h"):
        shutil.copy(header, copy.parent)
    text = (copy / mutation.file).read_text()
    assert text.count(mutation.old) == 1, "the driver changed: bring the mutation up to date"
    (copy / mutation.file).write_text(text.replace(mutation.old, mutation.new))
    program = harness.build_program(copy)
    try:
        done = run_cases(program, kernels, mutation.case, timeout=20)
    except subprocess.TimeoutExpired:
        done = subprocess.CompletedProcess([], 1, "", "a hang")
    finally:
        program.unlink()
    assert done.returncode != 0, f"nothing noticed: {mutation.name}"
    assert re.search(mutation.says, done.stderr), done.stderr
