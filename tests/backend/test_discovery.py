"""How Triton finds the backend, and that it never comes to harm by it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Run = Callable[..., str]


def test_one_class_each_is_found(python: Run) -> None:
    out = python("""
        import triton
        from triton.backends import backends
        print(backends["cpu"].compiler.__name__, backends["cpu"].driver.__name__)
        """)
    assert out.split() == ["CPUBackend", "CPUDriver"]


def test_importing_triton_imports_neither_frameworks_nor_llvm(python: Run) -> None:
    out = python("""
        import sys, triton
        print([name for name in ("torch", "jax", "llvmlite") if name in sys.modules])
        """)
    assert out.strip() == "[]"


@pytest.mark.parametrize(
    "broken", ["omnikernel.backend.cpu_compiler", "omnikernel.backend.cpu_driver", "omnikernel.backend.options"]
)
def test_a_broken_module_of_ours_is_reported_once_and_triton_works(python: Run, broken: str) -> None:
    out = python(
        """
        import warnings
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            import triton
            import triton.language as tl
            active = triton.backends.backends["cpu"].driver.is_active()
        print(len([w for w in seen if "omnikernel" in str(w.message)]), tl.float32, active)
        """,
        hide=(broken,),
    )
    assert out.split() == ["1", "fp32", "False"]


@pytest.mark.parametrize("missing", ["llvmlite", "omnikernel.runtime.launch"])
def test_without_what_it_needs_the_driver_is_not_active(python: Run, missing: str) -> None:
    out = python(
        """
        import warnings
        import triton
        driver = triton.backends.backends["cpu"].driver
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            print(driver.is_active(), driver.is_active(), len(seen), "not active" in str(seen[0].message))
        """,
        hide=(missing,),
    )
    assert out.split() == ["False", "False", "1", "True"]


def test_the_driver_answers_what_libraries_ask(python: Run) -> None:
    out = python(
        """
        import triton
        driver = triton.runtime.driver.active
        target = driver.get_current_target()
        properties = driver.utils.get_device_properties(driver.get_current_device())
        print(target.backend, repr(target.arch), target.warp_size, driver.get_current_device(), driver.get_current_stream(-1))
        print(all(properties[name] > 0 for name in ("max_shared_mem", "max_num_regs", "multiprocessor_count", "warpSize")))
        print(driver.map_python_to_cpp_type("*fp16"), driver.map_python_to_cpp_type("i32"))
        scratch = driver.allocate_default_profile_scratch(100, 128, None)
        print(len(scratch), scratch.ctypes.data % 128, int(scratch.sum()))
        """,
        recorder=True,
    )
    assert out.splitlines() == ["cpu '' 32 -1 0", "True", "void* int32_t", "100 0 0"]
