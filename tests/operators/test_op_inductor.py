"""Inductor emits Triton for the CPU (`cpu_backend = "triton"`): the numbers of eager torch, and of its C++ backend."""

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

import torch.nn.functional as F  # noqa: E402
from torch._inductor import config  # noqa: E402

import omnikernel.inductor  # noqa: E402

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-10, torch.bfloat16: 2e-2, torch.float16: 4e-3}


def f(*shape):
    return torch.randn(*shape)


def numbers(*shape, low=-50, high=50):
    return torch.randint(low, high, shape)


QUICK = {
    "pointwise": lambda: (
        lambda a, b: torch.relu(a + b) * 2 + torch.sin(a) * torch.exp(-b * b),
        f(64, 129),
        f(64, 129),
    ),
    "softmax": lambda: (lambda a: torch.softmax(a, -1), f(64, 129)),
    "sum": lambda: (lambda a: a.sum(0), f(64, 129)),
    "argmax": lambda: (lambda a: a.argmax(1), f(64, 129)),
    "cumsum": lambda: (lambda a: a.cumsum(1), f(64, 129)),
    "index_add": lambda: (
        lambda a, i: torch.zeros(64, 129).index_add(0, i, a),
        f(200, 129),
        numbers(200, low=0, high=64),
    ),
}
SLOW = {
    "sum of all": lambda: (lambda a: a.sum(), f(300, 301)),
    "mean, amax": lambda: (lambda a: a.mean(1) + a.amax(1), f(64, 129)),
    "log_softmax": lambda: (lambda a: torch.log_softmax(a, -1), f(3, 5000)),
    "layer_norm": lambda: (lambda a: F.layer_norm(a, (129,)), f(64, 129)),
    "rms_norm": lambda: (lambda a: F.rms_norm(a, (129,)), f(64, 129)),
    "batch_norm": lambda: (lambda a: F.batch_norm(a, None, None, training=True), f(64, 129)),
    "max": lambda: (lambda a: a.max(1), f(64, 129)),
    "logcumsumexp": lambda: (lambda a: a.logcumsumexp(1), f(64, 129)),
    "sort": lambda: (lambda a: a.sort(1), f(64, 129)),
    "topk": lambda: (lambda a: a.topk(5, 1), f(64, 129)),
    "gather": lambda: (lambda a, i: a[i] * 2, f(64, 129), numbers(200, low=0, high=64)),
    "scatter_add": lambda: (
        lambda i: torch.zeros(64).scatter_add(0, i, torch.ones(200)),
        numbers(200, low=0, high=64),
    ),
    "var": lambda: (lambda a: a.var(1), f(3, 5000)),
    "std_mean": lambda: (torch.std_mean, f(64, 129)),
    "bf16": lambda: (lambda a: torch.softmax(F.gelu(a), -1), f(64, 129).bfloat16()),
    "f64": lambda: (lambda a: torch.exp(a) + torch.erf(a), f(64, 129).double()),
    "fp8": lambda: (lambda a: a.to(torch.float8_e4m3fn).float() + a.to(torch.float8_e5m2).float(), f(64, 129)),
    "f16": lambda: (lambda a: torch.tanh(a.half()) * 2, f(64, 129)),
    "integers": lambda: (lambda i: (i // 7) + (i % 5) * (i << 1) - (i >> 1) & 3, numbers(64, 129)),
    "int8 floor": lambda: (
        lambda i: torch.div(i, 3, rounding_mode="floor"),
        numbers(64, 129).to(torch.int8),
    ),
    "libdevice": lambda: (
        lambda a: (
            torch.atan2(a, a + 2)
            + torch.lgamma(a.abs() + 1)
            + torch.erfinv(a.clamp(-0.9, 0.9))
            + torch.hypot(a, a)
            + torch.nextafter(a, a + 1)
            + torch.special.i0(a)
        ),
        f(64, 129),
    ),
    "transpose": lambda: (lambda a: (a.t() + 1).contiguous(), f(64, 129)),
    "matmul": lambda: (lambda a, b: torch.relu(a @ b), f(64, 129), f(129, 40)),
    "max_pool": lambda: (lambda a: F.max_pool2d(a, 2), f(1, 1, 64, 130)),
    "upsample": lambda: (lambda a: F.interpolate(a, scale_factor=2, mode="bilinear"), f(1, 1, 32, 40)),
    "cross_entropy": lambda: (lambda a: F.cross_entropy(a, torch.arange(64)), f(64, 129)),
    "searchsorted": lambda: (lambda a: torch.searchsorted(torch.arange(10.0), a), f(64, 129)),
    "nan": lambda: (lambda a: torch.nan_to_num(a / 0).nansum(1), f(64, 129)),
}


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    torch.manual_seed(0)


def compiled(function, *args, backend="triton"):
    torch._dynamo.reset()
    with config.patch(cpu_backend=backend, fx_graph_cache=False):
        found = torch.compile(function, fullgraph=True)(*args)
    return found if isinstance(found, tuple) else (found,) if isinstance(found, torch.Tensor) else tuple(found)


def check(case):
    function, *args = case()
    found = compiled(function, *args)
    expected = function(*args)
    for one, other in zip(found, (expected,) if isinstance(expected, torch.Tensor) else expected, strict=True):
        tolerance = TOLERANCE.get(other.dtype, 0)
        torch.testing.assert_close(one, other, atol=tolerance, rtol=tolerance, equal_nan=True)


@pytest.mark.parametrize("name", QUICK)
def test_numbers(name):
    check(QUICK[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_more_numbers(name):
    check(SLOW[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["softmax", "sum", "var", "layer_norm", "cross_entropy"])
def test_the_numbers_of_the_cpp_backend(name):
    function, *args = {**QUICK, **SLOW}[name]()
    for one, other in zip(compiled(function, *args), compiled(function, *args, backend="cpp"), strict=True):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=2e-5)


def test_random_numbers_are_spread_as_they_should():
    """The streams of the two backends differ by torch's own definition; so only the distribution is compared."""
    (found,) = compiled(torch.rand_like, f(200, 500))
    assert found.min() >= 0 and found.max() < 1
    assert abs(found.mean() - 0.5) < 0.01 and abs(found.var() - 1 / 12) < 0.005
    (kept,) = compiled(lambda a: F.dropout(a, 0.25), torch.ones(200, 500))
    assert abs((kept == 0).float().mean() - 0.25) < 0.01 and set(kept.unique().tolist()) <= {0.0, kept.max().item()}


def test_patching_twice_changes_nothing_more():
    first = omnikernel.inductor.patch()
    assert set(first) <= {"CpuDeviceOpOverrides.import_get_raw_stream_as", "CpuInterface.device"}
    assert omnikernel.inductor.patch() == ()


@pytest.mark.slow
def test_matmul_templates_with_max_autotune():
    omnikernel.inductor.patch()
    options = {
        "max_autotune": True,
        "max_autotune_gemm_backends": "TRITON",
        "cpu_backend": "triton",
        "compile_threads": 1,
    }
    with config.patch(fx_graph_cache=False):
        a, b = f(64, 32), f(32, 48)
        found = torch.compile(lambda a, b: torch.relu(a @ b), options=options)(a, b)
    torch.testing.assert_close(found, torch.relu(a @ b), atol=1e-4, rtol=1e-4)
