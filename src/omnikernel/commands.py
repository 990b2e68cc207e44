"""The command line's grammar: which commands, arguments and options there are. Needs typer; see `cli.main`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from . import cli
from .errors import OmnikernelError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Triton kernels on the CPU: look at this installation, at a kernel's stages, and at the cache.",
)


@app.command()
def info() -> None:
    """What works here, and why not where it does not."""
    raise typer.Exit(cli.info())


@app.command()
def dump(
    kernel: Annotated[str, typer.Argument(metavar="FILE:kernel", help="A file, and the kernel's name in it.")],
    sig: Annotated[str, typer.Option(help='Types of the arguments that are no constants: "*fp32,*fp32:16,i32".')],
    define: Annotated[list[str] | None, typer.Option("-D", metavar="NAME=VALUE", help="A constant.")] = None,
    stage: Annotated[cli.Stage, typer.Option(help="Which stage.")] = cli.Stage.tile,
) -> None:
    """Print one stage of a kernel: ttir, tile, llvm or asm."""
    try:
        print(cli.stage_text(kernel, sig, define or [], stage))
    except OmnikernelError as error:
        print(f"omnikernel dump: {error}", file=sys.stderr)
        raise typer.Exit(1) from error


@app.command()
def cache(clear: Annotated[bool, typer.Option("--clear", help="Delete what is there.")] = False) -> None:
    """Where compiled kernels are kept, and how much there is."""
    print(cli.cache(clear=clear))
