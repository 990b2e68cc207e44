"""Wheels: what a project may ask for, what is in them, what platform they are for; and a kernel called from C."""

from __future__ import annotations

import base64
import hashlib
import importlib
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import shipping
from shipping import NAME

from omnikernel import elf
from omnikernel.cpp import gpu_source
from omnikernel.cpp.toolchain import BuildError
from omnikernel.errors import ArgumentTypeError, ArgumentValueError, OmnikernelError
from omnikernel.ship import command, levels, package, project, triton_cpu, wheel

PYPROJECT = f"""
[build-system]
requires = ["setuptools>=64"]
build-backend = "setuptools.build_meta"
[project]
name = "small-package"
version = "1.0"
[tool.setuptools]
packages = ["{NAME}"]
[tool.setuptools.package-data]
{NAME} = ["*.cpp"]
[tool.omnikernel]
modules = ["{NAME}.kernels", "{NAME}.native"]
cpu = ["x86-64-v3", "x86-64"]
"""


@pytest.fixture(scope="module")
def project_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = shipping.write_package(tmp_path_factory.mktemp("project"), NAME)
    (folder / "pyproject.toml").write_text(PYPROJECT)
    return folder


@pytest.fixture(scope="module")
def made(project_folder: Path) -> wheel.Wheel:
    return wheel.build(project_folder, project_folder / "dist")


def test_what_is_in_a_wheel(made: wheel.Wheel) -> None:
    inside = {name.partition("_omnikernel/")[2] for name in made.files}
    each = {"kernels.scale.so", "kernels.positive.so", "native.cpp.so"}
    assert inside == {"manifest.json", *(f"{level}/{file}" for level in ("x86-64", "x86-64-v3") for file in each)}
    name, version, python, abi, platform = made.path.stem.split("-")
    assert (name, version, python, abi) == (NAME, "1.0", "py3", "none")
    assert platform.endswith("_x86_64") and platform.startswith(("manylinux_2_", "linux"))
    said = command.described(made)
    assert said.splitlines()[0].startswith(f"{made.path}: ") and "x86-64-v3: 3 files, " in said


def test_its_record_is_right(made: wheel.Wheel) -> None:
    with zipfile.ZipFile(made.path) as archive:
        (record,) = [name for name in archive.namelist() if name.endswith(".dist-info/RECORD")]
        rows = [line.rsplit(",", 2) for line in archive.read(record).decode().splitlines()]
        assert sorted(name for name, _, _ in rows) == sorted(archive.namelist())
        for name, digest, size in rows:
            if name != record:
                data = archive.read(name)
                want = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                assert (digest, size) == (f"sha256={want}", str(len(data)))
        about = archive.read(record.replace("RECORD", "WHEEL")).decode()
    assert "Root-Is-Purelib: false" in about and f"Tag: {'-'.join(made.path.stem.split('-')[2:])}" in about


def test_equal_sources_give_equal_wheels(made: wheel.Wheel, project_folder: Path, tmp_path: Path) -> None:
    again = wheel.build(project_folder, tmp_path)
    assert again.path.read_bytes() == made.path.read_bytes()


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("", 'name the modules that hold kernels: modules = ["mypackage.kernels"]'),
        ('modules = ["a.kernels", "b.kernels"]', "expected modules of one package, got a.kernels, b.kernels"),
        ('modules = ["kernels"]', "expected modules of one package, got kernels"),
        ('modules = "a.kernels"', "modules: expected a list of strings, got 'a.kernels'"),
        ('modules = ["a.kernels"]\ncpus = []', "expected cpu, gpu, modules, got cpus"),
        ('modules = ["a.kernels"]\ncpu = ["avx2"]', "expected a processor level, one of x86-64, "),
        (
            'modules = ["a.kernels"]\ncpu = ["x86-64", "aarch64"]',
            "expected levels of one machine, as a wheel is for one",
        ),
        ('modules = ["a.kernels"]\ngpu = ["90"]', "expected a GPU architecture like sm_80 or sm_90, got '90'"),
    ],
)
def test_mistakes_in_a_project(tmp_path: Path, table: str, said: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.omnikernel]\n{table}\n")
    with pytest.raises(OmnikernelError) as caught:
        project.settings(tmp_path / "pyproject.toml")
    assert said in str(caught.value)


def test_a_project_that_asks_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert project.settings(tmp_path / "pyproject.toml") is None
    with pytest.raises(BuildError, match=r"has no \[tool\.omnikernel\]; add it, with modules"):
        wheel.build(tmp_path, tmp_path / "dist")


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    testing = pytest.importorskip("typer.testing")
    from omnikernel.commands import app

    (tmp_path / "pyproject.toml").write_text("")
    found = testing.CliRunner().invoke(app, ["build", str(tmp_path)])
    assert found.exit_code == 1
    assert "omnikernel build: " in found.output and "has no [tool.omnikernel]" in found.output


