"""Reading signatures: what is in the subset, and the errors for what is not."""

from __future__ import annotations

import pytest

from omnikernel.cpp.source import Function, SignatureError, functions
from omnikernel.cpp.tokens import tokenize


def read(text: str, kernels: bool = False, explicit: object = None) -> list[Function]:
    return functions(text, "a.cpp", kernels, explicit)  # type: ignore[arg-type]


def test_tokens_skip_comments_and_keep_lines() -> None:
    tokens = tokenize('a /* ( */ b // )\n#define X \\\n 1\n"}" \'{\' R"x(})")x" 1\'000.5e-3f')
    assert [(t.text, t.line) for t in tokens[:2]] == [("a", 1), ("b", 1)]
    assert tokens[2].kind == "directive" and tokens[2].line == 2
    assert [t.kind for t in tokens[3:]] == ["string", "char", "string", "number"]
    assert tokens[3].line == 4


@pytest.mark.parametrize(
    "text, signature",
    [
        ("void f(ok::View<const float, 2> x) {}", "void f(ok::View<const float, 2> x)"),
        ("void f(const ok::View<float,1>& x) {}", "void f(ok::View<float, 1> x)"),
        ("void f(View<ok::f16, 3, ok::Restrict> x) {}", "void f(ok::View<f16, 3, ok::Restrict> x)"),
        ("double f(const double* __restrict__ x, size_t n) {}", "double f(const double *x, size_t n)"),
        ("void f(long unsigned int n, unsigned char c, long long int m) {}", None),
        (
            "using T = float; typedef T scalar;\n#define N 2\nvoid f(ok::View<scalar, N> x) {}",
            "void f(ok::View<float, 2> x)",
        ),
        ("void f(float x[], const bool b) {}", "void f(float *x, bool b)"),
        ("namespace a { namespace b { int f(void) { return 1; } } }", "int f()"),
        ('extern "C" void f(int8_t x) {}', "void f(int8_t x)"),
        ("struct S { void g(std::string) {} };\nstatic void h(S) {}\nvoid f(int x) {}", "void f(int x)"),
    ],
)
def test_functions_that_are_read(text: str, signature: str | None) -> None:
    (found,) = read(text)
    assert signature is None or str(found) == signature
    if signature is None:
        assert [p.type.dtype for p in found.parameters] == ["u64", "u8", "i64"]


def test_kernels_with_attributes() -> None:
    text = """
    __device__ float helper(float x) { return x; }
    template <class T> struct Box { T x; };
    namespace inner {
    extern "C" __global__ void __launch_bounds__(256, 2) k(float* x, const int n) { if (n) { x[0] = helper(1); } }
    }
    __global__ void __attribute__((noinline)) j() {}
    """
    found = read(text, kernels=True)
    assert [(f.name, f.call) for f in found] == [("k", "inner::k"), ("j", "j")]


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "\nvoid f(std::string s) {}",
            "a.cpp:2: 'f', parameter 's': the type 'std::string' is not known; expected ok::View",
        ),
        ("void f(int n = 3) {}", "a.cpp:1: 'f': the parameter 'int n = 3' has a default value"),
        ("void f(int) {}", "a.cpp:1: 'f': the parameter 'int' has no name"),
        ("void f(int &n) {}", "'int &' is a reference to a scalar"),
        ("void f(float **x) {}", "'float * *' is not read"),
        ("void f(ok::View<float, 9> x) {}", "N from 1 to 8, got 'ok::View<float, 9>'"),
        ("void f(ok::View<float> x) {}", "expected ok::View<T, N> or ok::View<T, N, ok::Restrict>"),
        ("float *f(int n) {}", "the result of 'f': expected void or a scalar, got float *"),
        ("void f(int n) {}\nvoid f(float n) {}", "a.cpp:2: a second 'f' with other parameters than the one in line 1"),
        ("void f(void (*g)(int)) {}", "is not read"),
    ],
)
def test_outside_the_subset(text: str, message: str) -> None:
    with pytest.raises(SignatureError) as caught:
        read(text)
    assert message in str(caught.value)


def test_a_template_asks_for_its_arguments() -> None:
    text = "template <typename T> __global__ void k(ok::View<T, 1> x) {}"
    with pytest.raises(SignatureError, match=r"a.cpp:1: 'k' is a template; name what to compile"):
        read(text, kernels=True)
    (found,) = read(text, kernels=True, explicit={"k32": "k<float>(ok::View<float, 1> x)"})
    assert (found.name, found.call, str(found)) == ("k32", "k<float>", "void k32(ok::View<float, 1> x)")


def test_named_functions_only() -> None:
    text = "static int f(int n) { return n; } void g(Odd o) {}"
    (found,) = read(text, explicit=["f"])
    assert str(found) == "int f(int n)"
