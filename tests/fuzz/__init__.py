"""A differential fuzzer: random calls of operators on mpsx and on the CPU, and what differs as one line each.

    python -m tests.fuzz --seconds 3600 --seed 7 --ops 'pool|conv' --driver simt
    python -m tests.fuzz --case 7:120:3        one case again

Operators are those of OpInfo, mutated, and the calls of calls.py. Cases are run in child processes, so that a crash or
a hang is a finding as well; reasons.py has the differences that are torch's own, or by design.
"""
