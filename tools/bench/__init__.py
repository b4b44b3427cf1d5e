"""Benchmarks of mpsx against PyTorch on the CPU and on CUDA, and against MLX; see tools/bench.py."""
