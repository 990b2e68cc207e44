"""CUDA source for the CPU: what it may not use, which kernels need fibers, and the text that the host's compiler reads.

In: CUDA C++. Out: C++ with the same lines, to be compiled after omnikernel_cuda_cpu.h. Kernels get threadIdx and the like
as parameters, dynamic shared memory becomes a reference to the thread's. What the CPU does not have is an error here, with
its line, and not a guess at run time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import OmnikernelError
from .source import Definition, definitions
from .strides import PARAMETERS, step_of_loop
from .tokens import Token, matching, tokenize


class UnsupportedCuda(OmnikernelError):
    """The source uses something of CUDA that is not emulated on the CPU."""


HIDDEN = "const uint3 threadIdx, const uint3 blockIdx, const uint3 blockDim, const uint3 gridDim"
_BUILTINS = {"threadIdx", "blockIdx", "blockDim", "gridDim", "assert"}
_SYNCHRONISES = re.compile(
    r"__syncthreads\w*|__syncwarp|__activemask|__shfl\w*|__ballot\w*|__any_sync|__all_sync|__match_\w+|__reduce_\w+|"
    r"cooperative_groups|this_thread_block|tiled_partition|thread_block\w*|coalesced_\w+"
)
_UNSUPPORTED = (
    (re.compile(r"asm|__asm__|__asm"), "inline PTX"),
    (re.compile(r"tex[123]D\w*|texCubemap\w*|tex2Dgather|cudaTextureObject_t|texture"), "textures"),
    (re.compile(r"surf[123]D\w+|cudaSurfaceObject_t|surface"), "surfaces"),
    (re.compile(r"nvcuda|wmma|mma_sync|load_matrix_sync|store_matrix_sync|__ldmatrix\w*"), "tensor-core intrinsics"),
    (re.compile(r"this_grid|grid_group|this_multi_grid|multi_grid_group"), "cooperative groups of a grid"),
    (re.compile(r"this_cluster|cluster_group|__cluster_\w+|clusterIdx|clusterDim"), "thread block clusters"),
    (re.compile(r"memcpy_async|__pipeline_\w+|cuda_pipeline"), "asynchronous copies"),
    (re.compile(r"__managed__"), "managed variables"),
    (re.compile(r"cuda[A-Z]\w*"), "the CUDA runtime's functions"),
    (re.compile(r"curand\w*"), "cuRAND"),
    (re.compile(r"<<<"), "a launch from C++ (<<<...>>>)"),
)
_ADVICE = {
    "a launch from C++ (<<<...>>>)": "launch the kernel from Python: mod.kernel[grid, block](...)",
    "the CUDA runtime's functions": "allocate and launch from Python",
}
_HEADERS = re.compile(r"\s*#\s*include\s*[<\"]((?:torch|ATen|c10|pybind11|thrust|cub|cuda/|cute|cutlass)[^>\"]*)[>\"]")


@dataclass(frozen=True, slots=True)
class Emulated:
    """A source as it is compiled. `fibers`: the kernels whose threads switch; `outside`: functions see threadIdx too."""

    text: str
    fibers: frozenset[str]
    outside: bool
    independent: bool  # no array in a thread's own memory, so iterations share nothing but what threads share
    strided: frozenset[str] = frozenset()  # the kernels that can run one step of their loop over the grid


def emulate(text: str, file: str) -> Emulated:
    """Rewrite CUDA source for the host's compiler.

    Args:
        text: the source.
        file: its name, for errors.

    Raises:
        UnsupportedCuda: it uses what is not emulated.
    """
    text = without_instantiations(text)
    tokens = tokenize(text)
    _refuse(tokens, file)
    kernels = [d for d in definitions(tokens) if d.is_kernel]
    fibers = _fibers(tokens, kernels)
    steps = {} if _includes_unknown(tokens) else _steps(tokens, [d for d in kernels if d.name not in fibers])
    edits = [
        *_parameters(tokens, frozenset(d.name for d in steps)),
        *_specifiers(tokens),
        *_shared(tokens, file),
        *_words(tokens),
    ]
    edits += _positions(tokens, kernels)
    edits += [(tokens[d.body].end, tokens[d.body].end, text) for d, text in steps.items()]
    inside = {i for d in kernels for i in range(d.opening, d.end + 1)}
    outside = any(t.text in _BUILTINS for i, t in enumerate(tokens) if i not in inside) or _includes_unknown(tokens)
    strided = frozenset(d.name for d in steps)
    return Emulated(_edited(text, edits), fibers, outside, not _has_local_array(tokens), strided)


def _refuse(tokens: Sequence[Token], file: str) -> None:
    for token in tokens:
        if token.kind == "directive":
            header = _HEADERS.match(token.text)
            if header:
                raise UnsupportedCuda(
                    f"{file}:{token.line}: <{header[1]}> is not available on the CPU; "
                    "take arrays as ok::View<T, N> of <omnikernel.h>, and launch the kernel from Python"
                )
            continue
        if token.kind not in ("word", "punct"):
            continue
        for pattern, what in _UNSUPPORTED:
            if pattern.fullmatch(token.text):
                advice = _ADVICE.get(what, "guard it with #ifndef OK_CUDA_ON_CPU, or run this kernel on a GPU only")
                raise UnsupportedCuda(
                    f"{file}:{token.line}: {what} ({token.text!r}) is not emulated on the CPU; {advice}"
                )


Edit = tuple[int, int, str]  # replace text[start:end]


def _edited(text: str, edits: Sequence[Edit]) -> str:
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _steps(tokens: Sequence[Token], kernels: Sequence[Definition]) -> dict[Definition, str]:
    """A step of the loop over the grid, for the kernels that have one and are declared but once."""
    names = [token.text for token in tokens if token.kind == "word"]
    opaque = {  # macros, which may hold a jump, and functions that may change an argument
        *(m[1] for t in tokens if t.kind == "directive" for m in [_MACRO.match(t.text)] if m),
        *(d.name for d in definitions(tokens) if "&" in {t.text for t in tokens[d.opening : d.closing]}),
    }
    found = {d: step_of_loop(tokens, d, opaque) for d in kernels if names.count(d.name) == 1}
    return {d: step for d, step in found.items() if step is not None}


def _parameters(tokens: Sequence[Token], strided: frozenset[str]) -> list[Edit]:
    """The hidden parameters, in every declaration of a kernel."""
    edits = []
    for index, token in enumerate(tokens):
        if token.text != "__global__":
            continue
        at = index + 1
        while at < len(tokens) and tokens[at].text not in ("{", ";"):
            if tokens[at].text == "(":
                closing = matching(tokens, at)
                if closing is None:
                    break
                if tokens[at - 1].text not in ("__launch_bounds__", "__cluster_dims__", "__attribute__", "alignas"):
                    inner = [t.text for t in tokens[at + 1 : closing]]
                    hidden = f"{HIDDEN}, {PARAMETERS}" if tokens[at - 1].text in strided else HIDDEN
                    if inner == ["void"]:
                        edits.append((tokens[at + 1].offset, tokens[closing].offset, hidden))
                    else:
                        edits.append(
                            (tokens[closing].offset, tokens[closing].offset, f"{', ' if inner else ''}{hidden}")
                        )
                    break
                at = closing
            at += 1
    return edits


def _specifiers(tokens: Sequence[Token]) -> list[Edit]:
    """`static`, `inline` and `extern "C"` beside `__global__`, which stands for the first two here."""
    edits: list[Edit] = []
    redundant = ("static", "inline", "__forceinline__", "__inline__")
    for index, token in enumerate(tokens):
        if token.text != "__global__":
            continue
        before = index - 1
        while before >= 0 and (tokens[before].text in (*redundant, "extern") or tokens[before].kind == "string"):
            edits.append((tokens[before].offset, tokens[before].end, ""))
            before -= 1
        after = index + 1
        while after < len(tokens) and tokens[after].kind == "word" and tokens[after].text != "void":
            if tokens[after].text in redundant:
                edits.append((tokens[after].offset, tokens[after].end, ""))
            after += 1
    return edits


def instantiations(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """Where explicit instantiations of kernels stand, `template __global__ void k<float>(...);`, which we make ourselves."""
    found = []
    for index, token in enumerate(tokens[:-1]):
        if token.text == "template" and tokens[index + 1].text in ("__global__", "void"):
            end = next((i for i in range(index, len(tokens)) if tokens[i].text in (";", "{")), index)
            if tokens[end].text == ";" and any(t.text == "__global__" for t in tokens[index:end]):
                found.append((token.offset, tokens[end].end))
    return found


def without_instantiations(text: str) -> str:
    """The text with every explicit instantiation of a kernel blanked; lines stay."""
    for start, end in reversed(instantiations(tokenize(text))):
        text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    return text


def _shared(tokens: Sequence[Token], file: str) -> list[Edit]:
    """`extern __shared__ T name[];` as a reference to the thread's dynamic shared memory."""
    edits: list[Edit] = []
    depths = _depths(tokens)
    for index, token in enumerate(tokens):
        if token.text != "__shared__":
            continue
        start = index
        while start > 0 and tokens[start - 1].kind == "word":
            start -= 1
        end = next((i for i in range(index, len(tokens)) if tokens[i].text == ";"), index)
        statement = [t for t in tokens[start:end] if t.text not in ("extern", "__shared__")]
        dynamic = any(t.text == "extern" for t in tokens[start:end])
        if not dynamic or depths[index] == 0:  # C++ has `alignas` elsewhere in a declaration than CUDA
            edits.extend((t.offset, t.end, "__align__") for t in tokens[start:end] if t.text == "alignas")
        if not dynamic:
            # The macro says `static` itself.
            edits.extend((t.offset, t.end, "") for t in tokens[start:end] if t.text == "static")
            continue
        kept: list[Token] = []
        at = 0
        while at < len(statement):
            if statement[at].text in ("__align__", "alignas", "__attribute__") and at + 1 < len(statement):
                at = (matching(statement, at + 1) or at + 1) + 1
                continue
            kept.append(statement[at])
            at += 1
        if len(kept) < 4 or [t.text for t in kept[-2:]] != ["[", "]"]:
            raise UnsupportedCuda(
                f"{file}:{token.line}: dynamic shared memory is declared as 'extern __shared__ T name[];'"
            )
        if depths[index] == 0:
            edits.append((token.offset, token.end, "__thread"))
            edits.append((tokens[end].offset, tokens[end].offset, ' __asm__("ok_dynamic_shared")'))
        else:
            type_ = " ".join(t.text for t in kept[:-3])
            new = f"auto &{kept[-3].text} = ok::detail::dynamic_shared<{type_}>()"
            lines = tokens[end].line - tokens[start].line
            edits.append((tokens[start].offset, tokens[end].offset, new + "\n" * lines))
    return edits


