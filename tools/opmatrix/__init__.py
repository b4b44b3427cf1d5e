"""The op-support matrix: what ran for each operator, type and direction, on each driver. See tools/opmatrix.py."""
