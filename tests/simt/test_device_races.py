"""Find races in device memory (faults/device_races.metal), in several thread orders."""

import re

import numpy as np
import pytest
from test_faults import check, driver, floats  # noqa: F401 - a fixture

OTHER = r"thread \((\d+), (\d+), 0\) of threadgroup \((\d+), (\d+), 0\)"
WHERE = r"at tests/simt/faults/device_races.metal:\d+"
BETWEEN_GROUPS = "; nothing orders the threadgroups of a dispatch"
# The message of each kernel, launched with two threadgroups of 64 threads.
RACES = {
    "sum_into_one_element": r"(read|write) of 4 bytes at byte 0 of buffer 0 \(element 0\), ",
    "conflicting_stores": r"write of 4 bytes at byte \d+ of buffer 0 \(element \d+\), which .* wrote .* in between",
    "neighbor_in_place": r"(read|write) of 4 bytes at byte \d+ of buffer 0 ",
    "read_by_all": r"(read|write) of 4 bytes at byte \d+ of buffer 0 ",
    "device_histogram": r"(read|write) of 4 bytes at byte (0|4|8|12) of buffer 0 ",
    "flags_of_bytes": r"write of 1 byte at byte \d+ of buffer 0 ",
    "words_of_bytes": r"(read of 4 bytes|write of 1 byte) at byte \d+ of buffer 0 ",
    "overlapping_vectors": r"write of (4|8) bytes at byte \d+ of buffer 0 ",
    "exchange_without_barrier": r".* with no barrier in between",
    "exchange_with_the_wrong_barrier": r".*; the barrier in between lacks mem_flags::mem_device",
    "exchange_between_simdgroups": r".* with no barrier in between",
    "exchange_between_groups": r".*" + BETWEEN_GROUPS,
    "plain_read_of_an_atomic": r"(read|atomic update) of 4 bytes at byte 0 of buffer 0 ",
}  # fmt: skip


def check_race(fault, what):
    """Check the message, which must name the lines and the threads of both accesses."""
    check(fault, fault.kernel, f"^race: {what}")
    other = re.search(rf"which {OTHER} (wrote|read) {WHERE}", fault.what)
    assert other, fault.message
    x, y, group_x, group_y = map(int, other.groups()[:4])
    assert ((x, y, 0), (group_x, group_y, 0)) != (fault.thread, fault.group), fault.message
    assert (BETWEEN_GROUPS in fault.what) == ((group_x, group_y, 0) != fault.group), fault.message
    return x, y, group_x, group_y


@pytest.mark.parametrize("kernel", RACES)
def test_race(driver, kernel):  # noqa: F811
    x, y = floats(driver, 128), driver.memory(np.arange(128, dtype=np.float32))
    fault = driver.fault(kernel, x, y, grid=2, group=64)
    assert fault.kernel == kernel
    check_race(fault, RACES[kernel])


