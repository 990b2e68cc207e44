"""Tile IR -> LLVM IR text: a handler per op, families by file.

`ELEMENTWISE` holds the handlers of ops that mean the same lane by lane; they see operands as `Lanes` and never ask
how many there are. Every other family works on the loop nests of `nest.py`.
"""
