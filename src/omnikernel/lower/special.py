"""The error function's relatives and modified Bessel functions, in f64 arithmetic for f32 and f64.

Stage: lowering. In and out: `Num` of double. Coefficients come from tools/minimax.py.
"""

from __future__ import annotations

import math
from fractions import Fraction

from .arith import has_fma
from .number import Num, horner
from .polynomials_exp import exp
from .polynomials_log import log

ERFCX = (
    1.23299511862562,
    -0.13962111683558848,
    0.015379652090088609,
    0.06809705395995821,
    -0.10103906565730521,
    0.09373284013097348,
    -0.06633037021335533,
    0.03716747477753373,
    -0.016197708328406238,
    0.005032146189612494,
    -0.0007578590555872484,
    -0.00019970774244419527,
    0.0001507948527196597,
    -2.3691840124607564e-05,
    -1.1438506438085012e-05,
    5.032648889240626e-06,
    4.597401851720722e-07,
    -4.4774107499934995e-07,
)
ERFINV_SMALL = (
    1.5014093511113915,
    0.24664027673182534,
    -0.004177317735551309,
    -0.0012527078317852356,
    0.00021825029871887737,
    -4.996215415853192e-06,
    -3.416660134897902e-06,
    4.788328947740685e-07,
    1.3440361993278595e-08,
    -1.0905572944116348e-08,
    8.998719250114546e-10,
    1.2968546104621696e-10,
    -2.981621294864736e-11,
    -3.320219181947953e-13,
    4.24438442855209e-13,
)
ERFINV_MIDDLE = (
    3.074205819105122,
    0.15509870294458084,
    -0.003562333823563913,
    0.00015549477416933725,
    -7.62806820377542e-06,
    3.0957281654940853e-07,
    1.8637643250292826e-10,
    -2.1278558006360775e-09,
    3.180645474622726e-10,
    -3.096840216901398e-11,
    2.4065901891950327e-12,
    -1.876987682530452e-13,
    5.675475938522193e-15,
    1.6371313980142432e-15,
    -1.542856905308868e-16,
)
ERFINV_LARGE = (
    6.869019651725342,
    1.0085956183396687,
    -0.0005126534893793375,
    6.294253310426554e-06,
    6.052964368473915e-06,
    -1.6288214796514624e-06,
    3.1552284136417874e-07,
    -4.9904953303650456e-08,
    8.118983703545559e-09,
    -2.168117438424134e-09,
    3.199574078324419e-10,
    5.8110900157277656e-11,
    -1.0122239008247276e-11,
    -4.268567953952829e-12,
    7.538725703905621e-13,
)
I0_LARGE = (
    0.4021765094450081,
    0.006721103967335416,
    0.0005448642975286053,
    8.914427043722792e-05,
    2.374156817890673e-05,
    9.515504347422891e-06,
    5.677735253894206e-06,
    5.034224119195576e-06,
    5.533169077829262e-06,
    3.854747946597703e-06,
    -7.2483897697653175e-06,
    -2.725360224580159e-05,
    -1.784159382949272e-05,
    5.977583066320574e-05,
    8.620019076821414e-05,
    -0.00010102737640444291,
    -0.00019607328015479788,
    0.00013940620458084203,
    0.00026231006737153053,
    -0.00013720510394361744,
    -0.0001610765209653291,
    6.85965777576644e-05,
)
I1_LARGE = (
    0.3893984590258723,
    -0.019499154386471193,
    -0.0008769430552871456,
    -0.00012030837769889698,
    -2.9358570235843732e-05,
    -1.114832900080059e-05,
    -6.400290755396804e-06,
    -5.520971453982368e-06,
    -6.001834357696497e-06,
    -4.303748915411029e-06,
    7.257253261393616e-06,
    2.8564058354450327e-05,
    1.992854480466019e-05,
    -6.07949662869147e-05,
    -9.188318075449422e-05,
    0.00010016432856508627,
    0.00020596275010652167,
    -0.00013572348238691497,
    -0.00027338261552877033,
    0.00013250844176332445,
    0.00016703304827196815,
    -6.631285518334166e-05,
)
ERFINV_HUGE = (
    18.92561425251057,
    1.0025348203803495,
    -9.720917021427983e-05,
    3.848917836181474e-06,
    -1.5283796237032982e-07,
    5.984949876074287e-09,
    -2.1409169697919659e-10,
    6.0372875277248e-12,
    -3.5788957542174933e-13,
    2.449020419063355e-14,
    1.7221074078619834e-15,
    -1.8431955313641264e-16,
)
ERFCX_F64 = (
    1.2329951186255526,
    -0.1396211168405625,
    0.01537965210260106,
    0.06809705425469124,
    -0.10103906603494488,
    0.0937328349983798,
    -0.06633036585169419,
    0.03716751553746978,
    -0.01619773345496083,
    0.005031969971648888,
    -0.0007577788446650851,
    -0.00019925660463525167,
    0.00015065514471331663,
    -2.439984471073605e-05,
    -1.1360396331993816e-05,
    5.712413642502772e-06,
    6.981674424178986e-07,
    -8.328720859740863e-07,
    -7.73736648523965e-07,
    1.239667044871933e-07,
    1.2644636158137947e-06,
    -3.166355911205856e-08,
    -1.3821964310607896e-06,
    1.6008873263866788e-08,
    1.0399484926451195e-06,
    -7.929124670941848e-09,
    -5.16691238225562e-07,
    2.51253105118277e-09,
    1.5258127496082743e-07,
    -3.615064911129033e-10,
    -2.027902173362206e-08,
)
ROOT_HALF = math.sqrt(0.5)
# sqrt(1/2) is ROOT_HALF plus this.
ROOT_HALF_REST = -4.833646656726457e-17
TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)


