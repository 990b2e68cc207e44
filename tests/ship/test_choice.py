"""What fits what: processor levels, GPU code, and a form's own rules, on their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omnikernel.errors import ArgumentTypeError, ArgumentValueError, OptionValueError
from omnikernel.ship import fit, gpu, levels
from omnikernel.ship.declare import declarations, prebuild

AVX2 = frozenset(
    [
        "cx16",
        "lahf_lm",
        "popcnt",
        "pni",
        "ssse3",
        "sse4_1",
        "sse4_2",
        "avx",
        "avx2",
        "bmi1",
        "bmi2",
        "f16c",
        "fma",
        "abm",
        "movbe",
        "xsave",
    ]
)
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


@pytest.mark.parametrize(
    ("machine", "has", "found"),
    [
        ("x86_64", frozenset(), ("x86-64",)),
        ("x86_64", AVX2, ("x86-64-v3", "x86-64")),
        ("x86_64", AVX2 - {"fma"}, ("x86-64",)),
        ("x86_64", AVX512, ("x86-64-v4", "x86-64-v3", "x86-64")),
        ("x86_64", AVX512 - {"avx512vl"}, ("x86-64-v3", "x86-64")),
        ("aarch64", frozenset(), ("aarch64",)),
        ("riscv64", frozenset(), ()),
    ],
)
def test_levels_by_the_flags_of_a_processor(machine: str, has: frozenset[str], found: tuple[str, ...]) -> None:
    assert levels.available(machine, has) == found


def test_flags_are_read_from_the_operating_system(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor : 0\nflags\t\t: fpu avx2 fma\n\nprocessor : 1\n")
    assert levels.flags(tmp_path / "cpuinfo") == {"fpu", "avx2", "fma"}
    assert levels.flags(tmp_path / "none") == frozenset()


def test_the_variable_names_the_best_level_to_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "_host", lambda: ("x86-64-v4", "x86-64-v3", "x86-64"))
    assert levels.usable() == ("x86-64-v4", "x86-64-v3", "x86-64")
    monkeypatch.setenv("OMNIKERNEL_SHIPPED", "x86-64-v3")
    assert levels.usable() == ("x86-64-v3", "x86-64")
    monkeypatch.setenv("OMNIKERNEL_SHIPPED", "avx2")
    with pytest.raises(OptionValueError, match="OMNIKERNEL_SHIPPED=avx2: expected none or a level of this processor"):
        levels.usable()


def test_unknown_levels_are_refused() -> None:
    assert [level.name for level in levels.known(["x86-64-v3", "x86-64"])] == ["x86-64", "x86-64-v3"]
    with pytest.raises(OptionValueError, match="one of x86-64, x86-64-v3, x86-64-v4, aarch64, got 'avx2'"):
        levels.known(["avx2"])


def code(arch: int, specific: bool) -> dict[str, Any]:
    return {"arch": arch, "specific": specific, "cubin": f"{arch}.cubin", "ptx": f"{arch}.ptx"}


@pytest.mark.parametrize(
    ("capability", "file"),
    [
        (75, None),
        (80, "80.cubin"),
        (86, "86.cubin"),
        (89, "86.cubin"),
        (90, "90.cubin"),
        (100, "86.ptx"),
        (120, "86.ptx"),
    ],
)
def test_gpu_code_by_capability(capability: int, file: str | None) -> None:
    built = {"sm_80": code(80, False), "sm_86": code(86, False), "sm_90": code(90, True)}
    assert gpu.best(built, capability).get("file") == file


def test_a_generation_s_own_code_is_for_it_alone() -> None:
    assert not gpu.best({"sm_90": code(90, True)}, 100)
    assert gpu.best_cubin({"a": code(80, False), "b": code(86, False)}, 89)["arch"] == 86
    assert not gpu.best_cubin({"a": code(80, False)}, 90)


PARAMETERS = (
    fit.Parameter("x", False, ()),
    fit.Parameter("n", False, ()),
    fit.Parameter("SIZE", True, ()),
    fit.Parameter("WIDE", True, (False,)),
)


def form(*signature: str, options: dict[str, Any] | None = None, **constants: Any) -> fit.Form:
    about = {"signature": signature, "constants": {"WIDE": False, **constants}, "options": options or {}}
    return fit.read_form(0, about, PARAMETERS)


def misfit(
    found: fit.Form, dtype: str, address: int, n: Any, size: Any = None, on_gpu: Any = None, **options: Any
) -> Any:
    given = {"x": fit.Argument(dtype, address), "n": fit.Argument("", n)}
    if size is not None:
        given["SIZE"] = fit.Argument("", size)
    return found.misfit(given, options, PARAMETERS, on_gpu)


@pytest.mark.parametrize(
    ("signature", "dtype", "address", "n", "reason"),
    [
        (("*fp32", "i32"), "fp32", 4, 7, None),
        (("*kfp32", "i32"), "fp32", 4, 7, None),
        (("*fp32", "i32"), "fp16", 4, 7, "x: expected *fp32, got an array of float16"),
        (("*u1", "i32"), "i1", 4, 7, None),
        (("*fp32:16", "i32"), "fp32", 32, 7, None),
        (
            ("*fp32:16", "i32"),
            "fp32",
            36,
            7,
            "x: expected *fp32 at an address divisible by 16, got an array of float32 at 0x24",
        ),
        (("*fp32", "i32:16"), "fp32", 4, 32, None),
        (("*fp32", "i32:16"), "fp32", 4, 33, "n: expected i32 that is divisible by 16, got 33"),
        (("*fp32", "i32:1"), "fp32", 4, 1, None),
        (("*fp32", "i32:1"), "fp32", 4, 2, "n: expected i32 that is 1, got 2"),
        (("*fp32", "i32"), "fp32", 4, 1 << 31, f"n: expected i32, got {1 << 31}"),
        (("*fp32", "i64"), "fp32", 4, 1 << 31, None),
        (("*fp32", "i64"), "fp32", 4, 5, None),
        (("*fp32", "u64"), "fp32", 4, -1, "n: expected u64, got -1"),
        (("*fp32", "i32"), "fp32", 4, True, "n: expected i32, got True"),
        (("*fp32", "i1"), "fp32", 4, True, None),
        (("*fp32", "fp32"), "fp32", 4, 1.5, None),
        (("*fp32", "fp32"), "fp32", 4, 1, "n: expected fp32, got 1"),
        (("*fp32", "i32"), "fp32", 4, 1.0, "n: expected i32, got 1.0"),
        (("*fp32", "i32"), "fp32", 4, None, "n: expected i32, got None"),
    ],
)
def test_the_rules_of_arguments(signature: Any, dtype: str, address: int, n: Any, reason: str | None) -> None:
    assert misfit(form(*signature, SIZE=8), dtype, address, n, 8) == reason


def test_the_rules_of_constants_and_options() -> None:
    built = form("*fp32", "i32", SIZE=8, options={"num_warps": 8})
    assert misfit(built, "fp32", 0, 5) is None
    assert misfit(built, "fp32", 0, 5, 9) == "SIZE: expected the constant 8, got 9"
    assert misfit(form("*fp32", SIZE=8, n=4), "fp32", 0, 5, 8) == "n: expected the constant 4, got 5"
    assert (
        misfit(form("i32", SIZE=8, x=None), "fp32", 0, 5, 8) == "x: expected the constant None, got an array of float32"
    )
    assert misfit(built, "fp32", 0, 5, 8, num_warps=4) is None
    on_gpu = {"num_warps": 8, "num_stages": 3}
    assert misfit(built, "fp32", 0, 5, 8, on_gpu, num_warps=4) == "option num_warps=4: it was built with 8"
    assert misfit(built, "fp32", 0, 5, 8, on_gpu, num_warps=8, num_stages=3) is None
    assert misfit(built, "fp32", 0, 5, 8, debug=True) == "option debug=True: it was built with False"
    assert misfit(built, "fp32", 0, 5, 8, enable_fp_fusion=True) is None
    assert misfit(built, "fp32", 0, 5, 8, other=1) == "option other=1: it was built without"


def test_values_of_constants_are_told_apart_and_those_of_numbers_are_not() -> None:
    assert fit.Argument("", 100).key(False) == fit.Argument("", 101).key(False)
    assert fit.Argument("", 100).key(True) != fit.Argument("", 101).key(True)
    assert fit.Argument("", True).key(True) != fit.Argument("", 1).key(True)
    assert fit.Argument("", 100).key(False) != fit.Argument("", 112).key(False)
    assert fit.Argument("fp32", 32).key(False) != fit.Argument("fp32", 36).key(False)


# ---- declarations ----


class Kernel:
    arg_names = ("x", "n", "SIZE")


def test_every_signature_with_every_set_of_constants() -> None:
    kernel = Kernel()
    assert prebuild("*fp32, i32", "*bf16,i32:16", constants=[{"SIZE": 1}, {"SIZE": 2}])(kernel) is kernel
    prebuild("*fp64, i32", constants={"SIZE": 3})(kernel)
    found = [(one.signature, dict(one.constants)["SIZE"]) for one in declarations(kernel)]
    assert found == [
        (("*fp32", "i32"), 1),
        (("*fp32", "i32"), 2),
        (("*bf16", "i32:16"), 1),
        (("*bf16", "i32:16"), 2),
        (("*fp64", "i32"), 3),
    ]
    assert declarations(Kernel()) == ()


def test_mistakes_in_declarations() -> None:
    with pytest.raises(ArgumentValueError, match="prebuild: expected at least one signature"):
        prebuild(constants={"SIZE": 1})
    with pytest.raises(ArgumentTypeError, match="'float' is no argument type"):
        prebuild("float, i32")
    with pytest.raises(
        ArgumentTypeError, match="constant 'SIZE': expected a bool, int, float, str or None, got a list"
    ):
        prebuild("*fp32, i32", constants={"SIZE": [1]})
    with pytest.raises(ArgumentTypeError, match="expected a Triton kernel"):
        prebuild("*fp32, i32")(lambda x: x)
