"""The step before the pipeline, by hand: a kernel in a file, with a signature in words, becomes TTIR text.

In a launch Triton does this by itself. Tools need it without a launch: `omnikernel dump`, the tour, the benchmarks.
In: a `@triton.jit` function, types of its arguments, values of its constants. Out: TTIR text. No array is needed.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import ArgumentTypeError, ArgumentValueError, OmnikernelError

Constant = bool | int | float | str | None

_INTEGERS = frozenset({"i1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"})
_FLOATS = frozenset({"fp16", "bf16", "fp32", "fp64", "fp8e4nv", "fp8e5", "fp8e4b8", "fp8e5b16", "fp8e4b15"})
_TYPES = _INTEGERS | _FLOATS


def load_kernel(spec: str) -> Any:
    """The kernel that `FILE:kernel` names, with `@triton.autotune` and `@triton.heuristics` taken off.

    The file is run as a module, with its own folder importable, as `python FILE` would have it.

    Raises:
        ArgumentValueError: no such file, no such name in it, or the name is no kernel.
    """
    path_text, colon, name = spec.rpartition(":")
    path = Path(path_text)
    if not colon or not path.is_file():
        raise ArgumentValueError(f"expected FILE:kernel with an existing file, got {spec!r}")
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        module_spec = importlib.util.spec_from_file_location(path.stem, path)
        if module_spec is None or module_spec.loader is None:
            raise ArgumentValueError(f"{path} is not a Python file")
        module = importlib.util.module_from_spec(module_spec)
        module_spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    found = getattr(module, name, None)
    while found is not None and not hasattr(found, "params") and hasattr(found, "fn"):
        found = found.fn
    if not hasattr(found, "params"):
        named = [n for n, v in vars(module).items() if hasattr(v, "params") or hasattr(v, "fn")]
        raise ArgumentValueError(f"{path} has no kernel {name!r}; it has {', '.join(named) or 'none'}")
    return found


def constant(text: str) -> Constant:
    """The value of a constant given as text: a Python literal, else the text itself."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return value if isinstance(value, bool | int | float | str) or value is None else text


def argument_type(text: str) -> tuple[str, int | None]:
    """A type and the number after its colon: `*fp32:16` means divisible by 16, `i32:1` equal to one.

    Raises:
        ArgumentTypeError, ArgumentValueError: no such type, or another number.
    """
    kind, colon, hint = text.strip().partition(":")
    if kind.lstrip("*") not in _TYPES or kind.count("*") > 1:
        raise ArgumentTypeError(f"{text.strip()!r} is no argument type; write one of *fp32, fp32, i32, i64, *i1, ...")
    if colon and hint not in ("16", "1"):
        raise ArgumentValueError(f"{text.strip()!r}: after the colon comes 16 (divisible by it) or 1 (equal to it)")
    return kind, int(hint) if colon else None


def _check_count(kernel: Any, free: Sequence[str], given: Sequence[str]) -> None:
    if len(free) == len(given):
        return
    raise ArgumentValueError(
        f"kernel {kernel.__name__} takes {len(free)} arguments besides its constants ({', '.join(free)}), but the "
        f"signature has {len(given)} ({', '.join(given)})"
    )


def ttir_text(kernel: Any, signature: str, constants: Mapping[str, Constant]) -> str:
    """TTIR of `kernel`, as a launch on the CPU backend would make it.

    Args:
        kernel: a `@triton.jit` function.
        signature: the types of the arguments that are not in `constants`, in order, with commas: `*fp32,i32:16`.
        constants: values of `tl.constexpr` parameters, and of any other that is to be a constant.

    Raises:
        ArgumentTypeError, ArgumentValueError: a signature or constants that do not fit the kernel.
        OmnikernelError: Triton does not see the CPU backend.
    """
    from triton._C.libtriton import ir
    from triton.backends import backends
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, make_backend

    if "cpu" not in backends:
        raise OmnikernelError("Triton does not see the backend `cpu`; `omnikernel info` says why")
    names = [p.name for p in kernel.params]
    unknown = sorted(set(constants) - set(names))
    if unknown:
        raise ArgumentValueError(f"kernel {kernel.__name__} has no parameter {', '.join(unknown)}: {', '.join(names)}")
    values: dict[str, Any] = {p.name: p.default for p in kernel.params if p.is_constexpr and p.has_default}
    values.update(constants)
    missing = [p.name for p in kernel.params if p.is_constexpr and p.name not in values]
    if missing:
        raise ArgumentValueError(
            f"kernel {kernel.__name__} needs a value for {', '.join(missing)}: -D {missing[0]}=..."
        )
    free = [n for n in names if n not in values]
    given = [text for text in signature.split(",") if text.strip()]
    _check_count(kernel, free, given)
    arguments = dict(zip(free, map(argument_type, given), strict=True))
    values.update({name: 1 for name, (_, hint) in arguments.items() if hint == 1})
    types = {n: "constexpr" if n in values else arguments[n][0] for n in names}
    paths = {(names.index(n),): v for n, v in values.items()}
    aligned = {(names.index(n),): [["tt.divisibility", 16]] for n, (_, hint) in arguments.items() if hint == 16}

    source = ASTSource(kernel, types, paths, aligned)
    backend = make_backend(GPUTarget("cpu", "", 32))
    options = backend.parse_options({})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    codegen, modules = backend.get_codegen_implementation(options), backend.get_module_map()
    module = source.make_ir(backend.target, options, codegen, modules, context)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    return str(stages["ttir"](module, {}))
