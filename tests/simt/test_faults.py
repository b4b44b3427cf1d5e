"""Run kernels with planted faults (faults/*.metal), in several thread orders.

Each error must name the kernel, line, threadgroup and thread. The correct kernels in these files must run without an
error.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from simt_library import READ, WRITE, Fault

FAULTS = Path(__file__).parent / "faults"


def lines_of(kernel):
    """Return the file, and the numbers of the lines that are marked as this kernel's faults."""
    for path in FAULTS.glob("*.metal"):
        found = [i for i, line in enumerate(path.read_text().splitlines(), 1)
                 if re.search(rf"// fault: {kernel}\b", line)]
        if found:
            return f"tests/simt/faults/{path.name}", found
    raise AssertionError(f"no line is marked '// fault: {kernel}'")


def floats(driver, n, dtype=np.float32):
    return driver.memory(np.zeros(n, dtype))


def check(fault, kernel, what, group=None, thread=None):
    file, lines = lines_of(kernel)
    assert re.search(what, fault.what), fault.message
    assert (fault.kernel, fault.file) == (kernel, file), fault.message
    assert fault.line in lines, fault.message
    if group is not None:
        assert fault.group == group, fault.message
    if thread is not None:
        assert thread(fault.thread[0]), fault.message


@pytest.fixture(params=[1, 2, 77, 4000000000])
def driver(request, native, checked_kernels):
    from simt_library import Driver
    return Driver(native, checked_kernels(*sorted(FAULTS.glob("*.metal"))), request.param)


# Kernels launched with one threadgroup of 64 threads and a buffer of 64 floats. The values are the expected message and
# the threads that it may name.
ONE_GROUP = {
    "barrier_in_branch": ("threadgroup_barrier is not reached by all threads: 24 of 64", lambda t: t < 40),
    "barrier_after_return": ("threadgroup_barrier is not reached by all threads: 1 of 64 .*thread \\(7, 0, 0\\)",
                             lambda t: t != 7),
    "barrier_in_uneven_loop": ("threadgroup_barrier is not reached by all threads: 32 of 64", lambda t: t >= 32),
    "barriers_apart": ("threadgroup_barrier is reached while thread .* waits at another barrier, .*barriers.metal:",
                       lambda t: True),
    "simdgroup_barrier_in_branch": ("simdgroup_barrier is not reached by all lanes of SIMD group [01]: 16 lanes of 32",
                                    lambda t: t % 32 < 16),
    "never_written": ("^uninitialized memory: read of 4 bytes at byte \\d+ of threadgroup memory 's'", lambda t: True),
    "partly_written": ("^uninitialized memory: read of 4 bytes at byte 240 of", lambda t: t == 0),
    "sum_without_initial_value": ("^uninitialized memory: read of 4 bytes", lambda t: True),
    "bins_without_initial_value": ("^uninitialized memory: atomic update of 4 bytes", lambda t: True),
    "read_of_adjacent_element": ("^race: .* with no barrier in between", lambda t: True),
    "barrier_missing_in_loop": ("^race: .* with no barrier in between", lambda t: True),
    "two_writers": ("^race: write of 4 bytes at byte 0 of threadgroup memory 'last', which .* wrote", lambda t: True),
    "simdgroup_barrier_is_too_small": ("^race: .* with no barrier in between", lambda t: True),
    "barrier_for_other_memory": ("^race: .*the barrier in between lacks mem_flags::mem_threadgroup",
                                 lambda t: True),
    "bins_read_too_early": ("^race: ", lambda t: True),
    "result_used_while_written": ("^race: .* threadgroup memory 'total'", lambda t: True),
    "shuffle_in_branch": ("^simd_shuffle: lane \\d+ of SIMD group [01] reads lane \\d+, which", lambda t: t % 32 < 16),
    "shuffle_down_in_branch": ("^simd_shuffle_down: lane 8 of SIMD group [01] reads lane 9, which",
                               lambda t: t % 32 == 8),
    "shuffle_after_return": ("^simd_shuffle_xor: .*, which has returned", lambda t: 16 <= t % 32 < 24),
    "broadcast_from_inactive_lane": ("^simd_broadcast: .* reads lane 0, which", lambda t: t % 32 > 0),
    "threadgroup_past_end": ("^out-of-bounds write of 4 bytes at byte 256 of threadgroup memory 's', which has 256 b",
                             lambda t: t == 63),
    "return_at_the_grids_end": ("threadgroup_barrier is not reached by all threads: 14 of 64", lambda t: t < 50),
    "two_tiles_no_barrier": ("^(race|uninitialized memory): .* threadgroup memory 'tiles'", lambda t: True),
    "scan_in_place": ("^race: .* threadgroup memory 's'", lambda t: True),
    "histogram_without_atomics": ("^race: .* threadgroup memory 'bins'", lambda t: True),
    "bins_cleared_by_others": ("^(race|uninitialized memory): .* threadgroup memory 'bins'", lambda t: True),
    "partial_sums_at_once": ("^(race|uninitialized memory): .* threadgroup memory 'partial'", lambda t: t % 32 == 0),
    "sums_of_all_simdgroups": ("^uninitialized memory: read of 4 bytes .* 'partial'", lambda t: 2 <= t < 32),
    "function_from_two_branches": ("threadgroup_barrier is reached while .* waits at another barrier, .*mistakes",
                                   lambda t: True),
    "left_of_the_tile": ("^out-of-bounds read of 4 bytes at byte -4 of threadgroup memory 's'", lambda t: t == 0),
    "until_done": ("threadgroup_barrier is not reached by all threads: 2 of 64", lambda t: t > 1),
    "next_tile_too_early": ("^race: .* threadgroup memory 'tile'", lambda t: True),
    "waits_for_a_flag": ("^a thread waits in a loop for another", lambda t: t != 5),
    "threadgroup_index": ("^out-of-bounds index 16 of an array of type 'float ?\\[16\\]'", lambda t: t % 16 == 15),
}


