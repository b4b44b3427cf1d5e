"""Differential fuzzer. Calls random operators on mpsx and on the CPU, and prints one line per difference.

    python -m tests.fuzz --seconds 3600 --seed 7 --ops 'pool|conv' --driver simt
    python -m tests.fuzz --case 7:120:3        repeat one case

Cases are mutated OpInfo samples and hand-written calls (calls.py, layers.py). They run in child processes, because they
may crash or hang. reasons.py lists the differences that are intended or caused by PyTorch bugs.
"""
