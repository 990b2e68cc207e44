"""`omnikernel worth`: from the command line's words to a report."""

from __future__ import annotations

from pathlib import Path

from ..errors import ArgumentValueError, OmnikernelError
from .subject import Options, subject
from .verdict import Outcome


class TorchMissing(OmnikernelError):
    """There is no torch, which compiles the reference."""


def worth(
    spec: str,
    options: Options,
    *,
    device: str | None = None,
    threads: int | None = None,
    rounds: int = 21,
    json: Path | None = None,
    plot: Path | None = None,
) -> int:
    """Compare an operator with its reference under `torch.compile`, and print what came of it.

    Args:
        spec: `MODULE:operator` or `FILE:operator`.
        options: its arguments and reference.
        device: `cpu` or `cuda`; None: a GPU where there is one.
        threads: on the CPU, of all contenders; None: as many as torch uses.
        rounds: how many times each contender gets its turn.
        json, plot: files to write.

    Returns:
        The exit status: 1 where the operator does not give what its reference gives.

    Raises:
        OmnikernelError: no torch, no such operator, no arguments, a reference that does not compile.
    """
    try:
        import torch
    except ImportError as error:
        raise TorchMissing("worth needs torch, which compiles the reference: pip install torch") from error
    from . import report
    from .compare import compare
    from .verdict import judge

    chosen = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if chosen not in ("cpu", "cuda"):
        raise ArgumentValueError(f"--device {chosen}: expected cpu or cuda")
    if rounds < 1:
        raise ArgumentValueError(f"--rounds {rounds}: expected at least 1")
    if plot is not None:
        report.pyplot()  # to fail now, and not after minutes
    count = threads or torch.get_num_threads()
    found = subject(spec, options, chosen)
    measured = compare(found, chosen, count, rounds)
    verdict = judge(measured)
    where = torch.cuda.get_device_name() if chosen == "cuda" else f"CPU, {count} thread{'s' * (count > 1)}"
    heading = (
        f"{found.operator.name}({report.arguments(found.args, found.kwargs)}) on {where}, torch {torch.__version__}"
    )
    report.show(measured, verdict, heading)
    if json is not None:
        report.write_json(json, measured, verdict, {"heading": heading, "device": where, "torch": torch.__version__})
    if plot is not None:
        report.plot(plot, measured, heading)
    return 1 if verdict.outcome is Outcome.wrong else 0
