"""Prebuilt kernels in use: what is chosen, what is refused, what is compiled instead, and in which words."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shipping
from shipping import NAME

import omnikernel
from omnikernel.errors import (
    ArgumentTypeError,
    CorruptArtefact,
    DeviceAssertionError,
    OptionValueError,
    ShippedError,
    ShippedWarning,
)
from omnikernel.runtime import pool
from omnikernel.ship import handles, levels
from omnikernel.ship import package as manifests
from omnikernel.ship.package import Unfit


def kernels() -> Any:
    return omnikernel.shipped(".kernels", NAME)


def scaled(found: Any, x: Any = None, step: int = 1, block: int = 64, **more: Any) -> Any:
    x = np.arange(256, dtype=np.float32) if x is None else x
    out = np.zeros(block, x.dtype)
    found.scale[(1,)](x, out, step, 3.0, BLOCK=block, **more)
    return out


def alter_manifest(folder: Path, **changes: Any) -> None:
    whole = json.loads((folder / "manifest.json").read_text())
    manifests.write(folder, {**whole["content"], **changes})


def test_prebuilt_kernels_run_without_importing_their_module(package: Path) -> None:
    found = kernels()
    for block in (64, 128):
        for step in (1, 2):
            want = 3 * np.arange(256, dtype=np.float32)[: block * step : step]
            for _ in range(2):  # the second time by the C extension's table
                np.testing.assert_array_equal(scaled(found, step=step, block=block), want)
    assert f"{NAME}.kernels" not in sys.modules
    assert found.IMPORTED and f"{NAME}.kernels" in sys.modules


def test_a_checkout_gives_the_module_itself(tmp_path: Path) -> None:
    folder = shipping.write_package(tmp_path, "in_checkout")
    with shipping.importable(folder, "in_checkout"):
        found = omnikernel.shipped("in_checkout.kernels")
        assert found is sys.modules["in_checkout.kernels"]


def test_none_gives_the_module_itself(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIKERNEL_SHIPPED", "none")
    assert kernels() is sys.modules[f"{NAME}.kernels"]


def test_neither_triton_nor_llvmlite_nor_a_compiler(package: Path) -> None:
    program = f"""
import numpy as np, omnikernel, omnikernel.errors, {NAME}.native
kernels = omnikernel.shipped("{NAME}.kernels")
x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)

@omnikernel.op("tests::ship_scale")
def scale(x: omnikernel.Array) -> omnikernel.Array:
    out = omnikernel.empty_like(x)
    kernels.scale[lambda meta: (omnikernel.cdiv(x.size, meta["BLOCK"]),)](x, out, 1, 3.0, BLOCK=64)
    return out

for _ in range(2):
    assert (scale(x) == 3 * x).all()
{NAME}.native.native.twice(x, out)
assert (out == 2 * x).all()
try:
    scale(x.astype(np.float64))
except omnikernel.errors.ShippedError as error:
    print(error)
"""
    run = shipping.bare(program, package.parent.parent)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == (
        f"kernel 'scale' of package '{NAME}': no prebuilt code fits this launch: x_ptr: expected *fp32, got an array of "
        "float64. Shipped: (*fp32, *fp32, i32:1, fp32; ADD=0, BLOCK=64), (*fp32, *fp32, i32:1, fp32; ADD=0, BLOCK=128), "
        "(*fp32, *fp32, i32, fp32; ADD=0, BLOCK=64), (*fp32, *fp32, i32, fp32; ADD=0, BLOCK=128), for x86-64, x86-64-v3. "
        "Launch it with what was shipped. To compile kernels here, install what that needs: pip install triton llvmlite"
    )


def test_where_triton_is_there_it_is_not_imported(package: Path) -> None:
    program = f"""
import sys
sys.path.insert(0, {str(package.parent.parent)!r})
import numpy as np, omnikernel
kernels = omnikernel.shipped("{NAME}.kernels")

@omnikernel.op("tests::ship_scale")
def scale(x: omnikernel.Array) -> omnikernel.Array:
    out = omnikernel.empty_like(x)
    kernels.scale[(1,)](x, out, 1, 3.0, BLOCK=64)
    return out

