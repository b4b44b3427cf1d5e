# The part of _runtime that `python -m mpsx tune` uses: the numbers that launchers choose kernels by, and plans.

from libc.stdlib cimport free, malloc


cdef extern from "c_api.h" nogil:
    void mpsx_open_plan()
    const char* mpsx_close_plan(mpsx_list** out)
    ctypedef struct mpsx_tunable:
        const char* name
        double value, table, low, high
    const char* mpsx_tuning(const char* gpu_family, mpsx_tunable* out, size_t* count)
    const char* mpsx_set_tuning(const char* lines)
    ctypedef const char* (*mpsx_read_tuning)()
    void mpsx_set_tuning_reader(mpsx_read_tuning read)


def plan(body):
    """Call `body` and list the launches it would make on this thread. Nothing runs, and the results have no memory."""
    cdef mpsx_list* listing = NULL
    mpsx_open_plan()
    try:
        body()
    finally:
        check(mpsx_close_plan(&listing))
        launches = [row["name"] for row in rows(listing)]
    return launches


def tuning(str gpu_family=None):
    """Return the numbers that launchers choose kernels by: {name: {"value", "table", "low", "high"}}. `value` is the
    one in use, and `table` the default of this GPU's family, or of `gpu_family`."""
    cdef size_t count = 0
    cdef bytes family = b"" if gpu_family is None else gpu_family.encode()
    cdef const char* wanted = NULL
    if gpu_family is not None:
        wanted = family
    check(mpsx_tuning(wanted, NULL, &count))
    cdef mpsx_tunable* found = <mpsx_tunable*>malloc(count * sizeof(mpsx_tunable))
    try:
        check(mpsx_tuning(wanted, found, &count))
        return {found[i].name.decode(): {"value": found[i].value, "table": found[i].table, "low": found[i].low,
                                         "high": found[i].high} for i in range(count)}
    finally:
        free(found)


def set_tuning(dict values):
    """Use the table's numbers except for `values` in the following launches."""
    lines = "".join(f"{name} {value!r}\n" for name, value in values.items())
    check(mpsx_set_tuning(lines.encode()))


_read_file = None
_tuning_text = b""  # owns the text that _read_tuning returned


cdef const char* _read_tuning() noexcept with gil:
    global _tuning_text
    cdef bytes text = "".join(f"{name} {value!r}\n" for name, value in _read_file().items()).encode()
    _tuning_text = text
    return text


def set_tuning_reader(read):
    """When the driver starts, use the numbers that `read()` returns. It must not raise."""
    global _read_file
    _read_file = read
    mpsx_set_tuning_reader(_read_tuning)
