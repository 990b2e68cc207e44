"""Steps of a random kernel that multiply matrices: of every type, batched, and micro-scaled."""

from __future__ import annotations

from program_drawer import FLOATS, Val
from program_steps import Steps

PAIRS = (
    ("f32", "f32"),
    ("f16", "f32"),
    ("bf16", "f32"),
    ("f16", "f16"),
    ("i8", "i32"),
    ("f64", "f64"),
    ("f8E5M2", "f32"),
    ("f8E4M3FN", "f32"),
)
SCALED = {"e4m3": "f8E4M3FN", "e5m2": "f8E5M2", "e2m1": "i8", "bf16": "bf16", "fp16": "f16"}


class Products(Steps):
    """Each method named by a step draws it and puts its results into the pool."""

    def dot(self) -> None:
        m, k, n = (1 << self.number(0, 5) for _ in range(3))
        operand, accumulator = self.choice(PAIRS)
        batch = (1 << self.number(0, 2),) if self.chance(0.2) else ()
        left, right, out = (*batch, m, k), (*batch, k, n), (*batch, m, n)
        if operand in FLOATS and self.chance(0.5):
            a = self.coerce(self.any_value(FLOATS), operand, left)
        else:
            a = self.load_tile(operand, left)
        b = self.load_tile(operand, right)
        c = (
            self.coerce(self.any_value(), accumulator, out)
            if self.chance(0.5)
            else self.w.constant(0, accumulator, out)
        )
        precision = (
            "" if accumulator in ("i32", "f64") else f", inputPrecision = {self.choice(['ieee', 'ieee', 'tf32'])}"
        )
        text = f"tt.dot {a.name}, {b.name}, {c.name}{precision} : {a.type} * {b.type} -> {c.type}"
        self.pool.append(self.w.op(c.kind, c.shape, text))

    def scaled_dot(self) -> None:
        """Operands in narrow formats, with a scale byte for every block of k, or without."""
        m, n, blocks = 1 << self.number(0, 5), 1 << self.number(0, 5), self.choice([1, 1, 2, 4])
        left, right = self.choice(list(SCALED)), self.choice(list(SCALED))
        k = 32 * blocks
        a = self.load_tile(SCALED[left], (m, k // 2 if left == "e2m1" else k))
        b = self.load_tile(SCALED[right], (k // 2 if right == "e2m1" else k, n))
        scales = [self.scale(left, (m, blocks)), self.scale(right, (n, blocks))]
        c = self.w.constant(0, "f32", (m, n)) if self.chance(0.5) else self.coerce(self.any_value(), "f32", (m, n))
        sides = [(a, scales[0]), (b, scales[1])]
        names = ", ".join(v.name if s is None else f"{v.name} scale {s.name}" for v, s in sides)
        types = " * ".join(v.type if s is None else f"{v.type}, {s.type}" for v, s in sides)
        fast = self.choice(["false", "true"])
        text = f"tt.dot_scaled {names}, {c.name} lhs = {left} rhs = {right} {{fastMath = {fast}}} : {types} -> {c.type}"
        self.pool.append(self.w.op("f32", (m, n), text))

    def scale(self, element: str, shape: tuple[int, int]) -> Val | None:
        if element in ("bf16", "fp16") or self.chance(0.3):
            return None
        return self.load_tile("i8", shape)
