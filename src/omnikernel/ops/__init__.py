"""Operators: one declaration, an operator in NumPy, PyTorch and JAX.

In: an annotated Python function that allocates its outputs and launches kernels. Out: an `Operator` that takes and
returns the caller's kind of array. `schema.py` reads the annotations, `arrays.py` is what the function sees of an array,
`launches.py` turns its launches off, checks or records them, `declare.py` is the operator; `numpy.py`, `torch.py` and
`jax.py` bind it to a library and are imported when an array of that library comes along; `protocol.py` and `device.py` bind
it to the arrays of all others, in the CPU's memory and on a GPU. Torch's binding has its arrays, its entry of the dispatcher and its
derivative in modules of their own, `torch_*.py`.
"""
