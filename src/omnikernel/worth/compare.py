"""One comparison: check the operator against its reference, then time reference, compiled reference and operator side by side.

In: a `Subject`. Out: a `Measured`, for `verdict.judge`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from .clock import Call, Contender, clock_for, interleaved, issue_seconds
from .compiled import compile_reference
from .subject import Subject, tolerances
from .verdict import Agreement, Measured

_MATRIX = {"cpu": 1024, "cuda": 4096}  # the size of the matrix product that tells flops a second


def compare(subject: Subject, device: str = "cpu", threads: int = 1, rounds: int = 21) -> Measured:
    """Measure.

    Args:
        subject: the operator, its reference and arguments.
        device: `cpu` or `cuda`, where the arguments are.
        threads: of torch and of the operator alike, on the CPU.
        rounds: how many times each contender gets its turn.

    Raises:
        CompileError: torch.compile fails on the reference.
    """
    import torch

    with torch.no_grad(), _threads(threads):
        eager, compiled, ours = (Arguments(subject) for _ in range(3))
        wanted = eager.results(subject.reference)
        got = ours.results(subject.operator)
        agreement = agree(subject, got, wanted)
        program, made = compile_reference(subject.reference, compiled.args, compiled.kwargs)
        least = least_bytes(subject, got)
        flops = _flops(subject, eager)
        measure = clock_for(device, threads)
        contenders = {
            "eager": eager.contender(subject.reference),
            "compiled": compiled.contender(program),
            "ours": ours.contender(subject.operator),
            "copy": Contender(_copy(least, device)),
        }
        dtype = next((t.dtype for t in tensors([eager.args, eager.kwargs]) if t.is_floating_point()), torch.float32)
        if flops:
            contenders["product"] = Contender(_product(dtype, device))
        times = interleaved(contenders, rounds, measure)
        issue = issue_seconds(contenders["ours"]) if device != "cpu" else 0.0
    rate = 2.0 * _MATRIX[device] ** 3 / times["product"].seconds if flops else 0.0
    name = subject.operator.name
    return Measured(
        name,
        agreement,
        times["eager"],
        times["compiled"],
        times["ours"],
        times["copy"],
        made,
        least,
        flops,
        rate,
        issue,
    )


class Arguments:
    """A contender's own arguments: copies where the operator writes them, with what puts back the first values."""

    def __init__(self, subject: Subject) -> None:
        names = [param.name for param in subject.operator.schema.params]
        given = {**dict(zip(names, subject.args, strict=False)), **subject.kwargs}
        self._first = [t for name in subject.mutated for t in tensors(given.get(name))]
        self.written = [t.clone() for t in self._first]
        own = dict(zip(map(id, self._first), self.written, strict=True))
        self.args = tuple(_replaced(value, own) for value in subject.args)
        self.kwargs = {name: _replaced(value, own) for name, value in subject.kwargs.items()}

    def restore(self) -> None:
        """Put the first values back."""
        for tensor, first in zip(self.written, self._first, strict=True):
            tensor.copy_(first)

    def results(self, function: Callable[..., Any]) -> list[Any]:
        """What a call gives: its results, then copies of what it wrote."""
        found = function(*self.args, **self.kwargs)
        results = [] if found is None else list(found) if isinstance(found, (tuple, list)) else [found]
        results += [tensor.clone() for tensor in self.written]
        self.restore()
        return results

    def contender(self, function: Callable[..., Any]) -> Contender:
        """The call, to be timed."""
        args, kwargs = self.args, self.kwargs
        return Contender(lambda: function(*args, **kwargs), self.restore if self.written else None)


def _replaced(value: Any, own: Mapping[int, Any]) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(_replaced(item, own) for item in value)
    return own.get(id(value), value)


def tensors(value: Any) -> Iterator[Any]:
    """The tensors among nested arguments."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from tensors(list(value.values()))
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors(item)


def agree(subject: Subject, got: Sequence[Any], wanted: Sequence[Any]) -> Agreement:
    """Compare results: number, shapes, dtypes, and values within the tolerance (integers exactly)."""
    import torch

    dtypes = [str(t.dtype).removeprefix("torch.") for t in wanted if isinstance(t, torch.Tensor)]
    rtol, atol = tolerances(subject, dtypes)
    if len(got) != len(wanted):
        return Agreement(0.0, rtol, atol, f"it gives {len(got)} results, the reference {len(wanted)}")
    largest = 0.0
    for index, (a, b) in enumerate(zip(got, wanted, strict=True)):
        where = f"result {index}" if len(got) > 1 else "the result"
        if not isinstance(b, torch.Tensor) or a.shape != b.shape or a.dtype != b.dtype:
            found = f"{tuple(b.shape)} of {b.dtype}" if isinstance(b, torch.Tensor) else f"a {type(b).__qualname__}"
            return Agreement(
                largest, rtol, atol, f"{where} is {tuple(a.shape)} of {a.dtype}, the reference gives {found}"
            )
        exact = not b.is_floating_point()
        # On the CPU, since a GPU may lack f64.
        left, right = a.cpu().to(torch.float64), b.cpu().to(torch.float64)
        close = torch.isclose(left, right, 0.0 if exact else rtol, 0.0 if exact else atol, equal_nan=True)
        differences = torch.where(left == right, 0.0, (left - right).abs()).nan_to_num(0.0)
        largest = max(largest, float(differences.max()) if differences.numel() else 0.0)
        if not bool(close.all()):
            worst = int(torch.where(close, -1.0, differences).argmax())
            at = tuple(int(i) for i in torch.unravel_index(torch.tensor(worst), left.shape))
            fault = (
                f"{int((~close).sum())} of {close.numel()} elements of {where} differ, at {at} "
                f"{float(left.reshape(-1)[worst]):.6g} instead of {float(right.reshape(-1)[worst]):.6g}"
            )
            return Agreement(largest, rtol, atol, f"{fault} (rtol {rtol:g}, atol {atol:g})")
    return Agreement(largest, rtol, atol)


def least_bytes(subject: Subject, results: Sequence[Any]) -> int:
    """Bytes of every input read once and every result written once."""
    inputs = {id(t): t for t in tensors([subject.args, subject.kwargs])}
    return sum(t.numel() * t.element_size() for t in (*inputs.values(), *results))


def _flops(subject: Subject, arguments: Arguments) -> int:
    """Operations of the matrix products and convolutions in the reference, as torch counts them."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        subject.reference(*arguments.args, **arguments.kwargs)
    arguments.restore()
    return int(counter.get_total_flops())


def _copy(least: int, device: str) -> Call:
    """A copy that reads and writes `least` bytes in all: so it runs in the same level of the caches."""
    import torch

    source = torch.zeros(max(1, least // 2), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def _product(dtype: Any, device: str) -> Call:
    import torch

    a, b, out = (torch.ones(_MATRIX[device], _MATRIX[device], dtype=dtype, device=device) for _ in range(3))
    return lambda: torch.mm(a, b, out=out)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """So many threads for torch and for ours, and back."""
    import torch

    from ..runtime import pool

    before = torch.get_num_threads(), pool.get_num_threads()
    torch.set_num_threads(count)
    pool.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        pool.set_num_threads(before[1])
