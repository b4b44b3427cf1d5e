"""`python -m mpsx doctor`: does this installation work on this machine? One report file says it, to attach to an issue.

Each stage runs in a process of its own, so that a crash becomes a line of the report:

    environment   what is installed, the driver, the machine
    kernels       every kernel is loaded; on a GPU its pipeline is built
    families      operators of each family against the CPU, forward and backward, without the fallback
    device        memory, streams, events, threads, errors that must be raised
    stress        all of it at random, in several threads, for minutes; nothing may differ, leak or hang
"""
