"""From a package's modules to its prebuilt files: finds what is declared, builds it for every level, writes the manifest.

In: the folder that the package is imported from, and `[tool.omnikernel]`. Out: `PACKAGE/_omnikernel/` with its manifest.
"""

from __future__ import annotations

import hashlib
import importlib
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import ArgumentTypeError, ArgumentValueError, OmnikernelError
from ..ops.launches import innermost
from . import gpu, levels, sources, triton_cpu, triton_gpu
from .declare import Declaration, declarations
from .package import ABI, FOLDER, FORMAT, write
from .triton_cpu import Wanted

_KEYS = frozenset({"modules", "cpu", "gpu"})
_OPTIONS = frozenset({"num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion"})


@dataclass(frozen=True, slots=True)
class Settings:
    """`[tool.omnikernel]`: the modules that hold kernels, the processor levels, the GPU architectures."""

    modules: tuple[str, ...]
    cpu: tuple[str, ...] = levels.DEFAULT
    gpu: tuple[str, ...] = ()

    @property
    def package(self) -> str:
        """The package that the files lie in: the one that all modules have in common at the top."""
        return self.modules[0].partition(".")[0]


def settings(pyproject: Path) -> Settings | None:
    """What a project asks for; None where it has no `[tool.omnikernel]`.

    Raises:
        ArgumentValueError: a key or value that is not known.
    """
    if not pyproject.is_file():
        return None
    table = tomllib.loads(pyproject.read_text()).get("tool", {}).get("omnikernel")
    if table is None:
        return None
    where = f"{pyproject}, [tool.omnikernel]"
    unknown = sorted(set(table) - _KEYS)
    if unknown:
        raise ArgumentValueError(f"{where}: expected {', '.join(sorted(_KEYS))}, got {', '.join(unknown)}")
    for name in _KEYS & set(table):
        if not isinstance(table[name], list) or not all(isinstance(item, str) for item in table[name]):
            raise ArgumentValueError(f"{where}, {name}: expected a list of strings, got {table[name]!r}")
    found = Settings(
        tuple(table.get("modules", ())), tuple(table.get("cpu", levels.DEFAULT)), tuple(table.get("gpu", ()))
    )
    return checked(found, where)


def checked(found: Settings, where: str) -> Settings:
    """The settings, looked at.

    Raises:
        ArgumentValueError: no modules, modules of two packages, an unknown level or architecture.
    """
    if not found.modules:
        raise ArgumentValueError(f'{where}: name the modules that hold kernels: modules = ["mypackage.kernels"]')
    if any("." not in m or m.partition(".")[0] != found.package for m in found.modules):
        raise ArgumentValueError(f"{where}, modules: expected modules of one package, got {', '.join(found.modules)}")
    machines = {level.machine for level in levels.known(found.cpu)}
    if len(machines) != 1:
        raise ArgumentValueError(
            f"{where}, cpu: expected levels of one machine, as a wheel is for one, got {', '.join(found.cpu)}"
        )
    for architecture in found.gpu:
        gpu.capability_of(architecture)
    return found


@dataclass(frozen=True, slots=True)
class Built:
    """What a build made: files with their sizes, and names of what was built."""

    folder: Path
    files: Mapping[str, int]
    kernels: tuple[str, ...]
    libraries: tuple[str, ...]


