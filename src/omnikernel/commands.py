"""The command line's grammar: which commands, arguments and options there are. Needs typer; see `cli.main`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from . import cli
from .errors import OmnikernelError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Triton kernels on the CPU: look at this installation, a kernel's stages, the cache, and what an operator is worth.",
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


@app.command()
def worth(
    operator: Annotated[
        str, typer.Argument(metavar="MODULE:operator", help="A module or a file, and the operator in it.")
    ],
    shape: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]SIZES[:DTYPE]", help="Arrays of random numbers: x=1024x1024:float16."),
    ] = None,
    value: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An argument that is no array.")
    ] = None,
    inputs: Annotated[str, typer.Option(metavar="MODULE:function", help="A function that returns the arguments.")] = "",
    reference: Annotated[
        str, typer.Option(metavar="MODULE:function", help="What the operator means, if it does not say.")
    ] = "",
    rtol: Annotated[float | None, typer.Option(help="Relative tolerance of the results.")] = None,
    atol: Annotated[float | None, typer.Option(help="Absolute tolerance of the results.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; a GPU unless there is none.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads on the CPU; as many as torch uses.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each contender.")] = 21,
    json: Annotated[Path | None, typer.Option(help="A file for all figures.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A file for a plot; needs matplotlib.")] = None,
) -> None:
    """Is a hand-written operator worth it? Time it beside its reference under torch.compile."""
    from .worth.command import worth as compare
    from .worth.subject import Options

    options = Options(tuple(shape or ()), tuple(value or ()), inputs, reference, rtol, atol)
    try:
        status = compare(operator, options, device=device, threads=threads, rounds=rounds, json=json, plot=plot)
    except OmnikernelError as error:
        print(f"omnikernel worth: {error}", file=sys.stderr)
        raise typer.Exit(1) from error
    raise typer.Exit(status)


@app.command()
def build(
    project: Annotated[Path, typer.Argument(help="The folder of the operator package's pyproject.toml.")] = Path("."),
    out: Annotated[Path, typer.Option(help="Where the wheel goes.")] = Path("dist"),
    cpu: Annotated[list[str] | None, typer.Option(metavar="LEVEL", help="Processor levels, e.g. x86-64-v3.")] = None,
    gpu: Annotated[
        list[str] | None, typer.Option(metavar="ARCH", help="GPU architectures, e.g. sm_90, or none.")
    ] = None,
) -> None:
    """Build a package's wheel with its kernels prebuilt, as [tool.omnikernel] in its pyproject.toml says."""
    from .ship.command import run

    try:
        print(run(project, out, cpu, gpu))
    except OmnikernelError as error:
        print(f"omnikernel build: {error}", file=sys.stderr)
        raise typer.Exit(1) from error