assert (scale(np.ones(64, np.float32)) == 3).all()
assert not {{"triton", "llvmlite", "torch", "jax"}} & set(sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_what_does_not_fit_is_compiled_and_says_so_once(package: Path) -> None:
    found = kernels()
    x = np.arange(64, dtype=np.float64)
    with pytest.warns(ShippedWarning) as caught:
        got = scaled(found, x)
    np.testing.assert_array_equal(got, 3 * x)
    assert len(caught) == 1
    assert str(caught[0].message).startswith(
        f"kernel 'scale' of package '{NAME}': no prebuilt code fits this launch: x_ptr: expected *fp32, got an array of float64. "
    )
    assert str(caught[0].message).endswith(". It is compiled instead")
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(scaled(found, x), 3 * x)


def test_another_value_of_what_does_not_fit_is_no_news(package: Path) -> None:
    found, x, out = kernels(), np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    with pytest.warns(ShippedWarning) as caught:
        for factor in (2, 3, 4):
            found.scale[(1,)](x, out, 1, factor, BLOCK=64)
            np.testing.assert_array_equal(out, factor * x)
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("launch", "reason"),
    [
        ({"block": 32}, "BLOCK: expected the constant 64, got 32"),
        ({"ADD": 5}, "ADD: expected the constant 0, got 5"),
        ({"ADD": False}, "ADD: expected the constant 0, got False"),
        ({"enable_fp_fusion": False}, "option enable_fp_fusion=False: it was built with True"),
    ],
)
def test_why_it_does_not_fit(
    package: Path, monkeypatch: pytest.MonkeyPatch, launch: dict[str, Any], reason: str
) -> None:
    monkeypatch.setattr(handles, "_triton", lambda: False)
    with pytest.raises(ShippedError, match="no prebuilt code fits this launch: ") as caught:
        scaled(kernels(), **launch)
    assert f"launch: {reason}. Shipped:" in str(caught.value)


def test_options_of_gpus_do_not_matter_here(package: Path) -> None:
    assert scaled(kernels(), num_warps=8, num_stages=2)[1] == 3


def test_constants_that_are_not_given_are_those_of_the_first_form_that_fits(package: Path) -> None:
    x, out, seen = np.arange(64, dtype=np.float32), np.zeros(64, np.float32), []
    kernels().scale[lambda meta: seen.append(meta["BLOCK"]) or (1,)](x, out, 1, 3.0)
    assert seen == [64]
    np.testing.assert_array_equal(out, 3 * x)


def test_prepared_launches(package: Path) -> None:
    found, x, out = kernels(), np.arange(256, dtype=np.float32), np.zeros(64, np.float32)
    launch = omnikernel.prepare(found.scale, (1,), x, out, 2, 3.0, BLOCK=64)
    launch()
    np.testing.assert_array_equal(out, 3 * x[:128:2])
    launch(x + 1, out, 4, 5.0)
    np.testing.assert_array_equal(out, 5 * (x + 1)[::4])
    launch(x, out, 1, 2.0)  # another form
    np.testing.assert_array_equal(out, 2 * x[:64])
    assert f"{NAME}.kernels" not in sys.modules
    with pytest.warns(ShippedWarning, match="x_ptr: expected"):
        launch(np.arange(256), out, 2, 3.0)
    np.testing.assert_array_equal(out, 3 * x[:128:2])
    if pool.native() is not None:
        assert launch.direct


def test_overlapping_arrays_take_the_careful_code(package: Path) -> None:
    found = kernels()
    for _ in range(2):
        memory = np.arange(80, dtype=np.float32)
        want = memory[:64] * 3
        found.scale[(1,)](memory[:64], memory[1:65], 1, 3.0, BLOCK=64)
        np.testing.assert_array_equal(memory[1:65], want)


def test_mistakes_in_a_call(package: Path) -> None:
    found, x = kernels(), np.zeros(64, np.float32)
    with pytest.raises(ArgumentTypeError, match="kernel 'scale': no value for step, factor"):
        found.scale[(1,)](x, x, BLOCK=64)
    with pytest.raises(ArgumentTypeError, match="kernel 'scale': parameter 'step' is given twice"):
        found.scale[(1,)](x, x, 1, 3.0, step=1, BLOCK=64)
    with pytest.raises(ArgumentTypeError, match="expected at most 6 arguments"):
        found.scale[(1,)](*[x] * 7)
    with pytest.raises(
        ArgumentTypeError, match="kernel 'scale', parameter 'x_ptr': expected an array or a number, got a object"
    ):
        found.scale[(1,)](object(), x, 1, 3.0, BLOCK=64)


