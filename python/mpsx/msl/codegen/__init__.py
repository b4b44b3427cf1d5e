"""Code generation: entry points and kernel tables, with one module per target."""