def _depths(tokens: Sequence[Token]) -> list[int]:
    """How many functions a token is inside of: 0 at file or namespace scope."""
    depths = [0] * len(tokens)
    for definition in definitions(tokens):
        for index in range(definition.body, definition.end + 1):
            depths[index] = 1
    return depths


def _words(tokens: Sequence[Token]) -> list[Edit]:
    """CUDA's `__noinline__` cannot be a macro: the host's headers use the word inside attributes."""
    new = "__attribute__((noinline))"
    return [(t.offset, t.end, new) for t in tokens if t.text == "__noinline__"]


_MACRO = re.compile(r"\s*#\s*define\s+(\w+)")
_POSITION = re.compile(
    r"(?:blockIdx \. (?P<a>[xyz]) \* blockDim|blockDim \. (?P<b>[xyz]) \* blockIdx) \. (?P<c>[xyz]) \+ threadIdx \. (?P<d>[xyz])"
    r"|threadIdx \. (?P<e>[xyz]) \+ (?:blockIdx \. (?P<f>[xyz]) \* blockDim|blockDim \. (?P<g>[xyz]) \* blockIdx) \. (?P<h>[xyz])"
)
_POSITION_TOKENS = 11
_BEFORE_SUM = {"=", "(", ",", "{", "return", "?", ":"}
_AFTER_SUM = {";", ")", ",", "}", "<", ">"}


