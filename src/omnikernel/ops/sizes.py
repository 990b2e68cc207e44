"""Arithmetic of grids on the host, without Triton, whose own functions take microseconds a call where no operator is declared."""

from __future__ import annotations


def cdiv(a: int, b: int) -> int:
    """The quotient rounded up: programs of `b` elements for `a` elements."""
    return -(-a // b)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least `n`, and at least 1."""
    return 1 << max(n - 1, 0).bit_length()
