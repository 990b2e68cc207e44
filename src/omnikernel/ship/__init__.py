"""Operator packages with everything prebuilt: wheels that run without a compiler, and on the CPU without Triton.

To build, where Triton and llvmlite are: `declare.py` says beside a kernel what to build, `project.py` finds it, `triton_cpu.py`,
`triton_gpu.py` and `sources.py` compile it, `wheel.py` and `hook.py` put it into a wheel. To run, with neither: `handles.py` gives
`omnikernel.shipped`, `fit.py` chooses what fits a launch, `package.py` reads and verifies the files, `gpu.py` launches on GPUs.
"""