def build(root: Path, wanted: Settings) -> Built:
    """Build everything that a package declares into its folder.

    Args:
        root: the folder that holds the package's folder; it is put on the path, and the modules are imported from there.
        wanted: what to build.

    Raises:
        OmnikernelError: nothing is declared, a declaration that does not fit its kernel, or a compilation that failed.
    """
    folder = root / wanted.package / FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    with _importable(root, wanted.package), sources.recorded() as loaded:
        modules = {name: importlib.import_module(name) for name in wanted.modules}
    folder.mkdir(parents=True)
    content: dict[str, Any] = {"format": FORMAT, "abi": ABI, "package": wanted.package, "omnikernel": __version__}
    content["built_with"] = _versions()
    content["kernels"] = {name: _kernels(module, wanted, folder) for name, module in modules.items()}
    content["libraries"] = sources.build_all(loaded, wanted.cpu, wanted.gpu, folder)
    content["sources"] = {n: _sha256(Path(m.__file__)) for n, m in modules.items() if m.__file__}
    if not any(content["kernels"].values()) and not content["libraries"]:
        raise OmnikernelError(
            f"nothing to build in {', '.join(wanted.modules)}: no kernel has @omnikernel.prebuild(...), and no omnikernel.load(...)"
        )
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    content["files"] = {
        path.relative_to(folder).as_posix(): {"sha256": _sha256(path), "bytes": path.stat().st_size} for path in files
    }
    write(folder, content)
    kernels = tuple(f"{module}:{name}" for module, found in content["kernels"].items() for name in found)
    sizes = {name: int(about["bytes"]) for name, about in content["files"].items()}
    return Built(folder, sizes, kernels, tuple(one["name"] for one in content["libraries"]))


@contextmanager
def _importable(root: Path, package: str) -> Iterator[None]:
    """The package is imported from `root`, also where another copy is loaded; after that everything is as it was."""
    ours = [name for name in sys.modules if name.partition(".")[0] == package]
    others = {name: sys.modules.pop(name) for name in ours}
    sys.path.insert(0, str(root))
    importlib.invalidate_caches()
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # which would end up in the wheel
    try:
        yield
    finally:
        sys.dont_write_bytecode = writes
        sys.path.remove(str(root))
        for name in [name for name in sys.modules if name.partition(".")[0] == package]:
            del sys.modules[name]
        sys.modules.update(others)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    from ..llvm import jit

    return {"triton": version("triton"), "llvm": jit.llvm_version()}


def _kernels(module: Any, wanted: Settings, folder: Path) -> dict[str, Any]:
    found = {}
    for name, kernel in vars(module).items():
        declared = declarations(kernel)
        if declared and innermost(kernel).__module__ == module.__name__:  # not one that is imported from elsewhere
            found[name] = _kernel(name, kernel, declared, wanted, folder)
    return found


def _kernel(
    name: str, declared_on: Any, declared: Sequence[Declaration], wanted: Settings, folder: Path
) -> dict[str, Any]:
    """The manifest's entry of a kernel, whose files are written."""
    kernel = _function(name, declared_on)
    parameters = [[p.name, bool(p.is_constexpr), *([_plain(name, p)] if p.has_default else [])] for p in kernel.params]
    forms = _forms(name, kernel, declared, bool(wanted.gpu))
    # Locations inside the package: that of a build is of no use elsewhere, and would make each build differ.
    texts = {form: triton_cpu.ttir_of(form).replace(f"{folder.parent.parent}/", "") for form in forms}
    entries = {form: _about(form, texts[form]) for form in forms}
    stem = f"{kernel.__module__.partition('.')[2]}.{name}"  # the module inside the package
    for level in levels.known(wanted.cpu):
        file = f"{level.name}/{stem}.so"
        chosen = [form for form, devices in forms.items() if "cpu" in devices]
        built = [triton_cpu.compile_form(form, number, level, texts[form]) for number, form in enumerate(chosen)]
        triton_cpu.link(name, built, level, folder / file)
        for one in built:
            entries[one.wanted]["cpu"][level.name] = one.about(file)
    for architecture in wanted.gpu:
        chosen = [form for form, devices in forms.items() if "gpu" in devices]
        for number, form in enumerate(chosen):
            place = f"{architecture}/{stem}.{number}"
            entries[form]["gpu"][architecture] = _gpu_files(form, architecture, folder, place)
    return {"parameters": parameters, "forms": list(entries.values())}


