"""Ops that move elements: views and copies, no arithmetic. The result type states the shape."""

from __future__ import annotations

import numpy as np

from ..ir.tile import Op
from ..ir.types import shape_of
from .registry import Array, Machine, Outcome, means


@means("tt.make_range")
def make_range(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    return [np.arange(op.attributes["start"], op.attributes["end"], dtype=np.int32)]


@means("tt.splat", "tt.broadcast")
def broadcast(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    return [np.broadcast_to(args[0], shape_of(op.result.type))]


@means("tt.unsplat")
def unsplat(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    return [args[0].reshape(())]


@means("tt.expand_dims")
def expand_dims(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    return [np.expand_dims(args[0], op.attributes["axis"])]


@means("tt.reshape")
def reshape(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    """Row-major, also where the op would allow another order."""
    return [args[0].reshape(shape_of(op.result.type))]


@means("tt.trans")
def trans(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    return [np.transpose(args[0], op.attributes["order"])]


@means("tile.flip", "tile.partner")
def flip(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    return [np.flip(args[0], op.attributes["axis"])]


@means("tt.join")
def join(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    return [np.stack(args, axis=-1)]


@means("tt.split")
def split(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    return [args[0][..., 0], args[0][..., 1]]


@means("tt.cat")
def cat(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    """In order, also where the op would allow another."""
    return [np.concatenate(args)]
