"""The simt driver's shadow memory, which records accesses to threadgroup memory (src/driver/host/simt/shadow.h)."""

import pytest

FINE, UNINITIALISED, READ_AFTER_WRITE, WRITE_AFTER_WRITE, WRITE_AFTER_READ = range(5)


class Shadow:
    def __init__(self, native, size=64):
        self.native, self.handle = native, native.new_shadow(size)
        self.group()

    def __del__(self):
        self.native.delete_shadow(self.handle)

    def group(self):
        self.native.shadow_begin(self.handle)

    def barrier(self, fences=True):
        self.native.shadow_barrier(self.handle, fences)

    def simd_barrier(self, simdgroup, fences=True):
        self.native.shadow_simd_barrier(self.handle, simdgroup, fences)

    def access(self, kind, thread, offset=0, size=4):
        self.last = self.native.shadow_access(self.handle, kind.encode(), offset, size, thread)
        return self.last & 15

    def read(self, *a):
        return self.access("r", *a)

    def write(self, *a):
        return self.access("w", *a)

    def add(self, *a):
        return self.access("a", *a)

    @property
    def unfenced(self):
        return bool(self.last & 16)

    @property
    def other(self):
        return self.last >> 5


@pytest.fixture
def shadow(native):
    return Shadow(native)


def test_reads_need_a_write_of_this_group(shadow):
    assert shadow.read(0) == UNINITIALISED
    assert shadow.write(0) == FINE
    assert shadow.read(0) == FINE
    shadow.barrier()
    assert shadow.read(1) == FINE
    shadow.group()
    assert shadow.read(1) == UNINITIALISED


def test_padding_is_not_uninitialized(shadow):
    assert shadow.write(0, 0, 1) == FINE        # {uchar; float}
    assert shadow.write(0, 4, 4) == FINE
    assert shadow.read(0, 0, 8) == FINE
    assert shadow.write(0, 16, 12) == FINE      # float3
    assert shadow.read(0, 16, 16) == FINE
    assert shadow.read(0, 24, 8) == FINE  # second half of a float3, including padding
    assert shadow.write(0, 32, 4) == FINE       # {int; long}
    assert shadow.write(0, 40, 8) == FINE
    assert shadow.read(0, 32, 16) == FINE


def test_half_of_a_value_is_uninitialized(shadow):
    shadow.write(0, 0, 2)
    assert shadow.read(0, 0, 4) == UNINITIALISED
    shadow.write(0, 32, 4)
    assert shadow.read(0, 32, 8) == UNINITIALISED
    assert shadow.read(0, 16, 32) == UNINITIALISED


def test_barrier_orders(shadow):
    shadow.write(0)
    assert shadow.read(1) == READ_AFTER_WRITE and shadow.other == 0
    shadow.barrier()
    assert shadow.read(1) == FINE
    assert shadow.write(0) == WRITE_AFTER_READ and shadow.other == 1
    shadow.barrier()
    assert shadow.write(0) == FINE
    assert shadow.write(2) == WRITE_AFTER_WRITE and shadow.other == 0


def test_barrier_for_other_memory_orders_nothing(shadow):
    shadow.write(0)
    shadow.barrier(fences=False)
    assert shadow.read(1) == READ_AFTER_WRITE and shadow.unfenced
    shadow.barrier()
    assert shadow.read(2) == FINE


def test_simdgroup_barrier_orders_its_own_threads(shadow):
    shadow.write(3)
    shadow.simd_barrier(1)
    assert shadow.read(4) == READ_AFTER_WRITE
    shadow.simd_barrier(0)
    assert shadow.read(5) == FINE
    assert shadow.read(40) == READ_AFTER_WRITE and shadow.other == 3


def test_readers_of_one_and_of_several_simd_groups(shadow):
    shadow.write(0)
    shadow.barrier()
    for thread in (0, 1, 2):
        assert shadow.read(thread) == FINE
    shadow.simd_barrier(0)
    assert shadow.write(0) == FINE  # all readers are in SIMD group 0
    shadow.barrier()
    assert shadow.read(1) == FINE
    assert shadow.read(33) == FINE
    shadow.simd_barrier(1)
    assert shadow.write(34) == WRITE_AFTER_READ  # one of the readers was in SIMD group 0


def test_own_accesses_never_race(shadow):
    for _ in range(3):
        assert shadow.write(7) == FINE
        assert shadow.read(7) == FINE


def test_bytes_of_a_word(shadow):
    for thread in range(4):
        assert shadow.write(thread, thread, 1) == FINE
    for thread in range(4):
        assert shadow.read(thread, thread, 1) == FINE
    assert shadow.read(0, 0, 4) == READ_AFTER_WRITE


def test_atomics_race_only_with_other_accesses(shadow):
    assert shadow.add(0) == UNINITIALISED
    shadow.group()
    assert shadow.access("s", 0) == FINE
    for thread in (0, 1, 40, 2):
        assert shadow.add(thread) == FINE
    assert shadow.access("l", 5) == FINE
    assert shadow.read(2) == READ_AFTER_WRITE  # other threads have also added to it
    shadow.barrier()
    assert shadow.read(3) == FINE
    assert shadow.add(4) == WRITE_AFTER_READ
    shadow.barrier()
    shadow.write(1)
    assert shadow.add(2) == READ_AFTER_WRITE


def test_atomics_of_one_thread(shadow):
    shadow.access("s", 3)
    assert shadow.add(3) == FINE
    assert shadow.read(3) == FINE
    assert shadow.write(3) == FINE
    assert shadow.read(4) == READ_AFTER_WRITE


def test_barrier_count_overflow(native):
    """Shadow memory stores barrier counts in 20 bits. After an overflow, written bytes must stay initialized, and no
    false race may be reported."""
    shadow = Shadow(native, 16)
    shadow.write(0)
    for _ in range((1 << 20) + 10):
        shadow.barrier()
    assert shadow.read(1) == FINE
    assert shadow.read(1, 8) == UNINITIALISED
    assert shadow.write(2) == WRITE_AFTER_READ
    shadow.group()
    assert shadow.read(1) == UNINITIALISED