def _function(name: str, kernel: Any) -> Any:
    """The function under `@triton.autotune`."""
    while not hasattr(kernel, "params"):
        if hasattr(kernel, "values"):
            raise ArgumentValueError(
                f"kernel {name!r}: @triton.heuristics computes constants in Python when it is launched, which a shipped kernel "
                "does not do; pass the constants in the launch"
            )
        kernel = kernel.fn
    return kernel


def _plain(kernel: str, parameter: Any) -> Any:
    value = getattr(parameter.default, "value", parameter.default)
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    raise ArgumentTypeError(
        f"kernel {kernel!r}, parameter {parameter.name!r}: expected a plain default value, got {value!r}; a manifest cannot hold it"
    )


def _forms(name: str, kernel: Any, declared: Sequence[Declaration], for_gpu: bool) -> dict[Wanted, set[str]]:
    """The forms to build, each with the devices that it is for, in the order of the declarations.

    On a CPU it changes nothing what an address is divisible by. On a GPU it decides whether loads are wide, so a signature
    that does not say is built for both.
    """
    found: dict[Wanted, set[str]] = {}
    for one in declared:
        plain = tuple(part.removesuffix(":16") for part in one.signature)
        found.setdefault(_wanted(name, kernel, one, plain), set()).add("cpu")
        if not for_gpu:
            continue
        signatures = [one.signature]
        if not any(":" in part for part in one.signature):
            signatures.append(tuple(f"{part}:16" if part.startswith("*") else part for part in one.signature))
        for signature in signatures:
            found.setdefault(_wanted(name, kernel, one, signature), set()).add("gpu")
    return found


def _wanted(name: str, kernel: Any, declared: Declaration, signature: tuple[str, ...]) -> Wanted:
    """One form, held against the kernel's parameters.

    Raises:
        ArgumentValueError: another number of types than parameters that are no constants, or a constant without a value.
    """
    names = list(kernel.arg_names)
    given = dict(declared.constants)
    constants = {p.name: _plain(name, p) for p in kernel.params if p.is_constexpr and p.has_default}
    constants |= {n: value for n, value in given.items() if n in names}
    options = {n: value for n, value in given.items() if n not in names}
    missing = [p.name for p in kernel.params if p.is_constexpr and p.name not in constants]
    if missing:
        raise ArgumentValueError(f"kernel {name!r}, prebuild: no value for the constant {', '.join(missing)}")
    free = [n for n in names if n not in constants]
    if len(free) != len(signature):
        raise ArgumentValueError(
            f"kernel {name!r}, prebuild: expected {len(free)} types ({', '.join(free)}), got {len(signature)} "
            f"({', '.join(signature)})"
        )
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        raise ArgumentValueError(
            f"kernel {name!r}, prebuild: {', '.join(unknown)} is neither a parameter ({', '.join(names)}) nor a launch option "
            f"({', '.join(sorted(_OPTIONS))})"
        )
    runtime = tuple(n for n, part in zip(free, signature, strict=True) if not part.endswith(":1"))
    return Wanted(kernel, name, signature, tuple(constants.items()), tuple(options.items()), runtime)


def _about(form: Wanted, ttir: str) -> dict[str, Any]:
    return {
        "signature": list(form.signature),
        "constants": dict(form.constants),
        "options": dict(form.options),
        "slots": triton_cpu.slots(form, ttir),
        "cpu": {},
        "gpu": {},
    }


def _gpu_files(form: Wanted, architecture: str, folder: Path, place: str) -> dict[str, Any]:
    code = triton_gpu.compile_form(form, architecture)
    files = {"cubin": (f"{place}.cubin", code.cubin), "ptx": (f"{place}.ptx", code.ptx)}
    if code.about["specific"]:  # such PTX runs nowhere but where the cubin does
        del files["ptx"]
    for file, data in files.values():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(data)
    return {**code.about, **{kind: file for kind, (file, _) in files.items()}}
