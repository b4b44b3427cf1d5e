"""`python -m mpsx demo`: trains a model on the device and, step by step beside it, on the CPU.

Reading order: data.py (what is learned), models.py (what learns), training.py (one run and the race of two),
picture.py (the PNG), main.py (the command line and the text).
"""
