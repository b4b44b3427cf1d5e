"""`python -m mpsx doctor`: check an installation, and write a report to attach to an issue.

Each stage runs in its own process, so that a crash only adds a line to the report:

    environment   installed packages, the driver, the machine
    kernels       load every kernel, and on a GPU build its pipeline
    families      compare operators of each family with the CPU, forward and backward, without fallbacks
    device        memory, streams, events, threads, and errors that must be raised
    tuning        measure the variants of kernels, as `python -m mpsx tune --quick` does, without changing the tuning
    stress        run random cases in several threads for minutes, and check for differences, leaks and hangs
"""