@pytest.mark.parametrize("kernel", ONE_GROUP)
def test_one_group(driver, kernel):
    what, thread = ONE_GROUP[kernel]
    fault = driver.fault(kernel, floats(driver, 64), grid=1, group=64)
    check(fault, kernel, what, (0, 0, 0), thread)


def test_every_group_starts_uninitialized(driver):
    fault = driver.fault("written_by_another_group", floats(driver, 192), grid=3, group=64)
    check(fault, fault.kernel, "^uninitialized memory: read of 4 bytes")
    assert fault.group in ((1, 0, 0), (2, 0, 0))


def test_threadgroup_arguments(driver):
    fault = driver.fault("argument_not_written", floats(driver, 64), 128, grid=1, group=64)
    check(fault, fault.kernel, "^uninitialized memory: read of 2 bytes", thread=lambda t: t % 2 == 0)
    fault = driver.fault("threadgroup_argument_past_end", floats(driver, 64), 128, grid=1, group=64)
    check(fault, fault.kernel, "^out-of-bounds write of 4 bytes .*which has 128 bytes", thread=lambda t: t >= 32)


# Kernels launched with two threadgroups of 50 threads and buffers of 100 floats. The values are the expected message
# and the threads that it may name.
HUNDRED = {
    "read_past_end": ("^out-of-bounds read of 4 bytes at byte 400 of buffer 1, which has 400 bytes", range(99, 100)),
    "read_before_begin": ("^out-of-bounds read of 4 bytes at byte -4 of buffer 1", range(1)),
    "write_past_end": ("^out-of-bounds write of 4 bytes at byte 4\\d\\d of buffer 0", range(97, 100)),
    "read_far_away": ("^out-of-bounds read of 4 bytes: not in any argument", range(5, 6)),
    "in_a_function": ("^out-of-bounds read of 4 bytes at byte 4\\d\\d of buffer 1", range(97, 100)),
    "thread_array": ("^out-of-bounds index \\d+ of an array of type 'float ?\\[10\\]'", range(10, 100)),
    "last_member": ("^out-of-bounds index \\d+ of an array of type 'float ?\\[10\\]'", range(10, 100)),
    "array_element": ("^out-of-bounds index 10 of an array of type 'metal::array<float, 10>'", range(10, 100)),
    "component": ("^out-of-bounds index 3 of an array of type 'metal::vec<float, 3>'", range(3, 100)),
    "column": ("^out-of-bounds index 2 of an array of type 'metal::matrix<float, 2, 3>'", range(2, 100)),
    "constant_array": ("^out-of-bounds index \\d+ of an array of type '(const )?float ?\\[4\\]'", range(4, 100)),
}


