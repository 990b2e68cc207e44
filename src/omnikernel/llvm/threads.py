"""Code generation of several modules at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import zip_longest

from ..processors import available_threads

Make = Callable[[], bytes]


def at_once(make: Sequence[Make], *, alone: bool = False) -> list[bytes]:
    """Make several things, each in a thread where there are processors; in this one alone if `alone`.

    Raises:
        Exception: what the first that failed raised, once all have ended.
    """
    first, *others = works = [_Work(each) for each in make]
    helpers = [] if alone or available_threads() == 1 else [_started(work) for work in others]
    try:
        first.run()
    finally:
        for work, helper in zip_longest(others, helpers):
            if helper:
                helper.join()
            else:
                work.run()
    return [work.result() for work in works]


def _started(work: _Work) -> threading.Thread | None:
    """A thread that does the work; None where Python starts no more threads, at its end."""
    helper = threading.Thread(target=work.run, name="omnikernel-llvm")
    try:
        helper.start()
    except RuntimeError:
        return None
    return helper


class _Work:
    """What some thread makes."""

    def __init__(self, make: Make) -> None:
        self.make = make
        self.data = b""
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.data = self.make()
        except Exception as error:  # raised again where the result is asked for
            self.error = error

    def result(self) -> bytes:
        if self.error:
            raise self.error
        return self.data
