"""`python -m mpsx bench`: measure the speedup over the CPU when training and evaluating ResNet-50, BERT, and VGG16.

main.py parses the command line, worker.py measures one model on one device in a separate process, models.py defines the
networks, and picture.py draws the chart. worker.py and models.py import only torch, so the baseline process never loads
mpsx.
"""