@pytest.mark.parametrize("kernel", HUNDRED)
def test_bounds(driver, kernel):
    what, threads = HUNDRED[kernel]
    fault = driver.fault(kernel, floats(driver, 100), floats(driver, 100), grid=100, group=50, by_threads=True)
    check(fault, kernel, what)
    assert 50 * fault.group[0] + fault.thread[0] in threads


def test_bounds_of_other_element_types(driver):
    over = {"grid": 100, "group": 50, "by_threads": True}
    fault = driver.fault("write_half_past_end", floats(driver, 100, np.float16), **over)
    check(fault, fault.kernel, "^out-of-bounds write of 2 bytes at byte .*, which has 200 bytes")
    fault = driver.fault("vector_over_the_end", floats(driver, 100), floats(driver, 103), grid=26, group=26,
                         by_threads=True)
    check(fault, fault.kernel, "^out-of-bounds read of .* of buffer 1, which has 412 bytes", thread=lambda t: t == 25)
    fault = driver.fault("atomic_past_end", floats(driver, 99, np.uint32), **over)
    check(fault, fault.kernel, "^out-of-bounds write of 4 bytes at byte 396 of buffer 0", (1, 0, 0), lambda t: t == 49)


@pytest.mark.parametrize("t,size,byte", [("float4", 16, 88), ("ulong", 8, 84), ("float", 4, 82), ("half", 2, 81)])
def test_misaligned_writes(driver, t, size, byte):
    fault = driver.fault(f"misaligned_{t}", floats(driver, 100), grid=24, group=24, by_threads=True)
    expected = f"^misaligned write of {size} bytes at byte {byte} of buffer 0: the address 0x[0-9a-f]+ is not a mult"
    assert fault.kernel == f"misaligned_{t}"
    fault.kernel = "misaligned"  # all kernels share the line
    check(fault, "misaligned", f"{expected}iple of {size}$", thread=lambda t: t == 5)


def test_misaligned_threadgroup_memory(driver):
    fault = driver.fault("misaligned_in_threadgroup", floats(driver, 64), grid=1, group=64)
    check(fault, fault.kernel, "^misaligned read of 8 bytes at byte 4 of threadgroup memory 's'",
          thread=lambda t: t == 5)


def test_packed_vectors_may_be_misaligned(driver):
    out = floats(driver, 100)
    assert driver.run("packed_vectors", out, grid=24, group=24, by_threads=True) == ""
    assert np.array_equal(out.get()[1:97], np.tile([1, 2, 3, 4], 24))


def test_bounds_of_constant_arguments(driver):
    over = {"grid": 100, "group": 50, "by_threads": True}
    fault = driver.fault("constant_past_end", floats(driver, 100), np.zeros(60, np.float32), **over)
    check(fault, fault.kernel, "^out-of-bounds read of 4 bytes .* of buffer 1, which has 240 bytes", (1, 0, 0),
          lambda t: t >= 10)
    fault = driver.fault("constant_too_small", floats(driver, 100), np.zeros(10, np.float32), **over)
    check(fault, fault.kernel, "^out-of-bounds read of 4 bytes at byte 40 of buffer 1, which has 40 bytes")
    fault = driver.fault("argument_is_null", floats(driver, 100), None, **over)
    check(fault, fault.kernel, "^out-of-bounds read of 4 bytes at address \\d+: the argument is null")


def test_bounds_of_a_view(driver):
    """A kernel may access the entire storage of a view, including the parts outside the view."""
    storage = driver.memory(np.arange(100, dtype=np.float32))
    fault = driver.fault("read_past_end", floats(driver, 50), storage.at(200), grid=50, group=50, by_threads=True)
    check(fault, fault.kernel, "^out-of-bounds read of 4 bytes at byte 400 of buffer 1", thread=lambda t: t == 49)
    out = floats(driver, 50)
    assert driver.run("read_before_begin", out, storage.at(200), grid=50, group=50, by_threads=True) == ""
    assert np.array_equal(out.get(), np.arange(49, 99))


