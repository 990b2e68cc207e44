"""Kernels in C++ and CUDA C++: from a string or from files to functions on arrays.

In: the user's source. Out: a `Module` whose attributes are its functions (`cpp_source`) and kernels (`cuda_source`).

tokens.py cuts the source, source.py reads signatures, emulation.py makes CUDA source compile for the CPU, entries.py writes
the functions that launches call, toolchain.py and build.py compile and keep the result, arguments.py checks and packs the
arguments, library.py runs them, module.py and loading.py are what the user sees, operators.py is for use inside operators and
JAX. gpu.py, gpu_source.py and driver.py are the same on an NVIDIA GPU.
"""
