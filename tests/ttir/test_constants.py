"""Literals: exact bits for every type, against NumPy and ml_dtypes."""

from __future__ import annotations

import math
import struct

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reading import read

from omnikernel.ir.floats import decode, encode, literal
from omnikernel.ir.printer import print_kernel
from omnikernel.ir.tile import Block, Constant, Function, Kernel, Op, Region, Value
from omnikernel.ir.types import FLOAT_BITS, INTEGER_BITS, Scalar, Tensor
from omnikernel.ttir import parse

DTYPES = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
}
KINDS = st.sampled_from(sorted(FLOAT_BITS))


def bits_of(array: np.ndarray) -> int:
    return int.from_bytes(array.tobytes(), "little")


def value_of(line: str) -> Constant:
    value = read(line).attributes["value"]
    assert isinstance(value, Constant)
    return value


def test_every_float_type_is_tested() -> None:
    assert DTYPES.keys() == FLOAT_BITS.keys()


@given(KINDS, st.floats())
@example("bf16", 3.14063)
@example("f8E4M3FN", 448.0)
@example("f8E4M3FN", 465.0)
@example("f8E5M2", 61440.0)
@example("f8E5M2", -1e-10)
@example("f8E4M3FNUZ", -0.0)
@example("f8E4M3FNUZ", -1e-10)
@example("f16", 65520.0)
@example("f16", 65519.99)
@example("f32", 3.5e38)
def test_encode_rounds_as_numpy_does(kind: str, value: float) -> None:
    with np.errstate(all="ignore"):
        # float64 to fp8 must round once.
        want = np.array(value, np.float64).astype(DTYPES[kind])
    got = encode(value, kind)
    if np.isnan(want.astype(np.float64)):
        assert math.isnan(decode(got, kind))
    else:
        assert got == bits_of(want)


@pytest.mark.parametrize("kind", [kind for kind in sorted(FLOAT_BITS) if FLOAT_BITS[kind] <= 16])
def test_decode_of_every_pattern(kind: str) -> None:
    count = 1 << FLOAT_BITS[kind]
    with np.errstate(invalid="ignore"):  # signalling NaNs
        want = np.arange(count).astype(f"u{FLOAT_BITS[kind] // 8}").view(DTYPES[kind]).astype(np.float64)
    got = np.array([decode(bits, kind) for bits in range(count)])
    np.testing.assert_array_equal(got, want)
    assert all(np.signbit(got[~np.isnan(got)]) == np.signbit(want[~np.isnan(want)]))


@given(KINDS, st.integers(0, 2**64 - 1), st.booleans())
@example("f32", 0xFF800000, False)
@example("f32", 0x7FC00000, True)
@example("f32", 0x80000000, True)
@example("f64", 1, False)
@example("f16", 0x7BFF, True)
def test_float_constants_print_and_read_back(kind: str, bits: int, tile: bool) -> None:
    bits &= (1 << FLOAT_BITS[kind]) - 1
    check_round_trip(kind, (bits,), (8,) if tile else ())
    text = literal(bits, kind)
    of = f"dense<{text}> : tensor<8x{kind}>" if tile else f"{text} : {kind}"
    assert value_of(f"%0 = arith.constant {of}").elements == (bits,)


@given(st.sampled_from(sorted(INTEGER_BITS)), st.data())
def test_integer_constants_print_and_read_back(kind: str, data: st.DataObject) -> None:
    bits = INTEGER_BITS[kind]
    value = data.draw(st.integers(-(1 << (bits - 1)), (1 << bits) - 1))
    pattern = value & ((1 << bits) - 1)
    check_round_trip(kind, (pattern,), ())
    if bits > 1:
        assert value_of(f"%0 = arith.constant {value} : {kind}").elements == (pattern,)
        assert value_of(f"%0 = arith.constant dense<{value}> : tensor<2x{kind}>").elements == (pattern,)


@given(st.sampled_from(sorted([*FLOAT_BITS, *INTEGER_BITS])), st.data())
def test_lists_and_blobs(kind: str, data: st.DataObject) -> None:
    scalar = Scalar(kind)
    patterns = tuple(data.draw(st.lists(st.integers(0, (1 << scalar.bits) - 1), min_size=6, max_size=6)))
    check_round_trip(kind, patterns, (2, 3))
    if kind in FLOAT_BITS:
        words = [f"0x{p:0{scalar.bits // 4}X}" for p in patterns]
    else:
        words = [str(i) if scalar.bits > 1 else str(bool(i)).lower() for i in Constant(patterns, scalar).integers()]
    nested = f"[[{', '.join(words[:3])}], [{', '.join(words[3:])}]]"
    assert value_of(f"%0 = arith.constant dense<{nested}> : tensor<2x3x{kind}>").elements == patterns
    blob = b"".join(p.to_bytes(scalar.bytes, "little") for p in patterns).hex().upper()
    assert value_of(f'%0 = arith.constant dense<"0x{blob}"> : tensor<2x3x{kind}>').elements == patterns


def check_round_trip(kind: str, patterns: tuple[int, ...], shape: tuple[int, ...]) -> None:
    """A kernel with that constant, as a value and as an attribute, prints and reads back to the same bits."""
    type_ = Tensor(shape, Scalar(kind)) if shape else Scalar(kind)
    constant = Constant(patterns, type_)
    ops = (
        Op(
            "arith.constant",
            (),
            (Value("c", type_),),
            {
                "value": constant,
            },
        ),
        Op("tt.return", attributes={"k": constant}),
    )
    kernel = Kernel((Function("k", (), (), Region((Block("bb0", (), ops),))),))
    again = parse(print_kernel(kernel)).entry.body.block.ops
    assert again[0].attributes["value"] == constant
    assert again[1].attributes["k"] == constant


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("true", (1,)),
        ("false", (0,)),
        ("dense<true> : tensor<4xi1>", (1,)),
        ("dense<[true, false, true, true]> : tensor<4xi1>", (1, 0, 1, 1)),
        ('dense<"0x0D"> : tensor<4xi1>', (1, 0, 1, 1)),
        ('dense<"0x01000101"> : tensor<4xi1>', (1, 0, 1, 1)),
        ("-1 : i8", (0xFF,)),
        ("-9223372036854775808 : i64", (1 << 63,)),
        ("0x7FC00000 : f32", (0x7FC00000,)),
        ("dense<0xFF800000> : tensor<128xf32>", (0xFF800000,)),
        ("-0.000000e+00 : f16", (0x8000,)),
        ("dense<3.140630e+00> : tensor<8xbf16>", (0x4049,)),
        ("9.9999999999999998E-46 : f64", (struct.unpack("<Q", struct.pack("<d", 1e-45))[0],)),
        ("7 : index", (7,)),
    ],
)
def test_spellings(text: str, elements: tuple[int, ...]) -> None:
    assert value_of(f"%0 = arith.constant {text}").elements == elements