def test_bounds_of_wrapped_memory(driver, native):
    """wrap() tells the driver how large an allocation is. Accesses to unknown memory are not checked."""
    array = np.zeros(100, np.float32)
    out = floats(driver, 100)
    foreign = driver.memory(np.zeros(1, np.float32))
    own, foreign.address = foreign.address, array.ctypes.data
    over = {"grid": 99, "group": 33, "by_threads": True}
    try:
        native.wrap(driver.handle, array.ctypes.data, 4 * 99)
        fault = driver.fault("read_past_end", out, foreign, **over)
        check(fault, fault.kernel, "^out-of-bounds read of 4 bytes at byte 396 of buffer 1, which has 396 bytes")
        native.release(driver.handle, array.ctypes.data, 4 * 99)
        assert driver.run("read_past_end", out, foreign, **over) == ""
    finally:
        foreign.address = own


def test_bounds_of_pointers_in_arguments(driver):
    """A kernel may also access a buffer through an address inside an argument, within the buffer's bounds."""
    x = np.arange(100, dtype=np.float32)
    source, out, other = driver.memory(x), floats(driver, 100), floats(driver, 100)
    table = np.array([out.address, source.address], np.uint64)
    over = {"grid": 100, "group": 50, "by_threads": True}
    for argument in (table, driver.memory(table)):
        assert driver.run("through_a_table", argument, **over) == ""
        assert np.array_equal(out.get(), x)
    short = driver.memory(x[:90])
    fault = driver.fault("through_a_table", np.array([out.address, short.address], np.uint64), **over)
    check(fault, fault.kernel, "^out-of-bounds read of 4 bytes", (1, 0, 0), lambda t: t >= 40)
    assert driver.run("through_a_table", np.array([out.address, other.address], np.uint64), **over) == ""


def test_declared_access(driver):
    """A kernel may write only memory that its launcher declares as written."""
    over = {"grid": 99, "group": 33, "by_threads": True}
    x, out = driver.memory(np.arange(100, dtype=np.float32)), floats(driver, 100)
    assert driver.run("read_past_end", out.declare(WRITE), x.declare(READ), **over) == ""
    assert np.array_equal(out.get()[:99], np.arange(1, 100))
    fault = Fault(driver.run("read_past_end", out.declare(READ), x, **over))
    assert re.search("^write of 4 bytes at byte \\d+ of buffer 0, which the launcher declared as read-only", fault.what)


def test_declared_range(driver):
    """A kernel may access only the bytes of a buffer that its launcher declares."""
    over = {"grid": 50, "group": 50, "by_threads": True}
    x, out = driver.memory(np.arange(100, dtype=np.float32)), floats(driver, 100)
    assert driver.run("read_past_end", out.declare(WRITE, 0, 200), x.declare(READ, 4, 204), **over) == ""
    fault = Fault(driver.run("read_past_end", out.declare(WRITE, 0, 196), x, **over))
    assert re.search("^out-of-bounds write of 4 bytes at byte 196 of buffer 0, which has 196 bytes", fault.what)
    fault = Fault(driver.run("read_past_end", out.declare(WRITE), x.declare(READ, 8, 400), **over))
    assert re.search("^out-of-bounds read of 4 bytes at byte -4 of buffer 1, which has 392 bytes", fault.what)
    assert driver.run("read_past_end", out.at(200), x.at(200).declare(READ, 204, 400), grid=49, group=49,
                      by_threads=True) == ""


def test_limits(driver):
    out = floats(driver, 128)
    message = driver.run("at_most_64", out, grid=2, group=65)
    assert message == "at_most_64: expected 1 to 64 threads per threadgroup, got 65x1x1 = 65"
    assert driver.run("at_most_64", out, grid=2, group=64) == ""
    message = driver.run("sixteen_kibibytes", out, 32769, grid=1, group=64)
    assert message.startswith("sixteen_kibibytes: expected at most 32768 bytes of threadgroup memory, got ")
    message = driver.run("sixteen_kibibytes", out, 16388, grid=1, group=64)
    assert message.startswith("sixteen_kibibytes: expected at most 32768 bytes of threadgroup memory, got 32784")
    assert driver.run("sixteen_kibibytes", out, 16384, grid=1, group=64) == ""


