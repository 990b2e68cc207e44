"""erf and tanh in f32 as straight-line vector code.

Stage: lowering. In and out: `Num`, any number of lanes. Coefficients come from tools/minimax.py. Both are odd: computed
on |x| by two formulas, one near zero and one further out, then given the sign of x.
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
# erf(x) = x + x P(x^2) for |x| < 1.125
ERF_SMALL_F32 = (
    0.12837916612625122,
    -0.3761260211467743,
    0.11283256113529205,
    -0.026839222759008408,
    0.005160259548574686,
    -0.0007765805348753929,
    7.063541852403432e-05,
)
# erf(x) = 1 - Q(x)^4 for 1.125 <= x < 4
ERF_LARGE_F32 = (
    1.0055009126663208,
    -0.30879563093185425,
    -0.06340888142585754,
    -0.0504954494535923,
    0.06613077223300934,
    -0.022216297686100006,
    0.003234707284718752,
    -0.00017953378846868873,
)


def erf_f32(x: Num) -> Num:
    """The error function. The fourth root of 1 - erf is smooth, and two squarings cost less than an exponential."""
    size = x.abs()
    near = size.mad(horner(x * x, ERF_SMALL_F32), size)
    # 1 - erf(4) is below half an ulp of 1. NaN passes through the clamp.
    root = horner(size.at_most(4.0), ERF_LARGE_F32)
    square = root * root
    far = (-square).mad(square, 1.0)
    return (size < 1.125).where(near, far).copysign(x)


def tanh_f32(x: Num) -> Num:
    """The hyperbolic tangent."""
    size = x.abs()
    square = x * x
    near = (square * size).mad(horner(square, TANH_F32), size)
    far = 1.0 - 2.0 / (exp_normal(size.at_most(10.0) * 2.0) + 1.0)
    return (size < 0.55).where(near, far).copysign(x)
