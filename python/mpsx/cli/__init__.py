"""The commands of `python -m mpsx`."""
