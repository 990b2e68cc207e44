"""The optional C extension: one library for every Python from 3.11 on. Without a compiler the package installs without it."""

import sysconfig

from setuptools import Extension, setup

FOLDER = "src/omnikernel/runtime/_native"
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))

native = Extension(
    "omnikernel._native",
    sources=[f"{FOLDER}/{name}.c" for name in ("module", "pool", "arrays", "call", "context", "trial", "entry", "dispatch", "prepare", "launcher", "xla")],
    depends=[f"{FOLDER}/{name}.h" for name in ("native", "call", "launch", "xla")],
    define_macros=[("Py_LIMITED_API", "0x030b0000")],
    extra_compile_args=["-std=gnu11", "-O2", "-pthread", "-fvisibility=hidden"],
    extra_link_args=["-pthread"],
    py_limited_api=True,
    optional=True,
)

setup(
    ext_modules=[] if FREE_THREADED else [native],
    options={} if FREE_THREADED else {"bdist_wheel": {"py_limited_api": "cp311"}},
)
