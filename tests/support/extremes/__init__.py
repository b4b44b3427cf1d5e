"""Operators at the ends of their range: near its limits, at subnormals, signed zeros, infinities, NaN, and poles."""
