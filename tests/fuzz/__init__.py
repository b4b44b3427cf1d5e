"""A differential fuzzer that calls random operators on mpsx and on the CPU and prints one line per difference.

    python -m tests.fuzz --seconds 3600 --seed 7 --ops 'pool|conv' --driver simt
    python -m tests.fuzz --case 7:120:3        repeat one case

The operators are those of OpInfo with mutated samples, and those in calls.py. Cases run in child processes, so that
crashes and hangs are also reported. reasons.py lists differences that are PyTorch's own or by design.
"""
