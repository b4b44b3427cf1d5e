"""The op-support matrix; see tools/opmatrix.py."""
