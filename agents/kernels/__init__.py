"""Compiled kernels of the common block on a CPU in float32, and the same in torch's operators for everything else.

A small model spends its time in calls, and in passes over memory between them: a step of one token is some 50 operators a
layer, of which four are large. What stands between the products with weights is one call each here: `elementwise` (norm,
gate, rotation, with their gradients), `decoding` (attention of the next token) and `attention` (of packed rows, with its
gradient). The products with weights stay torch's.

The C sources beside this file are compiled when the package is installed, if there is a compiler; without them, and with
the environment variable `AGON_KERNELS=0`, all goes by torch. Either way gives the same numbers up to rounding.
"""
