"""Conversions between every two types against exact rounding."""

from __future__ import annotations

import math

import numpy as np
import pytest
from elementwise_jit import DTYPES, TARGETS, externals, run, same_bits
from exact_rounding import FORMATS, to_format

from omnikernel.errors import UnsupportedOp

LANES = (0, 1, 4, 16, 32)
INTEGERS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
FLOATS = tuple(FORMATS)
# Values at which f32 and f64 inputs are rounded to every narrow type: halves between neighbours, and just beside them.
SCALES = np.ldexp(1.0, np.arange(-160, 130))


def floats(kind: str, seed: int = 0) -> np.ndarray:
    """All values of a type up to 16 bits; for wider ones random bits, random magnitudes, ties and special values."""
    dtype = DTYPES[kind]
    if dtype.itemsize <= 2:
        return np.arange(1 << (8 * dtype.itemsize), dtype=np.uint32).astype(f"u{dtype.itemsize}").view(dtype)
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        bits = rng.integers(0, 2**64, 3000, dtype=np.uint64).view(np.uint32).view(dtype)
        scaled = (rng.standard_normal(20 * len(SCALES)).reshape(20, -1) * SCALES).ravel()
        ties = np.concatenate([(rng.integers(1, 2**12, len(SCALES)) + 0.5) * SCALES * 2.0**-k for k in range(12)])
        beside = np.concatenate([np.nextafter(ties.astype(dtype), dtype.type(s)) for s in (np.inf, -np.inf)])
        edges = [
            0.0,
            np.inf,
            np.nan,
            65504,
            65519.99,
            65520,
            57344,
            61440,
            448,
            464,
            480,
            240,
            30,
            3.3895e38,
            3.4e38,
            1e300,
        ]
        values = np.concatenate([scaled, ties, beside, edges]).astype(dtype)
    return np.concatenate([bits, values, -values])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("to", FLOATS)
@pytest.mark.parametrize("source", FLOATS)
def test_float_to_float(source: str, to: str, target: str) -> None:
    if source == to:
        return
    x = floats(source)
    for rounding in ("rtne", "rtz"):
        want = to_format(x, to, rounding)
        for lanes in LANES if source == "f32" else (0, 16):
            (got,) = run("tt.fp_to_fp", [x], [to], lanes, target, rounding=rounding)
            same_bits(got, want)
        assert not externals("tt.fp_to_fp", [source], [to], 16, target, rounding=rounding)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", [k for k in FLOATS if k not in ("f32", "f64")])
def test_wide_form_gives_the_bits_back(kind: str, target: str) -> None:
    """Through a selection between the wide forms: every code but NaN's payload survives."""
    x = floats(kind)
    for lanes in (0, 16):
        (got,) = run("arith.maximumf", [x, x], [kind], lanes, target)
        same_bits(got, x)


def test_truncf_and_extf() -> None:
    x = floats("f32")
    same_bits(run("arith.truncf", [x], ["f16"])[0], to_format(x, "f16"))
    same_bits(run("arith.truncf", [x], ["bf16"], roundingmode="toward_zero")[0], to_format(x, "bf16", "rtz"))
    same_bits(run("arith.extf", [floats("bf16")], ["f32"])[0], floats("bf16").astype(np.float32))
    with pytest.raises(UnsupportedOp, match="rounding upward"):
        run("arith.truncf", [x], ["f16"], roundingmode="upward")


def integers(kind: str) -> np.ndarray:
    bits = INTEGERS[kind]
    if bits == 1:
        return np.array([0, 1] * 16, bool)
    rng = np.random.default_rng(2)
    top = 1 << (bits - 1)
    values = [*rng.integers(-top, top, 2000), *(rng.integers(-top, top, 2000) >> rng.integers(0, bits, 2000))]
    for shift in range(bits - 1):
        # Ties of every narrow float, and their neighbours.
        values += [((1 << shift) * odd + off) % (2 * top) - top for odd in (1, 257, 385, 2049, 3) for off in (-1, 0, 1)]
    return np.array([(int(v) + top) % (2 * top) - top for v in values] + [0, -1, top - 1, -top], DTYPES[kind])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("to", FLOATS)