def _positions(tokens: Sequence[Token], kernels: Sequence[Definition]) -> list[Edit]:
    """A thread's place in the grid, `blockIdx.x * blockDim.x + threadIdx.x`, where a kernel writes it as a sum of its own.

    Its value is the same, but it is made in a way that compilers know not to wrap: an `int` of it is then consecutive from
    thread to thread, and loads and stores at it are vectors.
    """
    edits: list[Edit] = []
    for kernel in kernels:
        for start in range(kernel.body + 1, kernel.end - _POSITION_TOKENS):
            if tokens[start].text not in ("blockIdx", "blockDim", "threadIdx"):
                continue
            end = start + _POSITION_TOKENS
            match = _POSITION.fullmatch(" ".join(token.text for token in tokens[start:end]))
            axes = {axis for axis in match.groups() if axis} if match else set()
            if len(axes) != 1 or tokens[start - 1].text not in _BEFORE_SUM or tokens[end].text not in _AFTER_SUM:
                continue
            axis = axes.pop()
            lines = "\n" * (tokens[end - 1].line - tokens[start].line)
            names = ", ".join(f"{name}.{axis}" for name in ("blockIdx", "blockDim", "threadIdx", "gridDim"))
            edits.append((tokens[start].offset, tokens[end - 1].end, f"ok::detail::position({names}){lines}"))
    return edits