def product_error(x: Num, y: Num, product: Num) -> Num:
    """x y - product, exactly: by fma, or by splitting each factor in halves (Dekker, 1971)."""
    if has_fma(x.b):
        return x.mad(y, -product)
    (x1, x0), (y1, y0) = _halves(x), _halves(y)
    return ((x1 * y1 - product) + x1 * y0 + x0 * y1) + x0 * y0


def _halves(x: Num) -> tuple[Num, Num]:
    high = (x.bits() & -(1 << 27)).real()
    return high, x - high


def _erfcx_positive(size: Num, coefficients: tuple[float, ...]) -> Num:
    """exp(x^2) erfc(x) for x >= 0."""
    bounded = size.at_most(1e30)  # beyond, the quotient is 1
    return horner((bounded - 4.0) / (bounded + 4.0), coefficients) / (size * 2.0 + 1.0)


def erfc(x: Num) -> Num:
    """The complementary error function, for f32."""
    size = x.abs().at_most(40.0)
    tail = exp(-(size * size)) * _erfcx_positive(size, ERFCX)
    return (x < 0.0).where(2.0 - tail, tail)


def normcdf(x: Num) -> Num:
    """The normal distribution function, for f32."""
    return erfc(x * -ROOT_HALF) * 0.5


def normcdf_f64(x: Num) -> Num:
    """erfc(-x sqrt(1/2)) / 2 by the C library's erfc, corrected for the rounding of its argument."""
    x = x.at_most(40.0).at_least(-40.0)
    at = x * -ROOT_HALF
    rest = product_error(x, x.const(-ROOT_HALF), at) - x * ROOT_HALF_REST
    slope = exp(-(at * at)) * TWO_OVER_ROOT_PI
    return (at.per_lane("erfc") - slope * rest) * 0.5


def erfcx(x: Num) -> Num:
    """exp(x^2) erfc(x)."""
    size = x.abs()
    right = _erfcx_positive(size, ERFCX_F64)
    bounded = size.at_most(30.0)
    square = bounded * bounded
    power = exp(square)
    power = power + power * product_error(bounded, bounded, square)
    infinite = size > 27.0
    left = infinite.where(math.inf, power * 2.0 - right)
    return (x < 0.0).where(left, right)


def _inverse(size: Num, tail: Num, *, refine: bool) -> Num:
    """erfinv(size) for size = 1 - tail >= 0, given both, each accurate. `refine` for the accuracy of f64."""
    w = -log(tail * (2.0 - tail))
    root = w.sqrt()
    ratio = (w < 5.0).where(horner(w - 2.5, ERFINV_SMALL), horner(w - 10.5, ERFINV_MIDDLE))
    far = horner(root - 7.0, ERFINV_LARGE)
    if refine:
        far = (w < 110.0).where(far, horner(root - 19.0, ERFINV_HUGE))
    value = size * (w < 16.0).where(ratio, far)
    if refine:  # one Newton step, with the residual of whichever function is accurate there
        residual = (size < 0.5).where(value.per_lane("erf") - size, tail - value.per_lane("erfc"))
        step = residual / (exp(-(value * value)) * TWO_OVER_ROOT_PI)
        value = step.abs().compare("olt", 1.0).where(value - step, value)
    return tail.equals(0.0).where(math.inf, value)


def erfinv(x: Num, *, refine: bool = False) -> Num:
    """The inverse of erf; infinite at -1 and 1, NaN beyond."""
    size = x.abs()
    return _inverse(size, 1.0 - size, refine=refine).copysign(x)


def erfcinv(x: Num, *, refine: bool = False) -> Num:
    """The inverse of erfc; infinite at 0 and 2, NaN beyond."""
    low = x <= 1.0
    tail = low.where(x, 2.0 - x)
    offset = 1.0 - x
    value = _inverse(offset.abs(), tail, refine=refine)
    return low.where(value, -value)


def normcdfinv(x: Num, *, refine: bool = False) -> Num:
    """The inverse of normcdf."""
    return erfcinv(x * 2.0, refine=refine) * -math.sqrt(2.0)


def erfinv_f64(x: Num) -> Num:
    return erfinv(x, refine=True)


def erfcinv_f64(x: Num) -> Num:
    return erfcinv(x, refine=True)


def normcdfinv_f64(x: Num) -> Num:
    return normcdfinv(x, refine=True)


# I_0(x) = sum (x^2/4)^k / k!^2, I_1(x) = x/2 sum (x^2/4)^k / (k! (k+1)!): all terms are positive.
I0_SMALL = tuple(float(Fraction(1, math.factorial(k) ** 2)) for k in range(24))
I1_SMALL = tuple(float(Fraction(1, math.factorial(k) * math.factorial(k + 1))) for k in range(24))


def _modified_bessel(x: Num, small: Num, large: tuple[float, ...]) -> Num:
    size = x.abs().at_most(2000.0)
    half = exp(size * 0.5)  # in two factors, since I overflows later than exp
    far = ((half * horner(8.0 / size - 0.5, large)) / size.sqrt()) * half
    return (size <= 8.0).where(small, far)


def bessel_i0(x: Num) -> Num:
    """The modified Bessel function of order 0."""
    return _modified_bessel(x, horner(x * x * 0.25, I0_SMALL), I0_LARGE)


def bessel_i1(x: Num) -> Num:
    """The modified Bessel function of order 1."""
    small = x.abs() * 0.5 * horner(x * x * 0.25, I1_SMALL)
    return _modified_bessel(x, small, I1_LARGE).copysign(x)
