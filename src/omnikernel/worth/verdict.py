"""The verdict: from measurements to one paragraph.

In: a `Measured`. Out: a `Verdict`. Nothing is timed or compiled here, so the reasoning can be tested with made-up figures.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from enum import StrEnum

LEAST_MARGIN = 0.05  # two medians closer than this are even, whatever the rounds say
LITTLE = 0.8  # ours / compiled from here to even: a gain, but a small one
WASTE = 1.25  # compiled code that moves so many times the least bytes could move fewer
FAR = 1.5  # times the ceiling's time from which there is something left to gain
CALL_SECONDS = 50e-6  # on the CPU a call as short as this, far from its ceiling, is mostly the call itself
ISSUED = 0.7  # a GPU that gets its work no faster than this share of the time between two calls waits for the host


class Outcome(StrEnum):
    """What the measurements say of the hand-written operator."""

    wrong = "wrong"
    earns = "earns its place"
    little = "earns a little"
    even = "torch does as well"
    loses = "torch does better"


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds a call, round by round; in every round all contenders had a turn."""

    rounds: tuple[float, ...]

    @property
    def seconds(self) -> float:
        return statistics.median(self.rounds)

    def ratios(self, other: Timing) -> list[float]:
        """This one's time as a share of the other's, in every round."""
        return [a / b for a, b in zip(self.rounds, other.rounds, strict=True)]


@dataclass(frozen=True, slots=True)
class Agreement:
    """How the operator's results compare with the reference's. `fault` says what is wrong, "" where nothing is."""

    largest: float  # the largest difference of floating-point results
    rtol: float
    atol: float
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Compiled:
    """What `torch.compile` made of the reference.

    `kernels` are those that it generated, `calls` the library functions that its program calls instead. `moved`: the bytes
    that all of them read and write, as Inductor counts them; None where it does not say. `breaks`: graph breaks.
    """

    kernels: int
    calls: tuple[str, ...]
    moved: int | None
    breaks: int = 0


