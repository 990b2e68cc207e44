"""Steps of a random kernel that call functions: of the math dialect, of libdevice, and roundings that are asked for.

`compiled_functions` says what those that are not exactly rounded mean to the reference.
"""

from __future__ import annotations

from program_drawer import FLOATS, Val, type_text
from program_steps import Steps

MATH = ("exp", "exp2", "log", "log2", "sin", "cos", "rsqrt", "erf")
# By the number of operands: libdevice's names without prefix and suffix.
LIBRARY = {
    1: (
        *("exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinpi", "cospi"),
        *("sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "erf", "erfc"),
        *("sqrt", "rsqrt", "cbrt", "rcbrt", "tgamma"),
        *("floor", "ceil", "trunc", "rint", "round", "fabs", "logb"),
    ),
    2: ("pow", "atan2", "hypot", "fmod", "remainder", "fdim", "fmax", "fmin", "copysign", "nextafter"),
    3: ("fma", "norm3d"),
}
DIRECTED = ("add", "sub", "mul", "div")


class Functions(Steps):
    """Each method named by a step draws it and puts its results into the pool."""

    def function(self) -> None:
        a = self.any_value(FLOATS)
        self.pool.append(self.w.unary(f"math.{self.choice(MATH)}", a))

    def library_function(self) -> None:
        """A function of libdevice, on f32 or f64."""
        kind = self.choice(["f32", "f32", "f64"])
        first = self.any_value(FLOATS)
        count = self.choice([1, 1, 1, 2, 2, 3])
        operands = [self.convert(first, kind)]
        operands += [self.coerce(self.any_value(FLOATS), kind, first.shape) for _ in range(count - 1)]
        symbol = f"__nv_{self.choice(LIBRARY[count])}{'f' if kind == 'f32' else ''}"
        if count == 2 and self.chance(0.3):
            symbol = (
                f"__nv_{'f' if kind == 'f32' else 'd'}{self.choice(DIRECTED)}_{self.choice(['rd', 'ru', 'rz', 'rn'])}"
            )
        if "copysign" in symbol:
            operands[1] = self.ordered(operands[1])
        self.extern(symbol, operands)

    def extern(self, symbol: str, operands: list[Val]) -> None:
        names, first = ", ".join(v.name for v in operands), operands[0]
        attributes = f'{{libname = "", libpath = "", pure = true, symbol = "{symbol}"}}'
        types = ", ".join(v.type for v in operands)
        text = f"tt.extern_elementwise {names} {attributes} : ({types}) -> {first.type}"
        self.pool.append(self.w.op(first.kind, first.shape, text))

    def precise(self) -> None:
        """Quotients, roots and remainders that are exact."""
        how = self.choice(["sqrt", "div", "rem"])
        a = self.any_value(FLOATS)
        if how == "rem":
            b = self.coerce(self.any_value(FLOATS), a.kind, a.shape)
            self.pool.append(self.w.binary("arith.remf", a, b))
            return
        a = self.convert(a, "f32")
        if how == "sqrt":
            self.pool.append(self.w.unary("tt.precise_sqrt", a))
            return
        b = self.coerce(self.any_value(FLOATS), "f32", a.shape)
        self.pool.append(self.w.binary("tt.precise_divf", a, b))

    def rounding(self) -> None:
        """A narrowing that says how it rounds."""
        kind = self.choice(["f16", "bf16", "f8E5M2", "f8E4M3FN"])
        a = self.convert(self.any_value(FLOATS), "f32")
        mode = self.choice(["rtne", "rtz"]) if kind in FLOATS else "rtne"
        text = f"tt.fp_to_fp {a.name}, rounding = {mode} : {a.type} -> {type_text(kind, a.shape)}"
        self.pool.append(self.w.op(kind, a.shape, text))