@pytest.mark.parametrize(
    ("kernel", "error", "said"),
    [
        ('@omnikernel.prebuild("*fp32")', ArgumentValueError, "prebuild: no value for the constant SIZE"),
        (
            '@omnikernel.prebuild("*fp32, i32", constants={"SIZE": 4})',
            ArgumentValueError,
            r"expected 1 types \(x\), got 2",
        ),
        (
            '@omnikernel.prebuild("*fp32", constants={"SIZE": 4, "warps": 2})',
            ArgumentValueError,
            r"warps is neither a parameter \(x, SIZE\) nor a launch option",
        ),
        (
            '@omnikernel.prebuild("*fp32")\n@triton.heuristics({"SIZE": lambda args: 4})',
            ArgumentValueError,
            "@triton.heuristics computes constants in Python",
        ),
        ("", OmnikernelError, "nothing to build in .*: no kernel has @omnikernel.prebuild"),
    ],
)
def test_mistakes_in_kernels(tmp_path: Path, kernel: str, error: type[Exception], said: str) -> None:
    folder = tmp_path / "wrong"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    text = "import omnikernel, triton\nimport triton.language as tl\n"
    (folder / "kernels.py").write_text(
        f"{text}{kernel}\n@triton.jit\ndef k(x, SIZE: tl.constexpr):\n    tl.store(x, SIZE)\n"
    )
    with pytest.raises(error, match=said):
        project.build(tmp_path, project.Settings(("wrong.kernels",), ("x86-64",)))
    assert not [name for name in sys.modules if name.startswith("wrong")]


def test_an_autotuned_kernel_ships_its_declared_forms(tmp_path: Path) -> None:
    folder = tmp_path / "tuned"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "kernels.py").write_text("""
import omnikernel, triton
import triton.language as tl
@omnikernel.prebuild("*fp32", constants=[{"SIZE": 8}, {"SIZE": 16}])
@triton.autotune([triton.Config({"SIZE": 8}), triton.Config({"SIZE": 16})], key=[])
@triton.jit
def k(x, SIZE: tl.constexpr):
    tl.store(x + tl.arange(0, SIZE), SIZE)
""")
    project.build(tmp_path, project.Settings(("tuned.kernels",), ("x86-64",)))
    program = """
import numpy as np, omnikernel
x = np.zeros(16, np.float32)
omnikernel.shipped("tuned.kernels").k[(1,)](x)
assert x.tolist() == [8] * 8 + [0] * 8, x
"""
    run = shipping.bare(program, tmp_path)
    assert run.returncode == 0, run.stderr


def test_modules_whose_kernels_have_the_same_name(tmp_path: Path) -> None:
    for name, factor in (("one", 1.0), ("two", 2.0)):
        folder = tmp_path / "same" / name
        folder.mkdir(parents=True)
        (folder.parent / "__init__.py").write_text("")
        (folder / "__init__.py").write_text("")
        (folder / "kernels.py").write_text(f"""
import omnikernel, triton
import triton.language as tl
@omnikernel.prebuild("*fp32")
@triton.jit
def k(x):
    tl.store(x, {factor})
""")
        (folder / "f.cpp").write_text(
            f"#include <omnikernel.h>\nvoid f(ok::View<float, 1> x) {{ x[0] = {10 * factor}f; }}\n"
        )
        (folder / "native.py").write_text(
            "from pathlib import Path\nimport omnikernel\nmod = omnikernel.load('f', Path(__file__).with_name('f.cpp'))\n"
        )
    modules = tuple(f"same.{name}.{kind}" for name in ("one", "two") for kind in ("kernels", "native"))
    project.build(tmp_path, project.Settings(modules, ("x86-64",)))
    program = """
import numpy as np, omnikernel, importlib
x = np.zeros(1, np.float32)
for name, want in (("one", 1), ("two", 2)):
    omnikernel.shipped(f"same.{name}.kernels").k[(1,)](x)
    assert x[0] == want, (name, x)
    importlib.import_module(f"same.{name}.native").mod.f(x)
    assert x[0] == 10 * want, (name, x)
"""
    run = shipping.bare(program, tmp_path)
    assert run.returncode == 0, run.stderr


def test_platforms_by_what_libraries_need(built_once: Path, tmp_path: Path) -> None:
    shipped = built_once / NAME / "_omnikernel" / "x86-64"
    needed = set(elf.needed_libraries((shipped / "native.cpp.so").read_bytes()))
    assert "libc.so.6" in needed
    assert all(name.startswith(("libc.", "libm.", "libpthread.", "ld-linux")) for name in needed)
    assert list(elf.needed_libraries(b"no ELF file")) == []
    folder = tmp_path / "a" / "_omnikernel" / "x86-64"
    folder.mkdir(parents=True)
    (folder / "k.so").write_bytes((shipped / "kernels.scale.so").read_bytes())
    assert wheel.platform_tag(["x86-64"], tmp_path) == "manylinux_2_17_x86_64"
    (folder / "k.so").write_bytes((shipped / "native.cpp.so").read_bytes().replace(b"libc.so.6\0", b"libz.so.6\0"))
    assert wheel.platform_tag(["x86-64"], tmp_path) == "linux_x86_64"


