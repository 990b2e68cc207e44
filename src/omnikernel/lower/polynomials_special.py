"""erf and tanh in f32 as straight-line vector code.

Stage: lowering. In and out: `Num`, any number of lanes. Coefficients come from tools/minimax.py. Both are odd: computed
on |x| by two formulas, one near zero and one by exp, then given the sign of x.
"""

from __future__ import annotations

from .number import Num, horner
from .polynomials_exp import exp_normal

# tanh(x) = x + x^3 P(x^2) for |x| < 0.55
TANH_F32 = (
    -0.3333333134651184,
    0.1333322674036026,
    -0.05394915118813515,
    0.02171139419078827,
    -0.008194289170205593,
    0.0021453360095620155,
)
# erf(x) = x + x P(x^2) for |x| < 1
ERF_SMALL_F32 = (
    0.12837916612625122,
    -0.3761262595653534,
    0.11283581703901291,
    -0.026853591203689575,
    0.005187836475670338,
    -0.0008005514391697943,
    7.837645534891635e-05,
)
# erf(x) = 1 - exp(Q(x - 1)) for 1 <= x < 4
ERF_LARGE_F32 = (
    -1.8496055603027344,
    -2.6389615535736084,
    -0.8432202935218811,
    -0.0407918281853199,
    0.007609882391989231,
    0.0019449833780527115,
    -0.003095498774200678,
    0.0014172777300700545,
    -0.00023790408158674836,
)


def erf_f32(x: Num) -> Num:
    """The error function."""
    size = x.abs()
    square = x * x
    near = size.mad(horner(square, ERF_SMALL_F32), size)
    # 1 - erf(4) is below half an ulp of 1. NaN passes through the clamp.
    far = 1.0 - exp_normal(horner(size.at_most(4.0) - 1.0, ERF_LARGE_F32))
    return (size < 1.0).where(near, far).copysign(x)


def tanh_f32(x: Num) -> Num:
    """The hyperbolic tangent."""
    size = x.abs()
    square = x * x
    near = (square * size).mad(horner(square, TANH_F32), size)
    far = 1.0 - 2.0 / (exp_normal(size.at_most(10.0) * 2.0) + 1.0)
    return (size < 0.55).where(near, far).copysign(x)