def test_a_read_only_array_is_refused(package: Path) -> None:
    x = np.zeros(64, np.float32)
    x.flags.writeable = False
    with pytest.raises(
        ValueError, match="kernel 'scale', parameter 'out_ptr': expected an array that the kernel can write"
    ):
        kernels().scale[(1,)](np.zeros(64, np.float32), x, 1, 3.0, BLOCK=64)


def test_an_operator_that_does_not_declare_what_it_writes_is_refused(package: Path) -> None:
    found = kernels()

    @omnikernel.op("tests::ship_undeclared")
    def undeclared(x: omnikernel.Array) -> omnikernel.Array:
        found.scale[(1,)](x, x, 1, 3.0, BLOCK=64)
        return omnikernel.empty_like(x)

    with pytest.raises(TypeError, match="kernel 'scale' stores through its parameter 'out_ptr'"):
        undeclared(np.zeros(64, np.float32))


# ---- files and manifests ----


def test_an_altered_file_is_refused(package: Path) -> None:
    path = next(package.glob("x86-64-v3/kernels.scale.so"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(
        CorruptArtefact, match=f"package '{NAME}': the prebuilt file .*kernels.scale.so was altered after it was"
    ):
        scaled(kernels())


def test_a_truncated_and_a_missing_file_are_refused(package: Path) -> None:
    path = package / "x86-64-v3" / "kernels.scale.so"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptArtefact, match=r"has \d+ bytes, but \d+ when it was built"):
        scaled(kernels())
    path.unlink()
    with pytest.raises(CorruptArtefact, match=r"cannot be read.*install the package 'small_package' again"):
        scaled(kernels())


def test_an_altered_library_is_refused(package: Path) -> None:
    path = package / "x86-64-v3" / "native.cpp.so"
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(CorruptArtefact, match=r"native\.cpp\.so has \d+ bytes"):
        __import__(f"{NAME}.native")


def test_an_altered_manifest_is_refused(package: Path) -> None:
    path = package / "manifest.json"
    path.write_text(path.read_text().replace('"BLOCK": 64', '"BLOCK": 32'))
    with pytest.raises(CorruptArtefact, match=r"the manifest .* was altered after it was built"):
        kernels()
    path.write_text("{")
    with pytest.raises(CorruptArtefact, match=r"the manifest .* cannot be read"):
        kernels()


def test_another_abi_is_refused(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alter_manifest(package, abi=99)
    with pytest.warns(ShippedWarning, match=r"manifest format 1 and ABI 99; this omnikernel reads format 1 and ABI 1"):
        found = kernels()
    assert found is sys.modules[f"{NAME}.kernels"]
    monkeypatch.setattr(handles, "_triton", lambda: False)
    with pytest.raises(Unfit, match=r"ABI 99.*To compile kernels here, install what that needs: pip install triton"):
        kernels()


def test_kernels_whose_source_has_changed_are_compiled(package: Path) -> None:
    source = package.parent / "kernels.py"
    source.write_text(source.read_text().replace("* factor", "* factor * 2"))
    with pytest.warns(ShippedWarning, match=r"kernels\.py has changed since its kernels were built"):
        assert scaled(kernels())[1] == 6


def test_a_library_whose_source_has_changed_is_compiled(package: Path) -> None:
    source = package.parent / "twice.cpp"
    source.write_text(source.read_text().replace("2.f", "5.f"))
    x, out = np.ones(3, np.float32), np.zeros(3, np.float32)
    with pytest.warns(
        ShippedWarning, match="module 'native' of package 'small_package': its sources or options are not those"
    ):
        native = __import__(f"{NAME}.native").native.native
    native.twice(x, out)
    assert out.tolist() == [5, 5, 5]


# ---- processors ----


@pytest.mark.parametrize("level", ["x86-64", "x86-64-v3"])
def test_the_level_can_be_named(package: Path, monkeypatch: pytest.MonkeyPatch, level: str) -> None:
    monkeypatch.setenv("OMNIKERNEL_SHIPPED", level)
    found = kernels()
    assert scaled(found)[1] == 3
    (executable,) = found.scale._executables.values()
    assert executable._code["file"] == f"{level}/kernels.scale.so"


def test_a_level_that_is_not_there_is_an_error(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIKERNEL_SHIPPED", "aarch64" if "x86-64" in levels._host() else "x86-64")
    with pytest.raises(OptionValueError, match="expected none or a level of this processor"):
        scaled(kernels())


def test_a_processor_for_which_nothing_was_built(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "_host", lambda: ("another",))
    with pytest.warns(ShippedWarning, match=r"nothing was built for this processor \(another\)"):
        assert scaled(kernels())[1] == 3


def test_asserts_are_off_as_they_are_without_debug(package: Path) -> None:
    x = np.arange(-1, 7, dtype=np.int32)
    kernels().positive[(1,)](x, 8, BLOCK=64)
    assert x.tolist() == list(range(8))
    with (
        pytest.warns(ShippedWarning, match="option debug=True"),
        pytest.raises(DeviceAssertionError, match="not positive"),
    ):
        kernels().positive[(1,)](np.zeros(8, np.int32), 8, BLOCK=64, debug=True)


def test_the_reference_can_still_be_asked_for(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIKERNEL_REFERENCE", "1")
    with pytest.warns(ShippedWarning, match="OMNIKERNEL_REFERENCE is set"):
        assert scaled(kernels())[1] == 3


# ---- other libraries ----


def operator_of(found: Any) -> Any:
    @omnikernel.op("tests::ship_triple")
    def triple(x: omnikernel.Array) -> omnikernel.Array:
        out = omnikernel.empty_like(x)
        found.scale[lambda meta: (omnikernel.cdiv(x.size, meta["BLOCK"]),)](x, out, 1, 3.0, BLOCK=64)
        return out

    return triple


@pytest.mark.torch
def test_torch(package: Path) -> None:
    torch = pytest.importorskip("torch")
    found = kernels()
    x = torch.arange(128, dtype=torch.float32)
    for _ in range(2):
        torch.testing.assert_close(operator_of(found)(x), 3 * x)
        out = torch.zeros(64)
        found.scale[(1,)](x, out, 2, 3.0, BLOCK=64)
        torch.testing.assert_close(out, 3 * x[::2])
    assert f"{NAME}.kernels" not in sys.modules


@pytest.mark.jax
def test_jax_without_llvmlite(package: Path) -> None:
    pytest.importorskip("jax")
    program = f"""
import numpy as np, jax, omnikernel
kernels = omnikernel.shipped("{NAME}.kernels")

@omnikernel.op("tests::ship_scale")
def scale(x: omnikernel.Array, factor: float) -> omnikernel.Array:
    out = omnikernel.empty_like(x)
    kernels.scale[(omnikernel.cdiv(x.size, 64),)](x, out, 1, factor, BLOCK=64)
    return out

x = jax.numpy.arange(128, dtype="float32")
assert (scale(x, 2.0) == 2 * x).all()
assert (jax.jit(lambda v: scale(v, 3.0) + scale(v, 2.0))(x) == 5 * x).all()
assert (jax.vmap(lambda v: scale(v, 2.0))(x.reshape(2, 64)).ravel() == 2 * x).all()
"""
    run = shipping.bare(program, package.parent.parent, hidden=("triton", "llvmlite"))
    assert run.returncode == 0, run.stderr


@pytest.mark.jax
def test_triton_call(package: Path) -> None:
    jax = pytest.importorskip("jax")
    from omnikernel.jax import triton_call

    x, scale = jax.numpy.arange(64, dtype="float32"), kernels().scale
    given = {"kernel": scale, "out_shape": jax.ShapeDtypeStruct(x.shape, x.dtype), "grid": (1,), "BLOCK": 64}
    got = jax.jit(lambda v: triton_call(v, step=1, factor=3.0, **given))(x)
    assert (got == 3 * x).all()
    assert f"{NAME}.kernels" not in sys.modules


@pytest.mark.jax
def test_jax_compiles_what_does_not_fit(package: Path) -> None:
    jax = pytest.importorskip("jax")
    triple = operator_of(kernels())
    x = jax.numpy.arange(128, dtype="bfloat16")
    with pytest.warns(ShippedWarning, match=r"x_ptr: expected \*fp32, got an array of bfloat16"):
        assert (triple(x) == 3 * x).all()