def test_the_library_of_a_triton_kernel_needs_no_python(built_once: Path) -> None:
    data = (built_once / NAME / "_omnikernel" / "x86-64-v3" / "kernels.scale.so").read_bytes()
    assert set(elf.needed_libraries(data)) <= {"libc.so.6", "libm.so.6"}
    assert b"Py_" not in data and b"llvm" not in data.lower()


def test_c_programs_and_this_version_mean_the_same_abi() -> None:
    header = (shipping.ROOT / "src/omnikernel/include/omnikernel_shipped.h").read_text()
    assert f"#define OK_SHIPPED_ABI {package.ABI}\n" in header


def test_aarch64_needs_a_cross_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("aarch64-linux-gnu-g++"):
        pytest.skip("there is one")
    with pytest.raises(BuildError, match="level aarch64: compiling and linking for aarch64 needs aarch64-linux-gnu-g"):
        triton_cpu.compiler_for(levels.BY_NAME["aarch64"])


def test_objects_for_aarch64(built_once: Path) -> None:
    with shipping.importable(built_once, NAME):
        kernel = importlib.import_module(f"{NAME}.kernels").scale
    constants = (("BLOCK", 64), ("ADD", 0))
    wanted = triton_cpu.Wanted(
        kernel, "scale", ("*fp32", "*fp32", "i32", "fp32"), constants, (), ("x", "out", "n", "f")
    )
    entry = triton_cpu.compile_form(wanted, 0, levels.BY_NAME["aarch64"], triton_cpu.ttir_of(wanted))
    machine = struct.unpack_from("<H", entry.artefacts["any"].object, 18)
    assert machine == (183,)  # EM_AARCH64
    target = triton_cpu.target_of(levels.BY_NAME["aarch64"])
    assert triton_cpu.jit.compile_object(triton_cpu._table([entry], levels.BY_NAME["aarch64"]), target)[18] == 183


def test_a_kernel_called_from_c(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path / "src"
    shutil.copytree(shipping.DEMO / "src", folder, ignore=shutil.ignore_patterns("__pycache__"))
    project.build(folder, project.Settings(("demo_kernels.kernels",), ("x86-64", "x86-64-v3", "x86-64-v4")))
    headers, source = shipping.ROOT / "src/omnikernel/include", shipping.ROOT / "examples/shipped_from_c/rms_norm.c"
    command = [compiler, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", f"-I{headers}", str(source), "-lm", "-ldl"]
    subprocess.run([*command, "-o", str(tmp_path / "rms_norm")], check=True)
    for level in ((), ("x86-64",)):
        program = [str(tmp_path / "rms_norm"), str(folder / "demo_kernels" / "_omnikernel"), *level]
        run = subprocess.run(program, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        assert "rms_norm(*fp32, *fp32, *fp32, i32, fp32; BLOCK=1024), largest error" in run.stdout


CUDA = """
#include <omnikernel.h>
__global__ void add(ok::View<const float, 1> a, ok::View<float, 1> out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < out.size(0)) out[i] += a[i];
}
"""


def test_cuda_source_is_shipped_for_the_cpu_and_for_gpus(tmp_path: Path) -> None:
    folder = tmp_path / "with_cuda"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "add.cu").write_text(CUDA)
    (folder / "cuda.py").write_text(
        "from pathlib import Path\nimport omnikernel\nmod = omnikernel.load('add', Path(__file__).with_name('add.cu'))\n"
    )
    architectures = () if gpu_source.compiler_missing() else ("sm_90",)
    built = project.build(tmp_path, project.Settings(("with_cuda.cuda",), ("x86-64",), architectures))
    cubins = {"sm_90/add.0.32.cubin", "sm_90/add.0.64.cubin"} if architectures else set()
    assert set(built.files) == {"x86-64/add.cpp.so", *cubins}
    program = """
import numpy as np, with_cuda.cuda
a, out = np.ones(100, np.float32), np.ones(100, np.float32)
with_cuda.cuda.mod.add[1, 128](a, out)
assert (out == 2).all()
"""
    run = shipping.bare(program, tmp_path)
    assert run.returncode == 0, run.stderr
    if architectures:
        with shipping.importable(tmp_path, "with_cuda"):
            (source,) = importlib.import_module("with_cuda.cuda").mod.gpu_sources()
            assert source.prebuilt(90, 32) == (folder / "_omnikernel/sm_90/add.0.32.cubin").read_bytes()
            assert source.prebuilt(100, 32) is None


def test_default_values_that_no_manifest_can_hold(tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "kernels.py").write_text("""
import omnikernel, triton
import triton.language as tl
@omnikernel.prebuild("*fp32")
@triton.jit
def k(x, TYPE: tl.constexpr = tl.float32):
    tl.store(x, 1.0)
""")
    with pytest.raises(
        ArgumentTypeError, match=r"'TYPE': expected a plain default value, got triton\.language\.float32"
    ):
        project.build(tmp_path, project.Settings(("odd.kernels",), ("x86-64",)))
