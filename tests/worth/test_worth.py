"""`omnikernel worth`: finding the operator, its arguments and reference; what is compared; and whole runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnikernel.errors import ArgumentTypeError, ArgumentValueError
from omnikernel.worth.compiled import kernel_launches, library_calls
from omnikernel.worth.subject import Options, load, subject

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

LIBRARY = '''
import numpy as np
import omnikernel
import torch
import triton
import triton.language as tl
from omnikernel import Array

@triton.jit
def scale_kernel(x, out, by, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * by, i < n)

def scaled(x, out, by):
    scale_kernel[(omnikernel.cdiv(x.size, 256),)](x, out, by, x.size, BLOCK=256)

@omnikernel.op("worthtests::scale", reference=lambda x, by: x * by)
def scale(x: Array, by: float) -> Array:
    out = omnikernel.empty_like(x)
    scaled(x, out, by)
    return out

@omnikernel.op("worthtests::scale_", mutates=("x",))
def scale_(x: Array, by: float = 3.0) -> None:
    scaled(x, x, by)

@scale_.def_reference
def scale_in_place(x, by=3.0):
    x.mul_(by)

@omnikernel.op("worthtests::unsaid")
def unsaid(x: Array, y: Array | None = None) -> Array:
    return omnikernel.empty_like(x)

@omnikernel.op("worthtests::wrong", reference=lambda x: x * 2)
def wrong(x: Array) -> Array:
    out = omnikernel.empty_like(x)
    scaled(x, out, 2.5)
    return out

def example():
    return {"x": np.arange(8, dtype=np.float32), "by": 2.0}

def other(array, by):
    return omnikernel.namespace(array).add(array, by)

CUDA = omnikernel.load_inline("worth_relu", cuda_source="""
#include <omnikernel.h>
__global__ void relu(ok::View<const float, 2> x, ok::View<float, 2> out) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
  if (j < x.size(1)) out[i][j] = x[i][j] > 0 ? x[i][j] : 0;
}
""")

@omnikernel.op("worthtests::relu", reference=torch.relu)
def relu(x: Array) -> Array:
    out = omnikernel.empty_like(x)
    CUDA.relu[(omnikernel.cdiv(x.shape[1], 128), x.shape[0]), 128](x, out)
    return out

relu.def_example(lambda: np.random.default_rng(0).standard_normal((30, 200), np.float32))
'''


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, compiler: object) -> Path:
    path = tmp_path_factory.mktemp("worth") / "worth_library.py"
    path.write_text(LIBRARY)
    return path


@pytest.fixture(scope="module")
def spec(library: Path) -> Any:
    return lambda name: f"{library}:{name}"


def test_an_operator_is_found_in_a_file_and_in_a_module(spec: Any, library: Path) -> None:
    found = load(spec("scale"))
    assert found.name == "worthtests::scale"
    assert load("worth_library:scale") is found  # its folder is importable now
    with pytest.raises(ArgumentValueError, match=r"expected MODULE:name or FILE:name, got 'worth_library'"):
        load("worth_library")
    with pytest.raises(
        ArgumentValueError, match=r"has no 'scael'; its operators are scale, scale_, unsaid, wrong, relu"
    ):
        load(spec("scael"))
    with pytest.raises(ArgumentValueError, match=r"there is no file .*nowhere.py"):
        load("nowhere.py:f")
    with pytest.raises(ArgumentValueError, match=r"there is no module 'no_such_library'"):
        load("no_such_library:f")
    with pytest.raises(ArgumentTypeError, match=r"is a function; expected an operator"):
        subject(spec("example"), Options(), "cpu")


def test_a_missing_import_inside_the_module_is_not_hidden(tmp_path: Path) -> None:
    (tmp_path / "worth_broken.py").write_text("import not_installed_anywhere\n")
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        load(f"{tmp_path / 'worth_broken.py'}:f")


def test_what_is_missing_is_explained(spec: Any) -> None:
    with pytest.raises(ArgumentValueError) as caught:
        subject(spec("unsaid"), Options(shapes=("4",)), "cpu")
    assert "operator worthtests::unsaid has no reference" in str(caught.value)
    assert "unsaid.def_reference(lambda x, y: ...), or --reference MODULE:function" in str(caught.value)
    with pytest.raises(ArgumentValueError) as caught:
        subject(spec("scale"), Options(), "cpu")
    assert "with which arguments? Say --shape 1024x1024 for every array" in str(caught.value)
    assert "scale.def_example(lambda: ...), which returns (x, by) as a tuple or a dict" in str(caught.value)
    for options, message in (
        (Options(shapes=("4x4",)), r"by not given; add --set by=\.\.\."),
        (Options(shapes=("4xq",)), r"--shape 4xq: expected sizes as in 1024x1024"),
        (Options(shapes=("z=4",)), r"--shape z=4: worthtests::scale has no array 'z'; it has x"),
        (Options(shapes=("4:int32",), values=("by=2",)), r"--shape x: arrays are made of float64, .* got 'int32'"),
        (Options(shapes=("4",), values=("from=2",)), r"--set from=2: expected NAME=VALUE with one of x, by"),
    ):
        with pytest.raises(ArgumentValueError, match=message):
            subject(spec("scale"), options, "cpu")


def test_arguments(spec: Any) -> None:
    by_shape = subject(spec("scale"), Options(shapes=("x=3x5:bfloat16",), values=("by=2.5",)), "cpu")
    assert by_shape.args[0].shape == (3, 5) and by_shape.args[0].dtype == torch.bfloat16
    assert by_shape.args[1] == 2.5 and not by_shape.kwargs
    optional = subject(spec("unsaid"), Options(shapes=("7",), reference=spec("other")), "cpu")
    assert len(optional.args) == 1 and not optional.kwargs
    by_function = subject(spec("scale"), Options(inputs=spec("example"), reference=spec("other")), "cpu")
    torch.testing.assert_close(by_function.args[0], torch.arange(8.0))
    assert by_function.reference.__name__ == "other"
    example = subject(spec("relu"), Options(), "cpu")
    assert example.args[0].shape == (30, 200)


def compared(spec: str, options: Options) -> Any:
    """The check alone: results, and how they agree."""
    from omnikernel.worth.compare import Arguments, agree, least_bytes

    found = subject(spec, options, "cpu")
    ours, reference = Arguments(found), Arguments(found)
    got, wanted = ours.results(found.operator), reference.results(found.reference)
    return agree(found, got, wanted), least_bytes(found, got)


def test_results_are_checked(spec: Any) -> None:
    agreement, least = compared(spec("scale"), Options(shapes=("1000",), values=("by=2.5",)))
    assert agreement.fault == "" and agreement.largest == 0 and least == 8000
    agreement, _ = compared(spec("wrong"), Options(shapes=("1000",)))
    assert agreement.fault.startswith("1000 of 1000 elements of the result differ, at (")
    loose, _ = compared(spec("wrong"), Options(shapes=("1000",), rtol=0.3))
    assert loose.fault == "" and loose.largest > 0
    agreement, _ = compared(spec("wrong"), Options(shapes=("9x2",), reference="builtins:len"))
    assert agreement.fault == "the result is (9, 2) of torch.float32, the reference gives a int"


def test_what_is_written_in_place_is_compared_and_put_back(spec: Any) -> None:
    from omnikernel.worth.compare import Arguments

    agreement, least = compared(spec("scale_"), Options(shapes=("500",)))
    assert agreement.fault == "" and least == 4000  # read once, written once
    found = subject(spec("scale_"), Options(shapes=("500",)), "cpu")
    before = found.args[0].clone()
    own = Arguments(found)
    contender = own.contender(found.operator)
    contender.call()
    torch.testing.assert_close(own.args[0], 3 * before)
    assert contender.restore is not None
    contender.restore()
    torch.testing.assert_close(own.args[0], before)
    torch.testing.assert_close(found.args[0], before)


PROGRAM = '''
extern_kernels.mm(in a comment of what comes first)
cpp_fused_add_0 = async_compile.cpp_pybinding(['float*'], r"""cpp_fused_add_0(""")
triton_red_1 = async_compile.triton('triton_red_1', "x", device_str='cuda')
async_compile.wait(globals())
    def call(self, args):
        buf0 = torch.ops.aten.topk.default(arg0_1, 5, -1, True, True)
        assert_size_stride(buf1, (32, 5), (5, 1), 'torch.ops.aten.topk.default')
        extern_kernels.mm(arg0_1, arg1_1, out=buf3)
        cpp_fused_add_0(buf5, buf1, buf4)
        cpp_fused_add_0(buf6, buf1, buf4)
        triton_red_1.run(buf1, 5, stream=stream0)
        buf7 = torch.ops.aten.view.default(buf6)
'''


def test_what_a_program_of_inductors_does() -> None:
    assert library_calls(PROGRAM) == ["aten.topk", "mm"]
    assert kernel_launches(PROGRAM) == 3


def test_turns_are_taken_in_both_orders() -> None:
    from omnikernel.worth.clock import Contender, interleaved

    ran: list[str] = []

    def contender(name: str) -> Contender:
        return Contender(lambda: ran.append(name), lambda: ran.append(f"{name} restored"))

    def measure(call: Any, count: int) -> float:
        for _ in range(count):
            call()
        return 1.0

    times = interleaved({"a": contender("a"), "b": contender("b")}, 2, measure)
    assert times["a"].rounds == (1.0, 1.0)
    once = lambda name: [f"{name} restored", name] * 2  # noqa: E731
    assert ran[-16:] == [*once("a"), *once("b"), *once("b"), *once("a")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "status"), [("relu", 0), ("wrong", 1)])
def test_a_whole_run(library: Path, tmp_path: Path, compiler: object, name: str, status: int) -> None:
    pytest.importorskip("typer")
    shape = ["--shape", "64"] if name == "wrong" else []
    run = subprocess.run(
        [sys.executable, "-m", "omnikernel.cli", "worth", f"{library}:{name}", *shape, "--rounds", "3",
         "--threads", "1", "--device", "cpu", "--json", str(tmp_path / "out.json")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == status, run.stderr
    assert f"worthtests::{name}(" in run.stdout and "a copy of as many bytes" in run.stdout
    record = json.loads((tmp_path / "out.json").read_text())
    assert record["made"]["kernels"] == 1 and record["made"]["calls"] == []
    assert record["made"]["moved"] == record["least_bytes"] == (48000 if name == "relu" else 512)
    assert len(record["ours"]["rounds"]) == 3 and all(np.array(record["ours"]["rounds"]) > 0)
    assert (record["verdict"]["outcome"] == "wrong") == bool(status)


def test_without_torch(library: Path) -> None:
    pytest.importorskip("typer")
    code = "import sys; sys.modules['torch'] = None; from omnikernel.commands import app; app()"
    run = subprocess.run(
        [sys.executable, "-c", code, "worth", f"{library}:relu"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert run.stderr == "omnikernel worth: worth needs torch, which compiles the reference: pip install torch\n"


EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "worth.py"


@pytest.mark.parametrize("name", ["add_relu", "attention"])
def test_the_example_is_right(compiler: object, name: str) -> None:
    sizes = Options(shapes=("999",)) if name == "add_relu" else Options()
    agreement, _ = compared(f"{EXAMPLE}:{name}", sizes)
    assert agreement.fault == ""
