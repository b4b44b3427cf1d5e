"""Benchmarks: mpsx beside PyTorch on the CPU, CUDA and MLX. `python tools/bench.py` runs them."""
