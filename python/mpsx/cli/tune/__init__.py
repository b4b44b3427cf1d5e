"""`python -m mpsx tune`: measure the kernels on this device, and choose among them accordingly.

Launchers choose kernels, tiles, splits, and threads by about sixty numbers (src/runtime/tuning.def), for example the
relative speeds of matmul's tiles. `tune` changes one number at a time and asks the launchers which kernels they would
launch for a list of cases (cases.py). It checks and measures each set of launches that it has not seen yet, interleaved
with the launches of the defaults (measure.py), and keeps the change if the cases get faster on balance (search.py).

So a variant is never timed before its result is checked, and `tune` knows nothing about drivers, tiles, or cost models:
whatever launchers choose by a number of the table is tuned.
"""
