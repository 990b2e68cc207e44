"""Writes the TTIR corpus of the tests: `python tools/make_corpus.py [NAME ...]`, with the Triton of that Python.

Compiles every kernel of `tests/corpus/kernels.py` to TTIR with locations, after the passes that a backend runs before
its own, and writes `tests/corpus/<version>/<name>.ttir`. No GPU is needed. Paths of the kernels' file and of Triton's
own library are shortened, so that the texts do not depend on the machine.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import triton
from triton._C.libtriton import ir, passes
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource, make_backend

CORPUS = Path(__file__).resolve().parents[1] / "tests" / "corpus"
VERSION = tuple(int(part) for part in triton.__version__.split(".")[:2])


def kernels() -> ModuleType:
    """The module tests/corpus/kernels.py."""
    spec = importlib.util.spec_from_file_location("corpus_kernels", CORPUS / "kernels.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def paths(value: Any, at: tuple[int, ...]) -> list[tuple[tuple[int, ...], str]]:
    """Every leaf of a signature with its path."""
    if isinstance(value, tuple):
        return [leaf for i, item in enumerate(value) for leaf in paths(item, (*at, i))]
    return [(at, value)]


def make_ttir(
    kernel: Any, signature: dict[str, Any], constants: dict[str, Any], capability: int = 80, simplify: bool = True
) -> Any:
    """The TTIR module of a kernel, after the usual first passes if `simplify`."""
    target = GPUTarget("cuda", capability, 32)
    backend = make_backend(target)
    debug = bool(kernel.debug)
    options = backend.parse_options({"debug": debug} if debug else {})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    attributes = {
        path: [["tt.divisibility", 16]]
        for i, (name, types) in enumerate(signature.items())
        for path, kind in paths(types, (i,))
        if kind.startswith("*") or (kind == "i32" and name != "n")
    }
    source = ASTSource(kernel, signature, constants, attributes)
    codegen = backend.get_codegen_implementation(options)
    arguments = [target, options, codegen, backend.get_module_map(), context]
    if len(inspect.signature(source.make_ir).parameters) == 4:
        del arguments[0]
    module = source.make_ir(*arguments)
    if simplify:
        manager = ir.pass_manager(context)
        passes.common.add_inliner(manager)
        passes.common.add_canonicalizer(manager)
        passes.ttir.add_combine(manager)
        passes.ttir.add_reorder_broadcast(manager)
        passes.common.add_cse(manager)
        passes.common.add_symbol_dce(manager)
        passes.ttir.add_loop_unroll(manager)
        manager.run(module, "make_ttir")
    module._context = context  # the module dies with its context
    return module


def portable(text: str) -> str:
    """The text with machine paths replaced by stable ones."""
    library = re.escape(str(Path(triton.__file__).parent))
    text = re.sub(library, "/site-packages/triton", text)
    return text.replace(str(CORPUS), "/kernels")


def main() -> int:
    folder = CORPUS / triton.__version__
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name, case in kernels().CASES.items():
        if (sys.argv[1:] and name not in sys.argv[1:]) or not case.versions(VERSION):
            continue
        try:
            module = make_ttir(case.kernel, case.signature, case.constants, case.target)
        except Exception as error:  # a tool: show which kernel this release refuses and go on
            failed += 1
            print(f"{name}: {type(error).__name__}: {str(error).strip().splitlines()[-1]}", file=sys.stderr)
            continue
        (folder / f"{name}.ttir").write_text(portable(module.str()))
    return failed


if __name__ == "__main__":
    sys.exit(main())