def test_correct_kernels(driver):
    out = floats(driver, 128)
    assert driver.run("correct_barriers", out, grid=2, group=64) == ""
    t = np.arange(64)
    around = sum((t + i) % 64 for i in (1, 2, 3))
    assert np.array_equal(out.get(), np.tile(around + (t >= 32), 2))

    out = floats(driver, 64)
    assert driver.run("correct_initialization", out, 128, grid=1, group=64) == ""
    assert np.array_equal(out.get(), 6.0 * (63 - t) + 1)
    assert driver.run("correct_synchronization", out, grid=1, group=64) == ""
    assert np.array_equal(out.get(), 32 * (t // 32) + 31 - t % 32 + 2016 + 2 * (63 - t) + 1 + 8)
    assert driver.run("correct_simd_functions", out, grid=1, group=64) == ""

    x = np.arange(100, dtype=np.float32)
    out = floats(driver, 100)
    n = np.array([100], np.uint32)
    assert driver.run("correct_bounds", out, driver.memory(x), n, grid=128, group=32, by_threads=True) == ""
    i = np.arange(100)
    expected = x + np.where(i < 99, x + 1, 0) + np.where(i > 0, x - 1, 0) + np.array([1, 2, 4, 8])[i % 4]
    assert np.array_equal(out.get(), expected)


T = np.arange(64)
HALF, LANE = T // 32, T % 32
# Kernels in correct.metal, with the number of threads and the expected contents of the buffer.
CORRECT = {
    "one_simdgroup_alone": (64, np.where(HALF, 0, 3 * (31 - LANE) + 3)),
    "leave_early": (64, np.where(T % 3 == 1, -1, T * (T - 1) / 2)),
    "two_tiles": (64, 5 * (63 - T) + 10),
    "read_by_one": (64, np.where(T == 3, 5, 1) + np.where(T < 10, T, 0)),
    "votes_in_branches": (64, np.select([LANE % 4 != 0, LANE < 8], [np.where(LANE > 28, 30, 0), 104 + 1 + LANE // 4],
                                        4)),
    "partial_simdgroup": (50, np.where(T < 32, 32, 18)[:50] + np.select([T == 0, T == 32], [496, 729], 0)[:50]),
    "shared_words": (64, 2 * (31 - T // 2) + 2 * (31 - T // 2) + 1 + 7 + T // 2 // 4),
    "until_all_are_done": (64, np.full(64, 6)),
    "sum_by_simdgroups": (64, np.full(64, 2016 * 64)),
    "slots_from_a_counter": (64, np.full(64, 992)),
    "function_from_branches_of_simdgroups": (64, np.where(T < 32, 2, 1)),
}


@pytest.mark.parametrize("kernel", CORRECT)
def test_correct_kernels_that_look_wrong(driver, kernel):
    threads, expected = CORRECT[kernel]
    out = floats(driver, threads)
    assert driver.run(kernel, out, grid=1, group=threads) == ""
    assert np.array_equal(out.get(), expected)


def test_barriers_of_a_function(driver):
    out = floats(driver, 192)
    assert driver.run("barriers_of_a_function", out, grid=3, group=64) == ""
    assert np.array_equal(out.get(), np.repeat([64 + 2016, 64 - 128 + 64, 64 + 2016 + 64 + 128], 64))


def test_order_decides_which_fault_comes_first(native, checked_kernels):
    """A seed always reports the same fault in the same thread. Different seeds report different threads."""
    from simt_library import Driver
    kernels = checked_kernels(*sorted(FAULTS.glob("*.metal")))

    def thread(seed):
        driver = Driver(native, kernels, seed)
        fault = driver.fault("never_written", floats(driver, 64), grid=1, group=64)
        assert fault.seed == seed
        return fault.thread
    assert [thread(s) for s in (5, 6, 7, 8)] == [thread(s) for s in (5, 6, 7, 8)]
    assert len({thread(s) for s in range(1, 20)}) > 5


def test_driver_works_after_a_fault(driver):
    out = floats(driver, 64)
    for _ in range(3):
        assert driver.run("two_writers", out, grid=1, group=64) != ""
        assert driver.run("correct_synchronization", out, grid=1, group=64) == ""
