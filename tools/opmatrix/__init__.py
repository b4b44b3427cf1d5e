"""The op-support matrix. See tools/opmatrix.py."""
