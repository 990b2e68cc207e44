"""What Triton sees as its backend `cpu`.

Triton finds `compiler.py` and `driver.py` by the package's entry point, in the middle of `import triton`. Both only
guard; the classes are in `cpu_compiler.py` and `cpu_driver.py`. `hooks.py`, `tuning.py`, `diskcache.py` and
`interpret.py` adapt Triton's launches, autotuner, cache reads and interpreter, for launches on the CPU alone.
"""
