"""Kernels whose TTIR makes up the corpus: together they cover every construct that Triton's front end can emit.

`tools/make_corpus.py` compiles each to TTIR with the installed Triton and writes `<version>/<name>.ttir`. A case is
(function, signature, constants, versions): the signature maps runtime parameters to Triton's type names, and
`versions` is a predicate on the release, for what a release does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import triton
import triton.language as tl

try:
    from triton.language.extra.cuda import libdevice
except ImportError:
    from triton.language.extra import libdevice


class Case(NamedTuple):
    kernel: Any
    signature: dict[str, Any]
    constants: dict[str, Any]
    versions: Callable[[tuple[int, int]], bool]
    target: int


CASES: dict[str, Case] = {}


def case(
    signature: str,
    versions: Callable[[tuple[int, int]], bool] = lambda version: True,
    target: int = 80,
    tuples: dict[str, tuple[str, ...]] | None = None,
    **constants: Any,
) -> Callable[[Any], Any]:
    """Registers a jitted kernel; `signature` reads "a:*fp32 n:i32"."""

    def register(kernel: Any) -> Any:
        types: dict[str, Any] = dict(item.split(":") for item in signature.split())
        types |= tuples or {}
        types |= dict.fromkeys(constants, "constexpr")
        CASES[kernel.fn.__name__] = Case(kernel, types, constants, versions, target)
        return kernel

    return register


def before_3_8(version: tuple[int, int]) -> bool:
    return version < (3, 8)


def from_3_9(version: tuple[int, int]) -> bool:
    return version >= (3, 9)


# --- the everyday ones -------------------------------------------------------------------------------------------


@case("x:*fp32 y:*fp32 out:*fp32 n:i32", BLOCK=1024)
@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask, other=0.0), mask=mask)


@case("a:*fp32 out:*fp32 cols:i32 stride:i64", C=128)
@triton.jit
def softmax(a, out, cols, stride, C: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, C)
    x = tl.load(a + row * stride + c, mask=c < cols, other=-float("inf"))
    z = tl.exp(x - tl.max(x, 0))
    tl.store(out + row * stride + c, z / tl.sum(z, 0), mask=c < cols)


@case("x:*bf16 w:*fp32 b:*fp32 y:*bf16 mean:*fp32 rstd:*fp32 n:i32 eps:fp32", BLOCK=256)
@triton.jit
def layer_norm(x, w, b, y, mean, rstd, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * n
    y += row * n
    acc = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        c = start + tl.arange(0, BLOCK)
        acc += tl.load(x + c, mask=c < n, other=0.0).to(tl.float32)
    mu = tl.sum(acc, 0) / n
    var = tl.zeros([BLOCK], tl.float32)
    for start in tl.range(0, n, BLOCK, num_stages=2):
        c = start + tl.arange(0, BLOCK)
        d = tl.where(c < n, tl.load(x + c, mask=c < n, other=0.0).to(tl.float32) - mu, 0.0)
        var += d * d
    scale = 1 / tl.sqrt(tl.sum(var, 0) / n + eps)
    tl.store(mean + row, mu)
    tl.store(rstd + row, scale)
    for start in range(0, n, BLOCK):
        c = start + tl.arange(0, BLOCK)
        d = (tl.load(x + c, mask=c < n, other=0.0).to(tl.float32) - mu) * scale
        tl.store(y + c, (d * tl.load(w + c, mask=c < n) + tl.load(b + c, mask=c < n)).to(tl.bfloat16), mask=c < n)


@case("a:*fp16 b:*fp16 out:*fp16 M:i32 N:i32 K:i32 sa:i32 sb:i32", BM=64, BN=64, BK=32, GROUP=8)
@triton.jit
def matmul(a, b, out, M, N, K, sa, sb, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    rows = tl.cdiv(M, BM)
    cols = tl.cdiv(N, BN)
    group = pid // (GROUP * cols)
    first = group * GROUP
    size = min(rows - first, GROUP)
    m = (first + pid % size) * BM + tl.arange(0, BM)
    n = ((pid % (GROUP * cols)) // size) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    ap = a + m[:, None] * sa + tl.arange(0, BK)[None, :]
    bp = b + n[None, :] + tl.arange(0, BK)[:, None] * sb
    for start in range(0, tl.cdiv(K, BK)):
        x = tl.load(ap, mask=tl.arange(0, BK)[None, :] < K - start * BK, other=0.0)
        y = tl.load(bp, mask=tl.arange(0, BK)[:, None] < K - start * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        ap += BK
        bp += BK * sb
    acc = tl.where(acc >= 0, acc, 0.01 * acc)
    tl.store(out + m[:, None] * N + n[None, :], acc.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))


@case("q:*fp32 k:*fp32 v:*fp32 out:*fp32 S:i32 scale:fp32", BM=64, BN=32, D=64)
@triton.jit
def attention(q, k, v, out, S, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    start = tl.program_id(0)
    head = tl.program_id(1).to(tl.int64)
    m = start * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    x = tl.load(q + head * S * D + m[:, None] * D + d[None, :])
    top = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for at in range(0, (start + 1) * BM, BN):
        low = tl.multiple_of(at, BN)
        n = low + tl.arange(0, BN)
        kt = tl.load(k + head * S * D + n[None, :] * D + d[:, None])
        s = tl.dot(x, kt, input_precision="ieee") * scale
        s = tl.where(m[:, None] >= n[None, :], s, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.math.exp2(s - new[:, None])
        alpha = tl.math.exp2(top - new)
        total = total * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc = tl.dot(p, tl.load(v + head * S * D + n[:, None] * D + d[None, :]), acc, input_precision="tf32x3")
        top = new
    tl.store(out + head * S * D + m[:, None] * D + d[None, :], acc / total[:, None])


# --- control -----------------------------------------------------------------------------------------------------


@case("a:*fp32 o:*i32 n:i32", N=128)
@triton.jit
def early_return(a, o, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(a + i)
    if n > 3:
        tl.store(o, n)
        return
    while tl.atomic_cas(o, 0, 1) == 1:
        pass
    k = tl.argmax(x, 0)
    tl.debug_barrier()
    tl.atomic_xchg(o, 0)
    if k == 7:
        return
    tl.store(o + i, k)


@case("a:*fp32 n:i32 flag:i1", N=16)
@triton.jit
def branches(a, n, flag, N: tl.constexpr):
    i = tl.arange(0, N)
    if n > 10:
        x = tl.load(a + i) * 2.0
        y = n + 1
    elif n > 5:
        x = tl.zeros([N], tl.float32)
        y = n
    else:
        x = tl.full([N], 3.5, tl.float32)
        y = 0
    if flag:
        tl.store(a + i, x + y)
    z = x if n == 4 else x + 1.0
    tl.store(a + i, z)


@case("a:*i32 n:i32 m:i64", N=16)
@triton.jit
def loops(a, n, m, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.zeros([N], tl.int32)
    s = 0
    k = n
    while k > 0:
        x += tl.load(a + i)
        k -= 1
        if k % 3 == 0:
            s += k
    j = 0
    while (j < n) & (s < 100):
        s += j
        j += 1
    for b in range(n, 0, -2):
        s += b
    for b in range(0, m):
        for c in tl.static_range(2):
            x += b.to(tl.int32) + c
    for b in tl.range(0, n, 1, loop_unroll_factor=2, disallow_acc_multi_buffer=True, flatten=True):
        p = a + b
        tl.store(p, s)
    for _ in range(3):
        tl.store(a + i, x)
        a += N


@case("a:*u32 n:u32", N=16)
@triton.jit
def unsigned_loop(a, n, N: tl.constexpr):
    i = tl.arange(0, N)
    lower = n - n
    x = tl.load(a + i)
    for k in range(lower, n):
        x = (x + k) // 3 % 7 >> 1
    tl.store(a + i, tl.where(x > n, x, tl.umulhi(x, x)))


@triton.jit(noinline=True)
def helper_two(x, y):
    if tl.program_id(0) > 3:
        return x + y, y
    return x, x * y


@triton.jit(noinline=True)
def helper_tile(x, p):
    i = tl.arange(0, 16)
    tl.store(p + i, i * x)
    return tl.sum(tl.load(p + i), 0)


@case("a:*fp32 n:i32")
@triton.jit
def calls(a, n):
    i = tl.arange(0, 16)
    x = tl.load(a + i)
    u, v = helper_two(n, n + 1)
    s = helper_tile(u * 1.5, a + v)
    s += helper_tile(s, a) + tl.sum(x, 0)
    tl.store(a, s)


@triton.jit
def swap(pair):
    return (pair[1], pair[0])


@case("out:*fp32 n:i32", tuples={"pair": ("*fp32", "*i32"), "nested": (("i32", "fp32"), "*fp16")})
@triton.jit
def tuples(pair, nested, out, n):
    p, q = swap(pair)
    scalars, third = nested
    x = tl.load(p) + tl.load(q) + tl.load(third) + scalars[0] * scalars[1]
    tl.store(out + n, x)


# --- elementwise -------------------------------------------------------------------------------------------------


@case("a:*i32 b:*i32 o:*i32 p:*u32 q:*i64", N=32)
@triton.jit
def integers(a, b, o, p, q, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(a + i)
    y = tl.load(b + i)
    u = tl.load(p + i)
    w = tl.load(q + i)
    r = x + y - x * y
    r = r // y + r % y
    r = (r & x) | (r ^ y)
    r = (r << 3) >> 1
    r = tl.maximum(r, x)
    r = tl.minimum(r, ~y)
    r = tl.where((r < x) & (r <= y) | (r == 3), r, -r)
    u = u // 3 + u % 5
    u = tl.maximum(tl.minimum(u, 9), 2)
    u = tl.where((u < 4) | (u >= 8), u >> 2, u)
    w = tl.abs(w) + x.to(tl.int64) + u.to(tl.int64) + (w != 0).to(tl.int64)
    tl.store(q + i, w)
    tl.store(p + i, tl.umulhi(u, u))
    tl.store(o + i, r + w.to(tl.int32) + (x.to(tl.int8)).to(tl.int16).to(tl.int32))
    tl.store(o + i, tl.cdiv(x, 4), mask=x > 0)
    tl.static_assert(N == 32)


@case("a:*fp32 o:*fp32 d:*fp64 h:*fp16 b:*bf16", N=32)
@triton.jit
def floats(a, o, d, h, b, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(a + i)
    y = tl.load(o + i)
    r = x + y - x * y / (x + 1.5)
    r = tl.exp(r) + tl.exp2(r) + tl.log(r) + tl.log2(r) + tl.sin(r) + tl.cos(r) + tl.sqrt(r) + tl.rsqrt(r)
    r = tl.erf(r) + tl.floor(r) + tl.ceil(r) + tl.abs(r) + tl.fma(r, x, y) + tl.sigmoid(r)
    r = tl.sqrt_rn(r) + tl.div_rn(x, y) + x % y + tl.fdiv(x, y)
    r = tl.clamp(r, x, y) + tl.clamp(r, x, y, propagate_nan=tl.PropagateNan.ALL)
    r = tl.maximum(r, x) + tl.minimum(r, x, propagate_nan=tl.PropagateNan.ALL)
    r = tl.where((r < x) | (r != y) & (r >= 0.0) & (x == y), r, -r)
    tl.store(o + i, r)
    tl.store(d + i, tl.load(d + i) * 0.1 + r.to(tl.float64))
    tl.store(h + i, tl.load(h + i) * 0.1 + r.to(tl.float16))
    tl.store(b + i, tl.load(b + i) * 0.1 + r.to(tl.bfloat16))
    tl.store(a + i, r.to(tl.int32).to(tl.float32) + r.to(tl.uint8).to(tl.float32) + r.to(tl.int32, bitcast=True))


@case("a:*fp32 e5:*fp8e5 e4:*fp8e4nv h:*fp16", target=90, N=32)
@triton.jit
def fp8(a, e5, e4, h, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(a + i)
    tl.store(e5 + i, x.to(tl.float8e5))
    tl.store(e4 + i, x.to(tl.float8e4nv))
    tl.store(h + i, tl.load(e5 + i).to(tl.float16))
    tl.store(a + i, tl.load(e4 + i).to(tl.float32))
    tl.store(h + i, x.to(tl.float16, fp_downcast_rounding="rtz"))
    tl.store(e5 + i, x.to(tl.float16).to(tl.float8e5, fp_downcast_rounding="rtne"))
    tl.store(e5 + i, tl.full([N], 1.5, tl.float32).to(tl.float8e5))
    tl.store(h + i.to(tl.int64), x.to(tl.bfloat16, fp_downcast_rounding="rtz").to(tl.float16))


@case("a:*fp32 b:*i1 h:*fp16 d:*fp64 bf:*bf16 i8:*i8 u16:*u16 i64:*i64", N=8)
@triton.jit
def constants(a, b, h, d, bf, i8, u16, i64, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(a, float("inf"))
    tl.store(a + 1, float("nan"))
    tl.store(a + 2, -0.0)
    tl.store(a + 3, 3.4028234663852886e38)
    tl.store(a + 4, 1e-45)
    tl.store(h, 65504.0)
    tl.store(h + i, tl.full([N], float("nan"), tl.float16))
    tl.store(h + i, tl.full([N], 6e-8, tl.float16))
    tl.store(d + i, tl.full([N], 0.1, tl.float64))
    tl.store(d + i, tl.full([N], 1e-320, tl.float64))
    tl.store(bf + i, tl.full([N], -0.0, tl.bfloat16))
    tl.store(bf + i, tl.full([N], 3.140625, tl.bfloat16))
    tl.store(b + i, tl.full([N], True, tl.int1))
    tl.store(b, False)
    tl.store(i8 + i, tl.full([N], -128, tl.int8))
    tl.store(u16 + i, tl.full([N], 65535, tl.uint16))
    tl.store(i64 + i, tl.full([N], -9223372036854775808, tl.int64))
    tl.store(i64 + 1, 9223372036854775807)


@case("a:*fp32 o:*fp32 h:*fp16", N=32)
@triton.jit
def external(a, o, h, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(a + i)
    y = libdevice.tanh(x) + libdevice.pow(x, x) + libdevice.rint(x) + libdevice.log1p(tl.load(o))
    tl.store(o + i, y)
    z = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(o + i, z)
    u, v = tl.inline_asm_elementwise(
        'add.u32 $0, $2, $2;\n\tsub.u32 $1, $2, 1; // "both"', "=r,=r,r", [i], (tl.int32, tl.int32), False, 1
    )
    tl.store(o + u + v, x)


@case("a:*fp32 seed:i32", N=32)
@triton.jit
def random(a, seed, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(a + i, tl.rand(seed, i) + tl.randn(seed, i))
    x, y, z, w = tl.randint4x(seed, i)
    tl.store(a + i, x + y + z + w)


# --- shapes ------------------------------------------------------------------------------------------------------


@case("a:*fp32 o:*fp32 k:*i32 s:i32", N=16)
@triton.jit
def shapes(a, o, k, s, N: tl.constexpr):
    i = tl.arange(0, N)
    ij = i[:, None] * N + i[None, :]
    x = tl.load(a + ij)
    t = tl.trans(x)
    t = tl.permute(tl.reshape(t, (4, 4, N)), (2, 0, 1))
    t = tl.reshape(t, (N, N), can_reorder=True)
    j = tl.join(x, t)
    left, r = tl.split(j)
    f = tl.ravel(left) + tl.reshape(tl.interleave(x, x), (2 * N * N,)).reshape(2, N * N).sum(0)
    tl.store(o + tl.arange(0, N * N), f)
    c = tl.cat(i, i, can_reorder=True)
    tl.store(o + c, 1.0)
    g = tl.gather(x, ij % N, 0) + tl.gather(x, ij % N, axis=1)
    tl.store(o + ij, tl.flip(g, 0) + r)
    v = tl.load(k + i)
    tl.store(k + i, tl.histogram(v, N))
    tl.store(k + i, tl.histogram(v, N, mask=v > 3))
    one = tl.full([1], s, tl.int32)
    tl.store(k + tl.sum(one, 0), tl.broadcast_to(one, (1,)).reshape(()) if N == 1 else s)
    tl.store(o + ij[None, :, :, None], tl.expand_dims(x, (0, 3)))


@triton.jit
def scalar_map(x, y):
    if x > y:
        return x - y, x
    return y - x, y


@case("a:*i32 b:*i32", versions=lambda version: version >= (3, 6), N=32)
@triton.jit
def map_elementwise(a, b, N: tl.constexpr):
    i = tl.arange(0, N)
    u, v = tl.map_elementwise(scalar_map, tl.load(a + i), tl.load(b + i))
    tl.store(a + i, u + v)


# --- reductions --------------------------------------------------------------------------------------------------


@triton.jit
def combine_mean(m, s, c, n, t, d):
    return m + n, s + t * 2.0, tl.maximum(c, d)


@triton.jit
def combine_if(x, y):
    if x > y:
        x += 1
    return x


@triton.jit
def combine_affine(a, b, c, d):
    return a * c, b * c + d


@case("a:*fp32 o:*fp32 k:*i32", N=16)
@triton.jit
def reductions(a, o, k, N: tl.constexpr):
    i = tl.arange(0, N)
    ij = i[:, None] * N + i[None, :]
    x = tl.load(a + ij)
    w = tl.load(k + ij)
    m, s, c = tl.reduce((x, x * 2.0, w), 1, combine_mean)
    tl.store(o + i, m + s + c)
    tl.store(o + i, tl.max(x, 0) + tl.min(x, 1) + tl.sum(x, 0))
    v, at = tl.max(x, 1, return_indices=True)
    tl.store(o + at, v)
    tl.store(k + i, tl.argmin(x, 0, tie_break_left=False) + tl.xor_sum(w, 1) + tl.reduce_or(w, 0))
    tl.store(k, tl.reduce(tl.load(k + i), 0, combine_if))
    tl.store(o, tl.sum(x) + tl.max(x))
    tl.store(k + i[:, None], tl.sum(w, 1, keep_dims=True))


@case("a:*fp32 o:*fp32 k:*i32", N=8)
@triton.jit
def scans(a, o, k, N: tl.constexpr):
    i = tl.arange(0, N)
    ij = i[:, None] * N + i[None, :]
    x = tl.load(a + ij)
    tl.store(o + ij, tl.cumsum(x, 1, reverse=True) + tl.cumprod(x, 0))
    p, q = tl.associative_scan((x, x), 0, combine_affine)
    tl.store(o + ij, p + q)
    v = tl.load(k + i)
    tl.store(k + i, tl.sort(v) + tl.sort(v, descending=True) + tl.associative_scan(v, 0, combine_if))


@case("x:*fp32 o:*fp32", N=16)
@triton.jit
def top(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + tl.arange(0, 4), tl.topk(tl.load(x + i), 4))


# --- memory ------------------------------------------------------------------------------------------------------


@case("a:*fp32 n:i32", N=16)
@triton.jit
def hints(a, n, N: tl.constexpr):
    i = tl.max_contiguous(tl.multiple_of(tl.arange(0, N) + n, 8), 8)
    x = tl.load(a + i, cache_modifier=".ca", eviction_policy="evict_first")
    x += tl.load(a + i, mask=i < n, other=1.0, eviction_policy="evict_last", volatile=True)
    x += tl.load(a + i, mask=i < n, cache_modifier=".cg")
    tl.assume(n > 3)
    tl.store(a + i, x, cache_modifier=".cs", eviction_policy="evict_first")
    tl.store(a + i, x, mask=i < n, cache_modifier=".wb")


@case("k:*i32 f:*fp32 u:*u32 h:*fp16 w:*i64 n:i32", N=16)
@triton.jit
def atomics(k, f, u, h, w, n, N: tl.constexpr):
    i = tl.arange(0, N)
    m = i < n
    x = tl.atomic_add(k + i, 1, mask=m)
    x += tl.atomic_and(k + i, x, sem="relaxed")
    x += tl.atomic_or(k + i, x, sem="acquire", scope="cta")
    x += tl.atomic_xor(k + i, x, sem="release", scope="sys")
    x += tl.atomic_max(k + i, x, mask=m)
    x += tl.atomic_min(k + i, x)
    tl.atomic_xchg(k + i, x)
    y = tl.atomic_add(f + i, 1.5, mask=m)
    y += tl.atomic_max(f + i, y)
    y += tl.atomic_min(f + i, y, mask=m)
    y += tl.atomic_xchg(f, 2.0)
    tl.atomic_max(u + i, tl.load(u + i))
    tl.atomic_min(u + i, tl.load(u + i))
    tl.atomic_add(h + i, y.to(tl.float16))
    tl.atomic_cas(w + i, i.to(tl.int64), x.to(tl.int64))
    tl.atomic_cas(k, n, n + 1, sem="acquire", scope="sys")
    tl.store(k + tl.atomic_add(k, 1), 3)


@case("a:*fp32 p:i64 q:*i64", N=16)
@triton.jit
def pointers(a, p, q, N: tl.constexpr):
    i = tl.arange(0, N)
    b = p.to(tl.pointer_type(tl.float32))
    tl.store(b + i, tl.load(a + i))
    rows = tl.load(q + i).to(tl.pointer_type(tl.float16))
    tl.store(rows, tl.load(a + i).to(tl.float16))
    tl.store(q + i, (a + i).to(tl.int64))
    h = a.to(tl.pointer_type(tl.int32), bitcast=True)
    tl.store(h + i, i)
    at = a + tl.full([N], 1, tl.int32)
    for _ in range(4):
        tl.store(at, 1.0)
        at += i


@case("a:*fp32 out:*fp32 rows:i32 cols:i32", versions=before_3_8, R=16, C=16)
@triton.jit
def block_pointers(a, out, rows, cols, R: tl.constexpr, C: tl.constexpr):
    at = (tl.program_id(0) * R, 0)
    source = tl.make_block_ptr(a, (rows, cols), (cols, 1), at, (R, C), (1, 0))
    target = tl.make_block_ptr(out, (rows, cols), (cols, 1), at, (R, C), (1, 0))
    for _ in range(2):
        x = tl.load(source, boundary_check=(0, 1), padding_option="nan")
        x += tl.load(source, boundary_check=(1,), padding_option="zero")
        x += tl.load(source, boundary_check=(0,)) + tl.load(source, eviction_policy="evict_first")
        source = tl.advance(source, (0, C))
        tl.store(target, x, boundary_check=(0, 1))
        target = target.advance((0, C))


@case("a:*fp32 out:*fp32 k:*i32 rows:i32 cols:i32", target=90, R=16, C=16)
@triton.jit
def descriptors(a, out, k, rows, cols, R: tl.constexpr, C: tl.constexpr):
    d = tl.make_tensor_descriptor(a, [rows, cols], [cols, 1], [R, C])
    e = tl.make_tensor_descriptor(out, [rows, cols], [cols, 1], [R, C], padding_option="nan")
    for i in range(0, rows, R):
        x = d.load([i, 0])
        e.store([i, 4], x + e.load([i, 5]))
    e.atomic_add([0, 0], d.load([0, 0]))
    e.atomic_max([0, 0], d.load([0, 0])) if C == 1 else None
    f = tl.make_tensor_descriptor(a, [rows, cols], [cols, 1], [1, C])
    at = tl.load(k + tl.arange(0, 32))
    f.scatter(f.gather(at, 8) * 2.0, at, 16)


@case("d:tensordesc<fp32[16,16]> out:*fp32", target=90)
@triton.jit
def host_descriptor(d, out):
    i = tl.arange(0, 16)
    tl.store(out + i[:, None] * 16 + i[None, :], d.load([0, 8]))


# --- products ----------------------------------------------------------------------------------------------------


@case("a:*fp16 b:*fp16 c:*fp32 k:*i8 o:*i32", N=32)
@triton.jit
def dots(a, b, c, k, o, N: tl.constexpr):
    i = tl.arange(0, N)
    ij = i[:, None] * N + i[None, :]
    x = tl.load(a + ij)
    y = tl.load(b + ij)
    z = tl.dot(x, y, out_dtype=tl.float16)
    w = tl.load(c + ij)
    acc = tl.dot(w, w, allow_tf32=False)
    acc = tl.dot(w, w, acc, input_precision="tf32")
    acc += tl.dot(x.to(tl.bfloat16), tl.trans(y).to(tl.bfloat16))
    tl.store(c + ij, acc + z)
    tl.store(o + ij, tl.dot(tl.load(k + ij), tl.load(k + ij).trans(1, 0)))
    tl.store(o + ij, tl.dot(tl.load(k + ij), tl.load(k + ij), tl.load(o + ij), out_dtype=tl.int32))
    p = tl.arange(0, 2)[:, None, None] * N * N + ij[None, :, :]
    tl.store(c + p, tl.dot(tl.load(a + p), tl.load(b + p)))


@case("a:*fp8e5 b:*fp8e4nv c:*fp32", target=90, N=32)
@triton.jit
def dot_fp8(a, b, c, N: tl.constexpr):
    i = tl.arange(0, N)
    ij = i[:, None] * N + i[None, :]
    x = tl.load(a + ij)
    acc = tl.dot(x, x, max_num_imprecise_acc=16)
    tl.store(c + ij, acc + tl.dot(tl.load(b + ij), tl.load(b + ij)))


@case("a:*u8 b:*u8 sa:*u8 sb:*u8 h:*bf16 o:*fp32", target=100, M=128, K=64)
@triton.jit
def dot_scaled(a, b, sa, sb, h, o, M: tl.constexpr, K: tl.constexpr):
    m = tl.arange(0, M)
    k = tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * M + m[None, :])
    u = tl.load(sa + m[:, None] * 2 + tl.arange(0, 2)[None, :])
    v = tl.load(sb + m[:, None] * 2 + tl.arange(0, 2)[None, :])
    acc = tl.dot_scaled(x, u, "e4m3", y, v, "e5m2")
    acc = tl.dot_scaled(x, u, "e5m2", y, None, "e4m3", acc)
    half = tl.arange(0, K // 2)
    p = tl.load(a + m[:, None] * K + half[None, :])
    q = tl.load(b + half[:, None] * M + m[None, :])
    acc = tl.dot_scaled(p, u, "e2m1", q, v, "e2m1", acc)
    z = tl.load(h + k[:, None] * M + m[None, :])
    acc = tl.dot_scaled(p, u, "e2m1", z, None, "bf16", acc, fast_math=True)
    tl.store(o + m[:, None] * M + m[None, :], acc)


# --- debugging ---------------------------------------------------------------------------------------------------


@case("a:*i32 f:*fp32 n:i32", N=16)
@triton.jit(debug=True)
def debugging(a, f, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(a + i)
    tl.device_print('values "here"', x, n, tl.load(f + i), x.to(tl.uint32), hex=True)
    tl.device_print("only text")
    tl.device_assert(x > 3, "x must be > 3")
    tl.device_assert(n > 3, 'n: \\ and "quotes"\n', mask=None)
    tl.device_assert(x < 9, "masked", mask=i < n)
    tl.store(a + i, x + tl.num_programs(0) + tl.num_programs(1) + tl.program_id(2))


# --- 3.9 ---------------------------------------------------------------------------------------------------------


@case("a:*i32 n:i32", versions=from_3_9, target=90, N=16)
@triton.jit
def newer(a, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.atomic_load(a + i, sem="acquire", scope="gpu")
    x += tl.atomic_load(a + i, mask=i < n)
    tl.atomic_store(a + i, x, mask=i < n, sem="release")
    y = tl.atomic_poll(a, 3)
    tl.atomic_poll(a, n, timeout_ns=1000)
    tl.store(a + i, x + y, cache_modifier=".cg")
    tl.store(a + i, tl.expect_zero(x, i < n))
    tl.extra.cuda.gdc_wait()
    tl.extra.cuda.gdc_launch_dependents()