@pytest.mark.parametrize("group", [1, 32])
def test_race_between_threadgroups(driver, group):  # noqa: F811
    x, y = floats(driver, 64), driver.memory(np.ones(64, np.float32))
    check_race(driver.fault("sum_into_one_element", x, y, grid=64 // group, group=group), "")


def test_race_in_part_of_a_threadgroup(driver):  # noqa: F811
    """The threadgroup at the end of the grid has fewer threads in each dimension."""
    x, y = floats(driver, 64), driver.memory(np.ones(64, np.float32))
    fault = driver.fault("sum_into_one_element", x, y, grid=(7, 5), group=(4, 4), by_threads=True)
    x, y, group_x, group_y = check_race(fault, "")
    assert group_x * 4 + x < 7 and group_y * 4 + y < 5


def test_race_in_a_view(driver):  # noqa: F811
    """The message counts elements from the address that the kernel gets."""
    storage = floats(driver, 228)
    fault = driver.fault("sum_into_one_element", storage.at(400), driver.memory(np.ones(64, np.float32)),
                         grid=1, group=64)  # fmt: skip
    check_race(fault, r"(read|write) of 4 bytes at byte 0 of buffer 0 \(element 0\), ")


def test_buffers_that_share_memory(driver):  # noqa: F811
    """Two arguments may be the same allocation. Their ranges may be declared separately."""
    storage = driver.memory(np.arange(128, dtype=np.float32))
    fault = driver.fault("conflicting_stores", storage, storage, grid=2, group=64)
    check_race(fault, r"(read|write) of 4 bytes at byte \d+ of buffer [01] ")


def test_race_through_a_pointer(driver):  # noqa: F811
    out, x = floats(driver, 128), driver.memory(np.arange(128, dtype=np.float32))
    table = np.array([out.address, x.address], np.uint64)
    for argument in (table, driver.memory(table)):
        fault = driver.fault("race_through_a_pointer", argument, grid=2, group=64)
        check_race(fault, r"(read|write) of 4 bytes at byte \d+ of memory that an argument points to \(element \d+\)")
    assert driver.run("allowed_through_a_pointer", table, grid=2, group=64) == ""


def test_fences_order_threadgroups(driver):  # noqa: F811
    def arguments():
        return [driver.memory(np.zeros(n, np.uint32)) for n in (5, 1, 5)]
    check_race(driver.fault("last_group_without_fence", *arguments(), grid=5, group=64), "read of 4 bytes .* wrote ")
    partial, count, out = arguments()
    assert driver.run("last_group", partial, count, out, grid=5, group=64) == ""
    assert np.array_equal(out.get(), np.arange(1, 6))


def test_no_race(driver):  # noqa: F811
    n = 128
    x, count, done = floats(driver, n), driver.memory(np.zeros(1, np.uint32)), driver.memory(np.zeros(1, np.uint32))
    others = driver.memory(np.zeros(n, np.uint8)), driver.memory(np.zeros(n, np.float16))
    assert driver.run("no_device_race", x, count, done, *others, grid=2, group=64) == ""
    i = np.arange(n) ^ 1
    assert np.array_equal(x.get(), i + (i ^ 33)) and count.get()[0] == n and done.get()[0] == 1


def test_barrier_count_overflow(driver):  # noqa: F811
    """Shadow memory stores barrier counts in 19 bits. No false race may be reported after an overflow."""
    x = floats(driver, 2)
    for barriers in (3, (1 << 19) + 10):
        assert driver.run("many_barriers", x, np.array([barriers], np.uint32), grid=1, group=2) == ""
        assert np.array_equal(x.get(), [1, 0])


READ, WRITE, ADD, BARRIER, SIMD_BARRIER, OTHER_BARRIER, NONE = *range(6), 255
THREADS, GROUP = 128, 64


def has_race(operations, elements):
    """Return whether two accesses of the kernel random_steps race."""
    barriers = np.cumsum(operations == BARRIER)
    simd_barriers = np.cumsum(operations == SIMD_BARRIER)
    steps, threads = np.nonzero((operations < BARRIER)[:, None] & (elements != NONE))
    group, simdgroup = threads // GROUP, threads // 32
    ordered = threads[:, None] == threads
    ordered |= (group[:, None] == group) & (barriers[steps][:, None] != barriers[steps])
    ordered |= (simdgroup[:, None] == simdgroup) & (simd_barriers[steps][:, None] != simd_barriers[steps])
    operation, element = operations[steps], elements[steps, threads]
    conflict = (element[:, None] == element) & (operation[:, None] + operation > READ)
    conflict &= (operation[:, None] != ADD) | (operation != ADD)
    return bool((conflict & ~ordered).any())


def random_steps(rng):
    """Return operations that may or may not race: most threads access elements that few other threads access."""
    n = rng.integers(2, 9)
    operations = rng.choice(6, n, p=[0.25, 0.25, 0.1, 0.2, 0.15, 0.05]).astype(np.uint8)
    thread = np.arange(THREADS)
    partner = rng.choice([1, 2, 32, 64], p=[0.5, 0.25, 0.2, 0.05])
    choices = [thread, thread, thread ^ partner, thread | partner]
    elements = np.stack([choices[rng.integers(4)] for _ in range(n)]).astype(np.uint8)
    elements[rng.random((n, THREADS)) < rng.choice([0, 0.9, 0.99])] = NONE
    return operations, elements


def test_random_kernels(driver):  # noqa: F811
    """A kernel races exactly if two of its accesses conflict and no barrier orders them."""
    rng = np.random.default_rng(38)
    found = []
    for _ in range(200):
        operations, elements = random_steps(rng)
        x, out = (driver.memory(np.zeros(THREADS, np.uint32)) for _ in range(2))
        message = driver.run("random_steps", x, out, driver.memory(operations), driver.memory(elements),
                             np.array([len(operations)], np.uint32), grid=THREADS // GROUP, group=GROUP)  # fmt: skip
        found.append(message != "")
        assert found[-1] == has_race(operations, elements), (operations, elements.tolist(), message)
    assert 40 < sum(found) < 160
