"""The generator of the embedded sample; `python -m agon_env.tasks.make_sample` writes the file.

Each template draws the numbers of one kind of problem and computes its answer in two ways that have little in
common: a closed form or an algorithm, and brute force, a linear system or a numeric value. Both must agree.
"""
