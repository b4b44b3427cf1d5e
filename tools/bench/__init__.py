"""Benchmarks of mpsx against PyTorch on CPUs and on CUDA, and against MLX. See tools/bench.py."""