@dataclass(frozen=True, slots=True)
class Measured:
    """All that the verdict rests on. `least_bytes`: every input read and every result written once; `flops`: of the
    reference's matrix products, 0 where it has none; `flop_rate`: flops a second of a matrix product on this machine;
    `issue`: seconds in which the host gives a GPU one call of the operator, 0 on the CPU.
    """

    operator: str
    agreement: Agreement
    eager: Timing
    compiled: Timing
    ours: Timing
    copy: Timing  # a copy that reads and writes as many bytes as the operator must
    made: Compiled
    least_bytes: int
    flops: int = 0
    flop_rate: float = 0.0
    issue: float = 0.0

    @property
    def floor(self) -> float:
        """The shortest time that the machine's measured ceilings allow, in seconds."""
        return max(self.copy.seconds, self.flops / self.flop_rate if self.flops else 0.0)

    @property
    def bound_by_arithmetic(self) -> bool:
        return bool(self.flops) and self.flops / self.flop_rate > self.copy.seconds


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome, and a paragraph.

    `rival` is what the operator was held against: `compiled`, or `eager` where torch.compile makes the reference slower.
    `ratio` is ours / rival, and even within `margin`.
    """

    outcome: Outcome
    rival: str
    ratio: float
    margin: float
    text: str


def judge(measured: Measured) -> Verdict:
    """Say whether the hand-written operator earns its place."""
    rival = "eager" if _apart(measured.compiled.ratios(measured.eager)) > 0 else "compiled"
    ratios = measured.ours.ratios(measured.eager if rival == "eager" else measured.compiled)
    ratio, margin = statistics.median(ratios), _margin(ratios)
    if measured.agreement.fault:
        text = (
            f"{measured.operator} does not give what its reference gives: {measured.agreement.fault}. "
            "Its speed means nothing until it does; if the difference is one of rounding, state the tolerance "
            "(--rtol, --atol, or def_reference(..., rtol=, atol=))."
        )
        return Verdict(Outcome.wrong, rival, ratio, margin, text)
    outcome = _outcome(ratios)
    sentences = [
        _compared(measured, outcome, rival, ratio, margin),
        _why(measured, outcome),
        _ceiling(measured, outcome),
        _advice(outcome, rival),
    ]
    return Verdict(outcome, rival, ratio, margin, " ".join(sentences))


def _margin(ratios: list[float]) -> float:
    """Half the range of the middle half of the rounds: how far chance alone moves the ratio."""
    if len(ratios) < 4:
        return LEAST_MARGIN
    low, _, high = statistics.quantiles(ratios, n=4)
    return max(LEAST_MARGIN, (high - low) / 2)


def _apart(ratios: list[float]) -> int:
    """-1 where the ratio is below 1, 1 where it is above, 0 where the two cannot be told apart."""
    ratio, margin = statistics.median(ratios), _margin(ratios)
    return (ratio > 1 + margin) - (ratio < 1 - margin)


def _outcome(ratios: list[float]) -> Outcome:
    apart = _apart(ratios)
    if apart >= 0:
        return Outcome.loses if apart else Outcome.even
    return Outcome.earns if statistics.median(ratios) < LITTLE else Outcome.little


def _compared(measured: Measured, outcome: Outcome, rival: str, ratio: float, margin: float) -> str:
    name = measured.operator
    reference = "its reference under torch.compile" if rival == "compiled" else "its reference in plain torch"
    torch = "torch.compile" if rival == "compiled" else "plain torch, without torch.compile,"
    slower = ", which is faster here than compiled" if rival == "eager" else ""
    match outcome:
        case Outcome.earns | Outcome.little:
            how = "its place" if outcome is Outcome.earns else "a little"
            return f"{name} earns {how}: it takes {ratio:.2f} of the time of {reference}{slower}."
        case Outcome.even:
            text = (
                f"{torch} does as well as {name}: the operator takes {ratio:.2f} of the time of {reference}{slower}; "
                f"these measurements tell {margin:.0%} apart, not less."
            )
        case _:
            text = (
                f"{torch} does better than {name}: the operator takes {ratio:.2f} times as long as {reference}{slower}."
            )
    return text[0].upper() + text[1:] if rival == "eager" else text


def _why(measured: Measured, outcome: Outcome) -> str:
    made = measured.made
    kernels = {0: "no kernel", 1: "one kernel"}.get(made.kernels, f"{made.kernels} kernels")
    calls = ""
    if made.calls:
        names = ", ".join(dict.fromkeys(made.calls))
        calls = f"{' and' if made.kernels else ', but'} {len(made.calls)} call{'s' * (len(made.calls) > 1)} of the library ({names})"
    breaks = (
        f" It breaks the graph {made.breaks} time{'s' * (made.breaks > 1)}, and returns to Python there."
        if made.breaks
        else ""
    )
    start = f"torch.compile makes {kernels}{calls}"
    if made.moved is None or not measured.least_bytes:
        return f"{start}.{breaks}"
    times = made.moved / measured.least_bytes
    if times >= WASTE:
        faster = outcome in (Outcome.earns, Outcome.little)
        saved = " What the operator saves is this traffic." if faster and not measured.bound_by_arithmetic else ""
        return f"{start}, which move {times:.1f} times the bytes that must be moved.{saved}{breaks}"
    if made.kernels == 1 and not made.calls:
        left = "no traffic is left for another kernel to save"
        if outcome in (Outcome.earns, Outcome.little):
            left = "the gain is in the code of the kernel, not in traffic, and a later release may take it away"
        return f"{start}, which moves each byte once: {left}.{breaks}"
    return f"{start}, which move no more bytes than must be moved.{breaks}"


def _ceiling(measured: Measured, outcome: Outcome) -> str:
    ours = measured.ours.seconds
    times = ours / measured.floor
    what = "a matrix product of as many operations" if measured.bound_by_arithmetic else "a copy of as many bytes"
    text = f"The operator takes {times:.1f} times as long as {what} on this machine"
    if times >= FAR and (measured.issue > ISSUED * ours if measured.issue else ours < CALL_SECONDS):
        return f"{text}; at this size most of that is the call itself, so measure larger arrays too."
    if times >= FAR:
        return f"{text}; a better kernel could gain that much at most."
    return f"{text}." if outcome is Outcome.loses else f"{text}, so little is left to gain."


def _advice(outcome: Outcome, rival: str) -> str:
    match outcome:
        case Outcome.earns:
            return "Keep it."
        case Outcome.little:
            return "Keep it if this operator is where your program spends its time."
        case _:
            return (
                "For torch alone the reference is less code to keep; the operator is worth its upkeep only where there is no "
                f"{'torch.compile' if rival == 'compiled' else 'torch'}, as on NumPy and JAX arrays."
            )
