"""Operators at the limits of their range: largest values, subnormals, signed zeros, infinities, NaN, and poles."""
