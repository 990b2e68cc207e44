"""The command `omnikernel`: look at this installation, at a kernel's stages, and at the cache.

Needs the extra `cli` (typer and rich); without it the command says so. Results go to standard output, everything
else to standard error. The exit status is 0 where all is well, 1 where it is not, 2 for a wrong command line.
"""

from __future__ import annotations

import sys
from enum import StrEnum


class Stage(StrEnum):
    """A stage of the pipeline whose text can be shown."""

    ttir = "ttir"
    tile = "tile"
    llvm = "llvm"
    asm = "asm"


def info() -> int:
    """Print what works here; returns the exit status."""
    from rich.console import Console
    from rich.table import Table

    from .info import facts

    marks = {"ok": "[green]ok[/]", "note": "[yellow]note[/]", "bad": "[red]bad[/]"}
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    found = facts()
    for fact in found:
        table.add_row(fact.name, marks[fact.state], fact.found.replace("[", r"\["))
    Console().print(table)
    return 1 if any(fact.state == "bad" for fact in found) else 0


def stage_text(spec: str, signature: str, defines: list[str], stage: Stage) -> str:
    """The text of one stage of the kernel `FILE:kernel`.

    Raises:
        OmnikernelError: the kernel, its signature or its constants do not fit, or it does not compile.
    """
    from .errors import ArgumentValueError
    from .frontend import constant, load_kernel, ttir_text

    wrong = [text for text in defines if "=" not in text]
    if wrong:
        raise ArgumentValueError(f"-D {wrong[0]}: expected NAME=VALUE")
    constants = {name: constant(value) for name, _, value in (text.partition("=") for text in defines)}
    ttir = ttir_text(load_kernel(spec), signature, constants)
    if stage is Stage.ttir:
        return ttir
    from . import pipeline
    from .llvm import jit

    # As for a launch whose arrays do not overlap: the variant that nearly every launch runs.
    options = pipeline.Options(disjoint=True)
    if stage is Stage.tile:
        return pipeline.tile_text(ttir, options)
    text = pipeline.compile_text(ttir, options).texts["llvm"]
    return jit.assembly(text, jit.host_target()) if stage is Stage.asm else text


def cache(clear: bool = False) -> str:
    """Describe the kernel cache, after emptying it where asked to. Triton's own folder is named and left alone."""
    from triton import knobs

    from . import config

    folder = config.cache_dir()
    files = [p for p in folder.rglob("*") if p.is_file()] if folder.is_dir() else []
    size = sum(p.stat().st_size for p in files) / 2**20
    if clear:
        for path in files:
            path.unlink(missing_ok=True)
    deleted = "deleted " if clear else ""
    return f"{folder}: {deleted}{len(files)} files, {size:.1f} MiB\nTriton's own cache: {knobs.cache.dir}"


def main() -> None:
    """Entry point of the command `omnikernel`."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        sys.exit(f"omnikernel: the command needs {error.name}: pip install 'omnikernel[cli]'")
    from .commands import app

    app()


if __name__ == "__main__":
    main()
