"""Signatures, read from the source.

In: a C++ or CUDA C++ text. Out: its functions, with parameters whose types are known: `ok::View<T, N>`, pointers and scalars.
A type or a form outside this subset is an error with the line; the user can name the functions and give their signatures.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..errors import OmnikernelError
from .tokens import Token, closing_angle, matching, split, tokenize


class SignatureError(OmnikernelError):
    """A signature outside the subset that is read from the source."""


# C++ spelling, without `const` and namespaces -> Triton's name of the dtype.
SCALARS = {
    "bool": "i1",
    "char": "i8",
    "signed char": "i8",
    "int8_t": "i8",
    "unsigned char": "u8",
    "uint8_t": "u8",
    "short": "i16",
    "int16_t": "i16",
    "unsigned short": "u16",
    "uint16_t": "u16",
    "int": "i32",
    "int32_t": "i32",
    "unsigned": "u32",
    "uint32_t": "u32",
    "long": "i64",
    "long long": "i64",
    "int64_t": "i64",
    "ptrdiff_t": "i64",
    "unsigned long": "u64",
    "unsigned long long": "u64",
    "uint64_t": "u64",
    "size_t": "u64",
    "float": "fp32",
    "double": "fp64",
    "f16": "fp16",
    "half": "fp16",
    "__half": "fp16",
    "bf16": "bf16",
    "__nv_bfloat16": "bf16",
    "nv_bfloat16": "bf16",
    "f8e4m3": "fp8e4nv",
    "__nv_fp8_e4m3": "fp8e4nv",
    "f8e5m2": "fp8e5",
    "__nv_fp8_e5m2": "fp8e5",
}
# CUDA's vector types, behind pointers -> the dtype of a component, and how many.
VECTORS = {
    **{
        f"{name}{n}": (dtype, n)
        for name, dtype in {
            "char": "i8",
            "uchar": "u8",
            "short": "i16",
            "ushort": "u16",
            "int": "i32",
            "uint": "u32",
            "long": "i64",
            "ulong": "u64",
            "longlong": "i64",
            "ulonglong": "u64",
            "float": "fp32",
            "double": "fp64",
        }.items()
        for n in (1, 2, 3, 4)
    },
    **dict.fromkeys(("half2", "__half2"), ("fp16", 2)),
    **dict.fromkeys(("nv_bfloat162", "__nv_bfloat162"), ("bf16", 2)),
}
_INTEGER_WORDS = {"signed", "unsigned", "short", "long", "int", "char"}
_NAMESPACES = {"ok", "std"}
_RESTRICT = {"__restrict__", "__restrict", "restrict"}
_INTERNAL = {"static", "inline", "constexpr", "consteval", "__device__", "__forceinline__", "__inline__"}
_KNOWN = "ok::View<T, N>, a pointer, or a scalar such as int, int64_t, float, double, bool, ok::f16"


@dataclass(frozen=True, slots=True)
class Type:
    """A parameter's type. `form`: view, pointer or scalar; `dtype` is Triton's name, "" for `void *`. `lanes`: components of
    the vectors that a pointer points to, 1 where it points to scalars."""

    form: str
    dtype: str
    cpp: str  # the element's spelling, without const
    rank: int = 0
    const: bool = False
    restrict: bool = False
    lanes: int = 1

    def __str__(self) -> str:
        const = "const " if self.const else ""
        if self.form == "view":
            return f"ok::View<{const}{self.cpp}, {self.rank}{', ok::Restrict' if self.restrict else ''}>"
        return f"{const}{self.cpp} *" if self.form == "pointer" else self.cpp


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Function:
    """A function that Python may call. `call` is how C++ names it: with namespaces and template arguments."""

    name: str
    call: str
    parameters: tuple[Parameter, ...]
    result: Type | None  # None: void
    is_kernel: bool
    line: int
    sizes: tuple[tuple[str, tuple[str, ...]], ...] = ()  # parameter -> a name or a number for each dimension

    def __str__(self) -> str:
        inner = ", ".join(f"{p.type} {p.name}".replace("* ", "*") for p in self.parameters)
        return f"{self.result or 'void'} {self.name}({inner})"


@dataclass(frozen=True, slots=True)
class Definition:
    """A function as it stands in the source, by token indices: its parentheses and the braces of its body."""

    name: str
    call: str
    prefix: tuple[Token, ...]
    opening: int
    closing: int
    body: int
    end: int
    is_kernel: bool
    is_template: bool


def definitions(tokens: Sequence[Token]) -> list[Definition]:
    """Every function definition at file or namespace scope."""
    found: list[Definition] = []
    scopes: list[tuple[str, int]] = []
    start = index = 0
    while index < len(tokens):
        text = tokens[index].text
        while scopes and index >= scopes[-1][1]:
            scopes.pop()
            start = index = index + 1
            if index >= len(tokens):
                return found
            text = tokens[index].text
        if tokens[index].kind == "directive" or text == ";":
            start = index = index + 1
        elif text == "{":
            index = _scope(tokens, start, index, scopes, found)
            start = index
        elif text in ("(", "["):
            index = (matching(tokens, index) or len(tokens) - 1) + 1
        else:
            index += 1
    return found


def _scope(
    tokens: Sequence[Token], start: int, brace: int, scopes: list[tuple[str, int]], found: list[Definition]
) -> int:
    """Enter a namespace or `extern "C"`, note a function, or step over anything else; the index to go on from."""
    end = matching(tokens, brace)
    if end is None:
        return len(tokens)
    head = tokens[start:brace]
    words = [token.text for token in head]
    if "namespace" in words:
        names = [t.text for t in head if t.kind == "word" and t.text not in ("namespace", "inline")]
        scopes.append(("::".join(names) if names else "(anonymous)", end))
        return brace + 1
    if words[:1] == ["extern"] and len(head) == 2 and head[1].kind == "string":
        scopes.append(("", end))
        return brace + 1
    definition = _definition(tokens, start, brace, end, scopes)
    if definition is not None:
        found.append(definition)
        return end + 1
    return end + 1


def _definition(
    tokens: Sequence[Token], start: int, brace: int, end: int, scopes: Sequence[tuple[str, int]]
) -> Definition | None:
    """The function whose body begins at `brace`: its parameters are the last parentheses after its name."""
    index, is_template = start, False
    while index < brace and tokens[index].text == "template" and tokens[index + 1].text == "<":
        closed = closing_angle(tokens, index + 1)
        if closed is None:
            return None
        is_template, index = True, closed + 1
    first = index
    while index < brace:
        token = tokens[index]
        if token.text in ("struct", "class", "union", "enum", "=", "using", "typedef"):
            return None
        if token.text == "(":
            closed = matching(tokens, index)
            before = tokens[index - 1]
            if closed is None:
                return None
            attribute = before.text in ("__launch_bounds__", "__attribute__", "alignas", "__align__", "decltype")
            if before.kind == "word" and not attribute and index - 1 > first:
                prefix = tuple(tokens[first : index - 1])
                spaces = [name for name, _ in scopes if name]
                anonymous = "(anonymous)" in spaces
                call = "::".join([*(name for name in spaces if name != "(anonymous)"), before.text])
                is_kernel = any(t.text == "__global__" for t in prefix)
                if anonymous and not is_kernel:
                    prefix = (*prefix, Token("word", "static", before.offset, before.line))
                return Definition(before.text, call, prefix, index, closed, brace, end, is_kernel, is_template)
            index = closed
        index += 1
    return None


def functions(
    text: str, file: str, kernels: bool, explicit: Mapping[str, str] | Sequence[str] | None
) -> list[Function]:
    """The functions of a source that Python may call.

    Args:
        text: the source.
        file: its name, for errors.
        kernels: look for `__global__` kernels; otherwise for functions that are neither static, inline nor templates.
        explicit: names, or names with their signature, `"(ok::View<float, 1> x, int n)"` or `"call<float>(...)"`.

    Raises:
        SignatureError: a parameter or a result outside the subset, or two functions of one name.
    """
    tokens = tokenize(text)
    defined = {d.name: d for d in definitions(tokens)}
    aliases = _aliases(tokens)
    given = dict(explicit) if isinstance(explicit, Mapping) else {}
    wanted = set(explicit) if explicit is not None else None
    found: dict[str, Function] = {}
    for definition in definitions(tokens):
        if definition.is_kernel != kernels or definition.name in given:
            continue
        chosen = wanted is not None and definition.name in wanted
        if wanted is not None and not chosen:
            continue
        if not kernels and not chosen and (definition.is_template or _is_internal(definition)):
            continue
        line = tokens[definition.opening].line
        if definition.is_template:
            raise SignatureError(
                f"{file}:{line}: {definition.name!r} is a template; name what to compile, e.g. "
                f"functions={{'{definition.name}_f32': '{definition.name}<float>(ok::View<float, 1> x)'}}"
            )
        function = _function(definition, tokens, aliases, file)
        other = found.get(function.name)
        if other is not None and replace(other, line=0) != replace(function, line=0):
            raise SignatureError(
                f"{file}:{line}: a second {function.name!r} with other parameters than the one in line {other.line}; "
                "a function called from Python needs a name of its own"
            )
        found.setdefault(function.name, function)
    for name, signature in given.items():
        found[name] = _explicit(name, signature, defined, aliases, file, kernels)
    return list(found.values())


def _is_internal(definition: Definition) -> bool:
    words = {token.text for token in definition.prefix}
    return bool(words & _INTERNAL) or "operator" in words or "__global__" in words


def _function(
    definition: Definition, tokens: Sequence[Token], aliases: Mapping[str, list[Token]], file: str
) -> Function:
    inner = tokens[definition.opening + 1 : definition.closing]
    parameters = _parameters(inner, aliases, file, definition.name)
    line = tokens[definition.opening].line
    result = _result(definition, aliases, file, line)
    return Function(definition.name, definition.call, parameters, result, definition.is_kernel, line)


def _result(definition: Definition, aliases: Mapping[str, list[Token]], file: str, line: int) -> Type | None:
    skip = {"__global__", "static", "inline", "extern", "__host__", "__forceinline__", "__cluster_dims__"}
    kept: list[Token] = []
    index = 0
    prefix = definition.prefix
    while index < len(prefix):
        token = prefix[index]
        if token.text in ("__launch_bounds__", "__attribute__", "__cluster_dims__"):
            index = (matching(prefix, index + 1) or index + 1) + 1
            continue
        if token.text == "[" and index + 1 < len(prefix) and prefix[index + 1].text == "[":
            index = (matching(prefix, index) or index) + 1
            continue
        if token.text not in skip and token.kind != "string":
            kept.append(token)
        index += 1
    if [t.text for t in kept] == ["void"]:
        return None
    where = f"{file}:{line}: the result of {definition.name!r}"
    if definition.is_kernel:
        raise SignatureError(f"{where}: a kernel returns void")
    result = read_type(kept, aliases, where)
    if result.form != "scalar":
        raise SignatureError(f"{where}: expected void or a scalar, got {result}; write arrays through parameters")
    return result


def _explicit(
    name: str,
    signature: str,
    defined: Mapping[str, Definition],
    aliases: Mapping[str, list[Token]],
    file: str,
    kernels: bool,
) -> Function:
    tokens = tokenize(signature)
    opening = next((i for i, token in enumerate(tokens) if token.text == "("), None)
    closing = matching(tokens, opening) if opening is not None else None
    if opening is None or closing is None:
        raise SignatureError(f"functions[{name!r}]: expected '(type name, ...)', got {signature!r}")
    call = signature[: tokens[opening].offset].strip() or (defined[name].call if name in defined else name)
    parameters = _parameters(tokens[opening + 1 : closing], aliases, f"functions[{name!r}]", name)
    rest = tokens[closing + 1 :]
    result = None
    if rest and rest[0].text == "->" and [t.text for t in rest[1:]] != ["void"]:
        result = read_type(rest[1:], aliases, f"functions[{name!r}], the result")
    base = re.split(r"<|::", call)[0] if "::" not in call else call.split("<")[0].split("::")[-1]
    line = 0 if base not in defined else defined[base].prefix[0].line if defined[base].prefix else 0
    return Function(name, call, parameters, result, kernels, line)


def _parameters(
    tokens: Sequence[Token], aliases: Mapping[str, list[Token]], file: str, function: str
) -> tuple[Parameter, ...]:
    if [t.text for t in tokens] == ["void"]:
        return ()
    found = []
    for part in split(tokens):
        where = f"{file}:{part[0].line if part else 0}: {function!r}" if file.find("[") < 0 else f"{file}: {function!r}"
        found.append(_parameter(part, aliases, where))
    names = [p.name for p in found]
    for name in names:
        if names.count(name) > 1:
            raise SignatureError(f"{file}: {function!r} has two parameters {name!r}")
    return tuple(found)


def _parameter(part: Sequence[Token], aliases: Mapping[str, list[Token]], where: str) -> Parameter:
    text = " ".join(token.text for token in part)
    if any(token.text == "=" for token in part):
        raise SignatureError(f"{where}: the parameter '{text}' has a default value; give the value in Python")
    if any(token.text in ("(", "...") for token in part):
        raise SignatureError(f"{where}: the parameter '{text}' is not read; expected {_KNOWN}")
    kept = [token for token in part if token.text != "__grid_constant__"]
    if kept and kept[-1].text == "]" and len(kept) > 3:  # float x[]: a pointer
        opening = next(i for i in range(len(kept) - 1, -1, -1) if kept[i].text == "[")
        name, kept = kept[opening - 1], kept[: opening - 1]
        kept.append(Token("punct", "*", name.offset, name.line))
    elif len(kept) >= 2 and kept[-1].kind == "word" and not _is_type_word(kept[-1].text):
        name, kept = kept[-1], kept[:-1]
    else:
        raise SignatureError(f"{where}: the parameter '{text}' has no name")
    return Parameter(name.text, read_type(kept, aliases, f"{where}, parameter {name.text!r}"))


def _is_type_word(word: str) -> bool:
    return (
        word in _INTEGER_WORDS or word in _RESTRICT or word in SCALARS or word in VECTORS or word in ("const", "View")
    )


def read_type(tokens: Sequence[Token], aliases: Mapping[str, list[Token]], where: str) -> Type:
    """The type that the tokens spell.

    Raises:
        SignatureError: it is not of the subset.
    """
    text = " ".join(token.text for token in tokens).replace(" :: ", "::")
    words: list[Token] = []
    for token in tokens:
        words.extend(aliases.get(token.text, [token]) if token.kind == "word" else [token])
    spelled = [t.text for t in words]
    if "View" in spelled:
        return _view(words, spelled.index("View"), aliases, where)
    reference = "&" in spelled
    stars = spelled.count("*")
    const = False
    restrict = any(word in _RESTRICT for word in spelled)
    if stars:
        before = spelled[: spelled.index("*")]
        const = "const" in before
        base = [w for w in before if w != "const"]
    else:
        base = [w for w in spelled if w not in ("const", "&")]
    name = _spelling([w for w in base if w not in _RESTRICT])
    if stars > 1 or (reference and stars):
        raise SignatureError(f"{where}: '{text}' is not read; expected {_KNOWN}")
    if reference and "const" not in spelled:
        raise SignatureError(f"{where}: '{text}' is a reference to a scalar; write results through a view")
    if stars and name == "void":
        return Type("pointer", "", "void", 0, const, restrict)
    if stars and name in VECTORS:
        dtype, lanes = VECTORS[name]
        return Type("pointer", dtype, name, 0, const, restrict, lanes)
    if name not in SCALARS:
        members = "" if stars else "; a struct or a vector is not passed by value: take its members as parameters"
        raise SignatureError(f"{where}: the type '{text}' is not known; expected {_KNOWN}{members}")
    return Type("pointer" if stars else "scalar", SCALARS[name], name, 0, const, restrict)


def _spelling(words: Sequence[str]) -> str:
    """`long unsigned int` and the like in the one form of the table."""
    kept = [w for i, w in enumerate(words) if w != "::" and not (w in _NAMESPACES and words[i + 1 : i + 2] == ["::"])]
    if not kept or not set(kept) <= _INTEGER_WORDS:
        return " ".join(kept)
    sign = "unsigned" if "unsigned" in kept else "signed" if "signed" in kept and "char" in kept else ""
    size = "char" if "char" in kept else "short" if "short" in kept else " ".join(["long"] * kept.count("long"))
    if not size:
        return sign or "int"
    return f"{sign} {size}".strip()


def _view(words: Sequence[Token], at: int, aliases: Mapping[str, list[Token]], where: str) -> Type:
    text = "".join(t.text + (" " if t.text in ("const", ",") else "") for t in words)
    closing = closing_angle(words, at + 1) if at + 1 < len(words) and words[at + 1].text == "<" else None
    if closing is None or words[-1].text == "*":
        raise SignatureError(f"{where}: expected ok::View<T, N>, got '{text}'")
    parts = split(words[at + 2 : closing])
    if len(parts) not in (2, 3) or (len(parts) == 3 and parts[2][-1].text != "Restrict"):
        raise SignatureError(f"{where}: expected ok::View<T, N> or ok::View<T, N, ok::Restrict>, got '{text}'")
    element = read_type(parts[0], aliases, where)
    const = any(t.text == "const" for t in parts[0])
    rank = parts[1][0].text
    if element.form != "scalar" or len(parts[1]) != 1 or not rank.isdigit() or not 1 <= int(rank) <= 8:
        raise SignatureError(f"{where}: expected ok::View<T, N> of scalars with N from 1 to 8, got '{text}'")
    return Type("view", element.dtype, element.cpp, int(rank), const, len(parts) == 3)


def _aliases(tokens: Sequence[Token]) -> dict[str, list[Token]]:
    """`using A = T;`, `typedef T A;` and `#define A T` whose right side might be a type or a number."""
    found: dict[str, list[Token]] = {}
    for index, token in enumerate(tokens):
        if token.kind == "directive":
            match = re.match(r"\s*#\s*define\s+([A-Za-z_]\w*)[ \t]+(.+)", token.text)
            if match:
                found[match[1]] = list(tokenize(match[2]))
        elif token.text in ("using", "typedef"):
            end = next((i for i in range(index, len(tokens)) if tokens[i].text == ";"), index)
            body = list(tokens[index + 1 : end])
            if token.text == "using" and len(body) > 2 and body[1].text == "=":
                found[body[0].text] = body[2:]
            elif token.text == "typedef" and len(body) > 1 and body[-1].kind == "word":
                found[body[-1].text] = body[:-1]
    return {name: _expanded(body, found, 4) for name, body in found.items()}


def _expanded(body: list[Token], aliases: Mapping[str, list[Token]], depth: int) -> list[Token]:
    if depth == 0:
        return body
    return [
        t
        for token in body
        for t in (_expanded(aliases[token.text], aliases, depth - 1) if token.text in aliases else [token])
    ]
