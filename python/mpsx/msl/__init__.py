"""The Metal Shading Language compiler: translates kernels to C++ for CPUs and CUDA, and checks them.

The stages are preprocess.py, lexer.py, parser.py (which builds the tree defined in declarations.py), check/, passes/
(run by lowering.py) and codegen/. cli.py is the command line."""