@pytest.mark.parametrize("source", INTEGERS)
def test_integer_to_float(source: str, to: str, target: str) -> None:
    x = integers(source)
    as_signed = -x.astype(np.int8) if source == "i1" else x
    as_unsigned = x if source == "i1" else x.view(f"u{x.dtype.itemsize}")
    for lanes in (0, 4, 16):
        same_bits(run("arith.sitofp", [x], [to], lanes, target)[0], to_format(as_signed, to))
        same_bits(run("arith.uitofp", [x], [to], lanes, target)[0], to_format(as_unsigned, to))
    assert not externals("arith.sitofp", [source], [to], 16, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("to", INTEGERS)
@pytest.mark.parametrize("source", FLOATS)
def test_float_to_integer(source: str, to: str, target: str) -> None:
    x = floats(source)
    rng = np.random.default_rng(4)
    if source in ("f32", "f64"):
        edges = np.ldexp(1.0, np.arange(66))
        near = np.concatenate(
            [edges, np.nextafter(edges.astype(x.dtype), 0), edges - 1, edges + 0.5, rng.uniform(0, 300, 500)]
        )
        x = np.concatenate([x, near.astype(x.dtype), -near.astype(x.dtype)])
    bits = INTEGERS[to]
    for name, low, high in (
        ("arith.fptosi", -(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        ("arith.fptoui", 0, (1 << bits) - 1),
    ):
        exact = [
            0 if math.isnan(v) else low if v < low else high if v > high else int(v)
            for v in x.astype(np.float64).tolist()
        ]
        unsigned = np.array([v % (1 << bits) for v in exact], np.uint64)
        want = unsigned.astype(bool) if to == "i1" else unsigned.astype(f"u{bits // 8}").view(DTYPES[to])
        for lanes in (0, 16):
            same_bits(run(name, [x], [to], lanes, target)[0], want)
        assert not externals(name, [source], [to], 16, target)


@pytest.mark.parametrize("to", [*INTEGERS, "index"])
@pytest.mark.parametrize("source", [*INTEGERS, "index"])
def test_integer_width(source: str, to: str) -> None:
    x = integers("i64" if source == "index" else source)
    bits, wider = INTEGERS.get(source, 64), INTEGERS.get(to, 64)
    signed = [-int(v) if bits == 1 else int(v) for v in x]
    names = (
        {"arith.trunci": signed}
        if wider < bits
        else {"arith.extsi": signed, "arith.extui": [v % (1 << bits) for v in signed]}
    )
    if "index" in (source, to) and source != to and "i1" not in (source, to):
        names = {"arith.index_cast": signed, "arith.index_castui": [v % (1 << bits) for v in signed]}
    for name, values in names.items():
        kept = np.array([v % (1 << wider) for v in values], np.uint64)
        want = kept.astype(bool) if wider == 1 else kept.astype(f"u{wider // 8}").view(DTYPES[to])
        for lanes in (0, 16):
            (got,) = run(name, [x], [to], lanes, ins=[source])
            same_bits(got, want)


@pytest.mark.parametrize(
    ("source", "to"),
    [("f32", "i32"), ("i64", "f64"), ("f16", "i16"), ("bf16", "f16"), ("i8", "f8E5M2"), ("f8E4M3FN", "i8")],
)
def test_bitcast(source: str, to: str) -> None:
    x = np.random.default_rng(5).integers(0, 256, 400 * DTYPES[source].itemsize).astype(np.uint8).view(DTYPES[source])
    for lanes in (0, 8):
        (got,) = run("arith.bitcast", [x], [to], lanes)
        assert got.tobytes() == x.tobytes()
