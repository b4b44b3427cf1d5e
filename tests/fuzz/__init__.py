"""Differential fuzzer: calls random operators on mpsx and on the CPU, and prints one line per difference.

    python -m tests.fuzz --seconds 3600 --seed 7 --ops 'pool|conv' --driver simt
    python -m tests.fuzz --case 7:120:3        repeat one case

The cases are mutated OpInfo samples and hand-written calls (calls.py, layers.py). They run in child processes to catch
crashes and hangs. reasons.py lists differences that are caused by PyTorch's bugs or that are intended.
"""
