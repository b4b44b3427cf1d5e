"""`python -m mpsx demo`: train a model on the device and on the CPU in alternating steps, and compare them.

Reading order: data.py, models.py, tasks.py, training.py (trains and compares), picture.py (draws the PNG), main.py
(parses the command line and prints the results).
"""
