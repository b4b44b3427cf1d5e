"""`python -m mpsx bench`: the speedup over the CPU of training and evaluating ResNet-50, BERT, and VGG16.

main.py is the command line, worker.py the process that measures one model on one device, models.py has the networks,
and picture.py draws the chart. worker.py and models.py import only torch, so that the baseline never loads mpsx.
"""
