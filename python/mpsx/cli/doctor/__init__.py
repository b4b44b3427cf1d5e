"""`python -m mpsx doctor`: check an installation, and write a report to attach to an issue.

Each stage runs in its own process, so a crash becomes a line in the report:

    environment   installed packages, the driver, the machine
    kernels       load every kernel; on a GPU, build its pipeline
    families      compare operators of each family with the CPU, forward and backward, without fallback
    device        memory, streams, events, threads, errors that must be raised
    stress        random cases in several threads for minutes, checked for differences, leaks and hangs
"""