def _fibers(tokens: Sequence[Token], kernels: Sequence[Definition]) -> frozenset[str]:
    """The kernels that reach a barrier or a warp operation, through functions and macros of the source."""
    everything = frozenset(d.name for d in kernels)
    if _includes_unknown(tokens):
        return everything
    chunks: list[tuple[str, set[str]]] = []
    covered: set[int] = set()
    for definition in definitions(tokens):
        body = range(definition.opening, definition.end + 1)
        covered.update(body)
        chunks.append((definition.name, {tokens[i].text for i in body}))
    for token in tokens:
        macro = re.match(r"\s*#\s*define\s+(\w+)(.*)", token.text, re.DOTALL) if token.kind == "directive" else None
        if macro:
            chunks.append((macro[1], set(re.findall(r"\w+", macro[2]))))
    rest = {t.text for i, t in enumerate(tokens) if i not in covered and t.kind == "word"}
    tainted: set[str] = set()
    while True:
        more = {n for n, words in chunks if n not in tainted and (words & tainted or _synchronises(words))}
        if not more:
            break
        tainted |= more
    declared = {d.name for d in definitions(tokens)}
    if _synchronises(rest) or (rest - declared) & tainted:  # a class, a lambda at file scope ...
        return everything
    return frozenset(everything & tainted)


def _synchronises(words: set[str]) -> bool:
    return any(_SYNCHRONISES.fullmatch(word) for word in words)


def _includes_unknown(tokens: Sequence[Token]) -> bool:
    """A header of the user's own may hold anything."""
    for token in tokens:
        match = re.match(r"\s*#\s*include\s*([<\"])([^>\"]*)", token.text) if token.kind == "directive" else None
        own = match is not None and (match[1] == '"' or "/" in match[2] or match[2] == "cooperative_groups.h")
        if match is not None and own and match[2] != "omnikernel.h":
            return True
    return False


def _has_local_array(tokens: Sequence[Token]) -> bool:
    not_types = {"return", "else", "case", "goto", "delete", "throw", "do", "in"}
    for index in range(2, len(tokens)):
        if tokens[index].text != "[" or tokens[index - 1].kind != "word":
            continue
        before = tokens[index - 2]
        declares = before.kind == "word" and before.text not in not_types
        pointer = before.text in ("*", "&", ">") and index + 2 < len(tokens) and tokens[index + 1].kind == "number"
        if declares or pointer:
            statement = index
            while statement > 0 and tokens[statement].text not in (";", "{", "}"):
                statement -= 1
            if not any(t.text == "__shared__" for t in tokens[statement:index]):
                return True
    return False
