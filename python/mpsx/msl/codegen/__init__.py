"""Code generation: entry points and kernel tables, one module per target."""
