"""The command line: what it prints, what it refuses, and how it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from omnikernel import cli, info
from omnikernel.errors import ArgumentTypeError, ArgumentValueError

ROOT = Path(__file__).resolve().parents[2]
ADD = f"{ROOT / 'examples' / 'vector_add.py'}:add_kernel"
SIGNATURE = "*fp32:16,*fp32:16,*fp32:16,i32"


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("typer")
    import os

    return subprocess.run(
        [sys.executable, "-m", "omnikernel.cli", *arguments],
        capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "COLUMNS": "300", **env},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("stage", "expected"),
    [("ttir", "tt.func public @add_kernel"), ("tile", "add_kernel"), ("llvm", "define"), ("asm", ".text")],
)
def test_dump_shows_every_stage(stage: str, expected: str) -> None:
    assert expected in cli.stage_text(ADD, SIGNATURE, ["BLOCK=128"], cli.Stage(stage))


def test_dump_takes_alignment_from_the_signature() -> None:
    assert "tt.divisibility = 16" in cli.stage_text(ADD, SIGNATURE, ["BLOCK=128"], cli.Stage.ttir)
    assert "tt.divisibility" not in cli.stage_text(ADD, SIGNATURE.replace(":16", ""), ["BLOCK=128"], cli.Stage.ttir)


def test_dump_makes_an_argument_of_one_a_constant() -> None:
    text = cli.stage_text(ADD, "*fp32,*fp32,*fp32,i32:1", ["BLOCK=128"], cli.Stage.ttir)
    assert "%n" not in text.partition("\n")[2].split("attributes")[0]


def test_dump_finds_the_kernel_under_autotune() -> None:
    spec = f"{ROOT / 'examples' / 'matmul.py'}:matmul_kernel"
    signature = "*fp16,*fp16,*fp32," + ",".join(["i32"] * 9)
    constants = ["ACTIVATION=relu", "BLOCK_M=32", "BLOCK_N=32", "BLOCK_K=32", "GROUP=8"]
    assert "@matmul_tile_kernel" in cli.stage_text(spec, signature, constants, cli.Stage.ttir)


@pytest.mark.parametrize(
    ("spec", "signature", "defines", "error", "message"),
    [
        ("nowhere.py:k", "", [], ArgumentValueError, "expected FILE:kernel with an existing file, got 'nowhere.py:k'"),
        (ADD + "x", "", [], ArgumentValueError, "has no kernel 'add_kernelx'; it has add_kernel"),
        (ADD, "*fp32,i32", ["BLOCK=8"], ArgumentValueError, "takes 4 arguments besides its constants"),
        (ADD, "*fp32,*fp32,*fp32,int", ["BLOCK=8"], ArgumentTypeError, "'int' is no argument type"),
        (ADD, "*fp32:8,*fp32,*fp32,i32", ["BLOCK=8"], ArgumentValueError, "after the colon comes 16"),
        (ADD, SIGNATURE, [], ArgumentValueError, "needs a value for BLOCK: -D BLOCK=..."),
        (ADD, SIGNATURE, ["BLOCK=8", "BLOK=8"], ArgumentValueError, "has no parameter BLOK"),
        (ADD, SIGNATURE, ["BLOCK"], ArgumentValueError, "-D BLOCK: expected NAME=VALUE"),
    ],
)
def test_dump_refuses(spec: str, signature: str, defines: list[str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message.replace("(", r"\(").replace("...", r"\.\.\.")):
        cli.stage_text(spec, signature, defines, cli.Stage.ttir)


def test_command_dump() -> None:
    done = run("dump", ADD, "--sig", SIGNATURE, "-D", "BLOCK=64", "--stage", "ttir")
    assert done.returncode == 0, done.stderr
    assert "tensor<64xf32>" in done.stdout


def test_command_reports_a_mistake_in_one_line() -> None:
    done = run("dump", "nowhere.py:k", "--sig", "")
    assert done.returncode == 1
    assert done.stderr.startswith("omnikernel dump: expected FILE:kernel")
    assert "Traceback" not in done.stderr


def test_command_info() -> None:
    done = run("info")
    assert "`cpu` is seen by Triton" in done.stdout


def test_command_info_says_why_the_backend_is_hidden() -> None:
    done = run("info", TRITON_BACKENDS_IN_TREE="1")
    assert done.returncode == 1
    assert "TRITON_BACKENDS_IN_TREE=1 makes Triton skip installed backends" in done.stdout


def test_command_cache(tmp_path: Path) -> None:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "a.o").write_bytes(b"12345")
    assert "1 files" in run("cache", OMNIKERNEL_CACHE_DIR=str(tmp_path)).stdout
    assert "deleted 1 files" in run("cache", "--clear", OMNIKERNEL_CACHE_DIR=str(tmp_path)).stdout
    assert not list(tmp_path.rglob("*.o"))


def test_without_typer_the_command_says_what_to_install() -> None:
    code = "import sys; sys.modules['typer'] = None; from omnikernel.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "pip install 'omnikernel[cli]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("torch", "triton", "state"),
    [
        ("2.11.0", "3.6.0", "ok"),
        ("2.12.1", "3.7.1", "ok"),
        ("2.13.0+cpu", "3.7.1", "ok"),
        ("2.14.0", "3.8.2", "ok"),
        ("2.13.0+cpu", "3.9.0", "bad"),
        ("2.11.0", "3.6.10", "bad"),
        ("2.20.0", "3.9.0", "note"),
        (None, "3.9.0", "note"),
    ],
)
def test_torch_and_triton_pair(torch: str | None, triton: str, state: str) -> None:
    assert info.pair_fact(torch, triton).state == state


def test_a_part_of_info_that_fails_becomes_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OSError("no such thing")

    monkeypatch.setattr(info, "_SECTIONS", (("threads", broken),))
    assert info.facts() == [info.Fact("threads", "OSError: no such thing", "bad")]


def test_info_imports_no_framework() -> None:
    code = "import sys; from omnikernel.info import facts; facts(); print(sorted({'torch', 'jax'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"
