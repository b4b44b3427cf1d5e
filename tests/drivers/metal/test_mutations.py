"""Mutation tests. Each test changes a few lines of the driver and checks that a given test case then fails."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import harness
import pytest
from harness import emulated_metal, run_cases

STREAM, TENSORS = "command_stream.mm", "tensor_queue.mm"
CHECKS = "../dispatch_check.h"
HAZARDS = "hazards.cpp"
BARRIER = "no barrier between the kernels"
EVENT = "no event orders the command buffers"
RANDOM = "finds_the_conflicts_of_random_dispatches"
OWNED = "the CPU touched memory that the GPU still owns"


@dataclass(frozen=True)
class Mutation:
    """Replaces `old` with `new` in one of the driver's files. `case` must then fail with a message that matches
    `says`."""

    name: str
    old: str
    new: str
    case: str
    says: str
    file: str = STREAM


# The default run tests one mutation of each kind. The sweep tests all of them.
MUTATIONS = [
    Mutation("no wait before the CPU reads", "for (const auto& buffer : waited) [buffer.get() waitUntilCompleted];", "",
             "honors_offsets", OWNED),
    Mutation("no wait for one block before the CPU reads", "if (waited) [waited.get() waitUntilCompleted];", "",
             "waits_for_one_dispatch", r"expected device.driver->is_complete\(seq\)"),
    Mutation("command buffer not retained", "Owned<id<MTLCommandBuffer>>::retain(serial_",
             "Owned<id<MTLCommandBuffer>>::adopt(serial_", "runs_a_kernel",
             "a freed object of EmulatedCommandBuffer"),
    Mutation("wrong index", "[to setBytes:a->data length:a->size atIndex:index++]",
             "[to setBytes:a->data length:a->size atIndex:++index]", "preserves_order",
             "nothing is bound at buffer index 1"),
    Mutation("encoder not ended", "[encoder_.get() endEncoding];", "", "runs_a_kernel",
             "an encoder is freed without endEncoding"),
    Mutation("wrong grid", "MTLSizeMake(size.x, size.y, size.z)", "MTLSizeMake(size.y, size.x, size.z)",
             "covers_the_grid", r"expected out\[i\]"),
    Mutation("offset forgotten", "a->data ? a->size : 0", "0", "honors_offsets", r"expected b\[i\]"),
    Mutation("threadgroup memory not rounded up", "setThreadgroupMemoryLength:round_up_threadgroup_memory(a->size)",
             "setThreadgroupMemoryLength:a->size", "has_threadgroup_memory", "4 is not a multiple of 16"),
    Mutation("no autorelease pool", "  AutoreleasePool pool;\n  const uint64_t bytes = check(",
             "  const uint64_t bytes = check(", "runs_a_kernel",
             "is autoreleased and no pool is in place"),
    Mutation("errors ignored", "  retire_completed();\n  throw_failure();", "  retire_completed();",
             "throws_errors_at_the_next_wait", "expected an error"),
    Mutation("event without commit", "  commit_open();\n  return {committed_,", "  return {committed_,", "times_events",
             OWNED),
    Mutation("event not signaled",
             "  [open_.buffer.get() encodeSignalEvent:progress_.get() value:open_.number];\n", "",
             "completes_events_when_the_gpu_reaches_them", r"expected device.driver->query\(to\)"),
    Mutation("buffer not released", "Owned<id<MTLBuffer>>::adopt(as_buffer(buffer.handle))",
             "Owned<id<MTLBuffer>>::retain(as_buffer(buffer.handle))",
             "frees_memory_in_use", "21 live objects of EmulatedBuffer", "metal_driver.mm"),
    Mutation("no barrier", "[to memoryBarrierWithScope:MTLBarrierScopeBuffers];", "(void)0;",
             "orders_conflicting_kernels", BARRIER),
    Mutation("no barrier for a write after a read", "(r->use | written) & 1", "r->use & 1",
             "orders_conflicting_kernels", BARRIER, HAZARDS),
    Mutation("no wait for the fence", "if (fenced_) [encoder_.get() waitForFence:fence_.get()];", "",
             "orders_command_buffers", "no fence orders the command buffers"),
    Mutation("work before the tensors that it follows",
             "  [buffer.get() encodeWaitForEvent:work->event.get() value:work->value];\n", "",
             "orders_tensors_with_other_work", EVENT),
    Mutation("buffer freed in flight", "if (encoder_ || !in_flight_.empty())", "if (false)", "frees_memory_in_use",
             "a buffer is freed while the GPU still uses it"),
    Mutation("pipeline retained twice", "return Owned<id<MTLComputePipelineState>>::adopt(",
             "return Owned<id<MTLComputePipelineState>>::retain(", "runs_a_kernel",
             "live objects of EmulatedPipeline", "archive.mm"),
]  # fmt: skip
SWEEP = [
    Mutation("no barrier for a read after a write", "(r->use | written) & 1", "written",
             "orders_conflicting_kernels", BARRIER, HAZARDS),
    Mutation("no barrier for a write after a write", "(r->use | written) & 1", "(r->use ^ written) & 1",
             "orders_conflicting_kernels", BARRIER, HAZARDS),
    Mutation("any range of a bucket conflicts", "(r->buffer != a->data || r->begin != a->begin)", "false",
             RANDOM, "expected ", HAZARDS),
    Mutation("ranges of different buffers conflict", "r->buffer != a->data || ", "", RANDOM, "expected ", HAZARDS),
    Mutation("all ranges of a buffer conflict", " || r->begin != a->begin", "", RANDOM, "expected ", HAZARDS),
    Mutation("no end of the table", "if (++r == slots_.end()) r = slots_.begin();", "if (r != slots_.begin()) --r;",
             RANDOM,
             "a hang", HAZARDS),
    Mutation("no limit of ranges", "everything_ || ranges_ > kMaxRanges", "everything_", RANDOM, "a hang", HAZARDS),
    Mutation("a write after a dispatch's own read ignored", "r->use |= written;", "(void)written;",
             RANDOM, "expected barrier",
             HAZARDS),
    Mutation("nothing remembered after a barrier", "    ++number_;  // frees", "    ++start_, ++number_;  // frees",
             "orders_conflicting_kernels", BARRIER, HAZARDS),
    Mutation("barriers forget nothing", "  if (conflict) {\n    clear();\n", "  if (conflict) {\n",
             "orders_kernels_by_the_ranges_that_they_access", "expected barriers", HAZARDS),
    Mutation("other memory ignored before", "(everything_ && number_ > start_)", "false",
             "orders_kernels_that_use_other_memory", BARRIER, HAZARDS),
    Mutation("other memory ignored after", "conflict = everything_ || ranges_", "conflict = ranges_",
             "orders_kernels_that_use_other_memory", BARRIER, HAZARDS),
    Mutation("whole buffers ignored", "everything |= a->end == SIZE_MAX;", "",
             "orders_kernels_by_the_ranges_that_they_access", BARRIER, HAZARDS),
    Mutation("a barrier for every kernel", "bool conflict = everything_ ||",
             "bool conflict = number_ > start_ || everything_ ||",
             "overlaps_independent_kernels", "expected barriers", HAZARDS),
    Mutation("barriers across command buffers", "  hazards_.clear();\n", "", "overlaps_independent_kernels",
             "expected barriers"),
    Mutation("fence not updated", "if (!serial_) [encoder_.get() updateFence:fence_.get()];", "",
             "orders_command_buffers", "no fence orders the command buffers"),
    Mutation("serial encoders", "serial_ ? MTLDispatchTypeSerial : MTLDispatchTypeConcurrent", "MTLDispatchTypeSerial",
             "orders_conflicting_kernels", "a barrier in a serial encoder"),
    Mutation("not resident", "  residency_.add(buffer);\n", "  (void)buffer;\n", "keeps_memory_resident",
             "expected mpsx_emulation_resident"),
    Mutation("residency not committed", "  residency_.commit();\n  [open_", "  [open_", "keeps_memory_resident",
             "expected mpsx_emulation_resident"),
    Mutation("resident after its release", "  if (removed) residency_.commit();\n", "(void)removed;\n",
             "keeps_released_memory_until_its_work_is_complete", "expected mpsx_emulation_live"),
    Mutation("residency sets on macOS 14",
             "![device respondsToSelector:@selector(newResidencySetWithDescriptor:error:)] ||\n      ", "",
             "runs_without_residency_sets",
             "expected .*mpsx_emulation_resident", "residency.mm"),
    Mutation("tensor in no residency set", "    [residency_ addAllocation:tensor];\n", "", "binds_tensors",
             "a tensor is in no residency set", TENSORS),
    Mutation("tensors before earlier work", "[queue waitForEvent:event value:after]",
             "[queue waitForEvent:event value:0]", "orders_tensors_with_other_work", EVENT, TENSORS),
    Mutation("offset of a tensor forgotten", "offset:t.offset error", "offset:0 error", "binds_tensors",
             r"expected y\[0\]", TENSORS),
    Mutation("no commit before the wait",
             "    commit_open();\n    for (const Batch& batch : in_flight_) waited",
             "    for (const Batch& batch : in_flight_) waited", "honors_offsets", OWNED),
    Mutation("no commit before the wait for one block", "if (batch > committed_) commit_open();", "",
             "waits_for_one_dispatch", "expected mpsx_emulation_waits"),
    Mutation("wait for one batch too few", "if (b.number <= batch)", "if (b.number < batch)", "waits_for_one_dispatch",
             r"expected device.driver->is_complete\(seq\)"),
    Mutation("encoder not retained", "Owned<id<MTLComputeCommandEncoder>>::retain(",
             "Owned<id<MTLComputeCommandEncoder>>::adopt(", "runs_a_kernel",
             "an encoder is freed without endEncoding"),
    Mutation("threads for threadgroups", "if (dispatch.by_threads)", "if (!dispatch.by_threads)",
             "covers_the_grid_in_threadgroups", r"expected out\[i\]"),
    Mutation("value truncated", "length:a->size atIndex:index++", "length:2 atIndex:index++", "preserves_order",
             "out-of-bounds read of 4 bytes at byte 0 of buffer 1, which has 2 bytes"),
    Mutation("errors not detected", "if (buffer.status == MTLCommandBufferStatusError)",
             "if (buffer.status == MTLCommandBufferStatusScheduled)", "throws_errors_at_the_next_wait",
             "expected an error"),
    Mutation("absent argument not bound", "a->data ? as_buffer(a->data) : null_buffer_.get()", "as_buffer(a->data)",
             "accepts_absent_arguments", "nothing is bound at buffer index 1"),
    Mutation("no commit at the end", "  commit_open();\n  for (const Batch& batch : in_flight_) [batch",
             "  for (const Batch& batch : in_flight_) [batch", "exits_with_work_in_flight",
             "an encoder is freed without endEncoding"),
    Mutation("no wait at the end", "for (const Batch& batch : in_flight_) [batch.buffer.get() waitUntilCompleted];", "",
             "captures_kernels", "expected device.driver->idle"),
    Mutation("no limit of bytes per batch", "  open_.bytes += bytes;\n", "  (void)bytes;\n",
             "commits_large_buffers_soon", "expected mpsx_emulation_command_buffers"),
    Mutation("no limit of kernels per batch", "kernels >= kBatch ||", "", "commits_in_batches",
             "expected committed >= 4"),
    Mutation("complete batches kept", "    in_flight_.pop_front();\n", "", "runs_a_kernel", "a hang"),
    Mutation("no commit when polled", "bool CommandStream::idle() {\n",
             "bool CommandStream::idle() {\n  if (encoder_) return false;\n", "becomes_idle_while_polled",
             "expected device.driver->idle"),
    Mutation("missing arguments not checked",
             "if (kernel.reflected) check_bindings", "if (false) check_bindings", "describes_kernel_arguments",
             "nothing is bound at buffer index 2"),
    Mutation("unused arguments required", "    if (!binding.used) continue;\n", "", "describes_kernel_arguments",
             "expected facts", "pipelines.mm"),
    Mutation("all constants have one type", "type:constant.type atIndex", "type:MTLDataTypeInt atIndex",
             "sets_function_constants", "a value of type 29 for its constant", "library.mm"),
    Mutation("exceptions not translated", "throw Error(\"Metal raised an exception\" + describe_raised());", "throw;",
             "translates_objective_c_exceptions", "emulation::Raised", "objc.h"),
    Mutation("committed twice", "  [open_.buffer.get() commit];\n",
             "  [open_.buffer.get() commit];\n  [open_.buffer.get() commit];\n", "runs_a_kernel", "a second commit"),
    Mutation("no limit of value sizes", "a->size > kMaxBytesArgument)", "a->size > 2 * kMaxBytesArgument)",
             "rejects_unsupported_launches", "setBytes: of 4097 bytes, the limit is 4096", CHECKS),
    Mutation("no limit of threadgroup sizes", "if (threads == 0 || threads > kernel.max_threads) reject",
             "if (threads == 0) reject",
             "rejects_unsupported_launches", "2048 threads per threadgroup, the limit is 1024", CHECKS),
    Mutation("no limit of offsets", "if (a.size >= end)", "if (a.size == SIZE_MAX)",
             "rejects_unsupported_launches", "offset 16 is beyond the buffer's 16 bytes"),
    Mutation("no limit of buffer indices", "buffers > kMaxBuffers ||", "buffers > 2 * kMaxBuffers ||",
             "rejects_unsupported_launches", "at index 31, the limit is 31", CHECKS),
    Mutation("no limit of threadgroup memory", "if (threadgroup_memory > max_threadgroup_memory)", "if (false)",
             "rejects_unsupported_launches", "32784 bytes of threadgroup memory, the limit is 32768", CHECKS),
    Mutation("empty batches", "  if (!encoder_) return;\n", "", "commits_on_request", "expected"),
    Mutation("group not closed", "  if (debug_group_) set_debug_group(nullptr);\n", "", "labels_kernels",
             "endEncoding with a debug group open"),
    Mutation("labels shared by threads", "thread_local std::vector<Region>", "std::vector<Region>", "labels_kernels",
             r"expected .*add \(", "labels.mm"),
    Mutation("event not waited for", "if (checkpoint.last) [checkpoint.last.get() waitUntilCompleted];", "",
             "times_events",
             r"expected device.driver->query\(to\)", "event.mm"),
    Mutation("event signaled too early", "value:open_.number]", "value:open_.number + 1]",
             "completes_events_when_the_gpu_reaches_them", OWNED),
    Mutation("event of failed work is never complete",
             "return checkpoint.last.get().status >= MTLCommandBufferStatusCompleted;", "return false;",
             "completes_events_after_failed_work", r"expected device.driver->query\(to\)", "event.mm"),
    Mutation("event time read too early", "\n  [checkpoint.last.get() waitUntilCompleted];", "",
             "completes_events_when_the_gpu_reaches_them", "expected elapsed", "event.mm"),
    Mutation("shared event retained twice", "Owned<id<MTLSharedEvent>>::adopt(", "Owned<id<MTLSharedEvent>>::retain(",
             "times_events", "live objects of EmulatedSharedEvent"),
    Mutation("partial pages accepted", "|| bytes % page_", "", "wraps_whole_pages", "are not whole pages",
             "memory.mm"),
    Mutation("shared buffer not retained", "[buffer retain];", "", "shares_buffers_of_other_libraries",
             "a freed object of EmulatedBuffer", "memory.mm"),
    Mutation("wrong limit", "uint32_t(pipeline.maxTotalThreadsPerThreadgroup)",
             "uint32_t(pipeline.threadExecutionWidth)", "finds_kernels", "max_threads == 1024", "pipelines.mm"),
    Mutation("compiled library not kept", "  auto& [library, error] = compiled_[found->second];",
             "  auto [library, error] = compiled_[found->second];", "compiles_sources_on_demand",
             "a freed object of EmulatedLibrary", "library.mm"),
    Mutation("a broken file compiled again", "    error = e.what();\n",
             "    throw Error(function + \": \" + e.what());\n", "compiles_a_broken_file_once", "expected an error",
             "library.mm"),
    Mutation("fast math", "options.get().fastMathEnabled = language.fast_math;", "",
             "compiles_sources_on_demand", "expected compiled", "library.mm"),
    Mutation("fast functions",
             "language.fast_math ? MTLMathFloatingPointFunctionsFast : MTLMathFloatingPointFunctionsPrecise;",
             "MTLMathFloatingPointFunctionsFast;",
             "compiles_sources_on_demand", "expected compiled", "library.mm"),
    Mutation("kernels use the users' language version", "uses_tensors_ ? kTensorLanguage : kKernelLanguage",
             "((void)kTensorLanguage, (void)kKernelLanguage, user_language())", "compiles_sources_on_demand",
             "expected compiled", "library.mm"),
    Mutation("out of memory reported as another error", "if (out_of_memory_) throw OutOfMemory(message);", "",
             "distinguishes_out_of_memory_errors", "Insufficient Memory|terminate"),
    Mutation("out of memory flag never reset", "out_of_memory_ = out_of_memory;",
             "out_of_memory_ |= out_of_memory;", "distinguishes_out_of_memory_errors", "expected false"),
    Mutation("macOS 15 options set on macOS 14",
             "if ([options.get() respondsToSelector:@selector(setMathMode:)])", "",
             "compiles_sources_on_demand", "is macOS 15's", "library.mm"),
    Mutation("no check for a fork", "forked.store(true)", "forked.store(false)", "throws_after_a_fork",
             "expected an error", "device.mm"),
    Mutation("copy not retained", "Owned(const Owned& other) : object_([other.object_ retain]) {}",
             "Owned(const Owned& other) : object_(other.object_) {}", "runs_a_kernel", "a freed object of", "objc.h"),
]  # fmt: skip


def name(mutation: Mutation) -> str:
    return mutation.name


def test_mutations_apply() -> None:
    """The text that a mutation replaces occurs exactly once in the driver. Mutations of the sweep are also checked."""
    counts = {m.name: (emulated_metal.DRIVER / m.file).resolve().read_text().count(m.old) for m in MUTATIONS + SWEEP}
    assert not {name: n for name, n in counts.items() if n != 1}


@pytest.mark.parametrize(
    "mutation", [*MUTATIONS, *(pytest.param(m, marks=pytest.mark.sweep) for m in SWEEP)], ids=name
)
def test_mutation(mutation: Mutation, kernels: Path, tmp_path: Path) -> None:
    """The case fails with the mutated driver. test_driver.py checks that it passes with the original driver."""
    copy = tmp_path / "driver" / "metal"
    shutil.copytree(emulated_metal.DRIVER, copy)
    for header in emulated_metal.DRIVER.parent.glob("*.h"):
        shutil.copy(header, copy.parent)
    text = (copy / mutation.file).read_text()
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
