"""Loads, stores and atomics at raw addresses. A masked-off lane touches no memory.

In: int64 addresses, as the launcher passes them. Memory is reached through a window: overlapping views of the element's
dtype, one a byte, over exactly the bytes between the least and the greatest address of an access. Programs run one
after another in one thread, so an atomic is a load and a store; among lanes of one op, row-major order decides.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import UnsupportedOp
from ..ir.tile import Op
from ..ir.types import Pointer, Scalar, element_of, shape_of
from . import narrow
from .registry import Array, Machine, Outcome, bits_of, dtype_of, from_bits, means, where


def _window(addresses: Array, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """A view of memory that holds every element at the given addresses, and their indices in it."""
    low, high = int(addresses.min()), int(addresses.max())
    if low <= 0:
        raise ValueError(f"access to address {low:#x}: a null or negative pointer")
    span = high - low + 1
    raw = (ctypes.c_uint8 * (span + dtype.itemsize - 1)).from_address(low)
    return np.ndarray((span,), dtype, memoryview(raw), 0, (1,)), addresses - low


def gather(addresses: Array, dtype: np.dtype[Any]) -> Array:
    """Elements at flat addresses (any alignment), as a flat array; bool is a byte that is not 0."""
    if addresses.size == 0:
        return np.zeros(0, dtype)
    stored = np.dtype(np.uint8) if dtype == np.bool_ else np.dtype(f"u{dtype.itemsize}")
    window, at = _window(addresses, stored)
    made = window[at]
    return made != 0 if dtype == np.bool_ else from_bits(made, dtype)


def scatter(addresses: Array, values: Array) -> None:
    """Write flat values to flat addresses in order; of equal addresses the last wins."""
    if addresses.size:
        bits = bits_of(values)
        window, at = _window(addresses, bits.dtype)
        window[at] = bits


def _lanes(op: Op, pointers: Array, mask: Array | None) -> tuple[Array, Array]:
    """Flat addresses and mask of a memory op, in row-major order."""
    pointer = element_of(op.operands[0].type)
    if not isinstance(pointer, Pointer) or not isinstance(pointer.pointee, Scalar | Pointer):
        raise UnsupportedOp(
            f"{op.name} through {op.operands[0].type} at {where(op.loc)}: block pointers must be rewritten first"
        )
    addresses = np.ravel(pointers)
    active = np.ones(addresses.shape, np.bool_) if mask is None else np.ravel(np.broadcast_to(mask, pointers.shape))
    return addresses, active


@means("tt.load")
def load(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    """A masked-off lane gives `other`, or 0 where there is none."""
    pointers, mask, other = (*args, None, None)[:3]
    assert pointers is not None
    dtype = dtype_of(op.result.type)
    addresses, active = _lanes(op, pointers, mask)
    if machine.observer is not None:
        machine.observer.load(op, addresses, active, dtype.itemsize)
    made = (
        np.zeros(addresses.shape, dtype) if other is None else np.ravel(np.broadcast_to(other, pointers.shape)).copy()
    )
    made[active] = gather(addresses[active], dtype)
    return [made.reshape(shape_of(op.result.type))]


@means("tt.store")
def store(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    pointers, values, mask = (*args, None)[:3]
    assert pointers is not None and values is not None
    addresses, active = _lanes(op, pointers, mask)
    if machine.observer is not None:
        machine.observer.store(op, addresses, active, values.dtype.itemsize)
    scatter(addresses[active], np.ravel(np.broadcast_to(values, pointers.shape))[active])
    return []


def _float_add(a: Array, b: Array) -> Array:
    return np.asarray(narrow.widen(a) + narrow.widen(b))


def _unsigned_pick(largest: bool) -> Callable[[Array, Array], Array]:
    def pick(a: Array, b: Array) -> Array:
        x, y = bits_of(a), bits_of(b)
        return np.where(x > y if largest else x < y, a, b)

    return pick


COMBINE: dict[str, Callable[[Array, Array], Array]] = {
    "and": lambda a, b: bits_of(a) & bits_of(b),
    "or": lambda a, b: bits_of(a) | bits_of(b),
    "xor": lambda a, b: bits_of(a) ^ bits_of(b),
    "add": lambda a, b: bits_of(a) + bits_of(b),
    "fadd": _float_add,
    "max": np.maximum,
    "min": np.minimum,
    "umax": _unsigned_pick(True),
    "umin": _unsigned_pick(False),
    "exch": lambda a, b: b,
}


def combine(kind: str, old: Array, value: Array, element: Scalar | Pointer) -> Array:
    """What an atomic of that kind leaves in memory; the dtype of `old`."""
    if kind == "fadd":
        assert isinstance(element, Scalar)
        return narrow.narrow(COMBINE[kind](old, value), element.kind)
    if isinstance(element, Scalar) and element.is_float and kind != "exch":
        raise UnsupportedOp(f"atomic {kind} on {element}")
    made = np.asarray(COMBINE[kind](old, value))
    return made if made.dtype == old.dtype else from_bits(made, old.dtype)


def _read_modify_write(addresses: Array, old_dtype: np.dtype[Any], change: Callable[[Array, Array], Array]) -> Array:
    """Replace memory by change(old, lanes) and return the old values, as if lane by lane.

    Args:
        addresses: flat addresses of the active lanes.
        change: gets old values and the indices of the lanes they belong to; returns new values.
    """
    count = addresses.size
    if np.unique(addresses).size == count:
        old = gather(addresses, old_dtype)
        scatter(addresses, change(old, np.arange(count)))
        return old
    old = np.zeros(count, old_dtype)
    for lane in range(count):
        here = slice(lane, lane + 1)
        old[here] = gather(addresses[here], old_dtype)
        scatter(addresses[here], change(old[here], np.arange(lane, lane + 1)))
    return old


@means("tt.atomic_rmw")
def atomic_rmw(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    """Gives the old value; 0 where masked off."""
    pointers, values, mask = (*args, None)[:3]
    assert pointers is not None and values is not None
    element = element_of(op.operands[1].type)
    addresses, active = _lanes(op, pointers, mask)
    if machine.observer is not None:
        machine.observer.atomic(op, addresses, active, values.dtype.itemsize)
    operand = np.ravel(np.broadcast_to(values, pointers.shape))[active]
    kind: str = op.attributes["kind"]
    old = np.zeros(addresses.shape, values.dtype)
    old[active] = _read_modify_write(
        addresses[active], values.dtype, lambda was, lanes: combine(kind, was, operand[lanes], element)
    )
    return [old.reshape(pointers.shape)]


@means("tt.atomic_cas")
def atomic_cas(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    """Compares bits, also of floats."""
    pointers, expected, desired = args
    addresses, active = _lanes(op, pointers, None)
    if machine.observer is not None:
        machine.observer.atomic(op, addresses, active, desired.dtype.itemsize)
    want, new = np.ravel(np.broadcast_to(expected, pointers.shape)), np.ravel(np.broadcast_to(desired, pointers.shape))
    old = _read_modify_write(
        addresses, desired.dtype, lambda was, lanes: np.where(bits_of(was) == bits_of(want[lanes]), new[lanes], was)
    )
    return [old.reshape(pointers.shape)]
