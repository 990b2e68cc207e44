"""Kernels whose threads loop over the grid: `for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)`.

Thread by thread, such a loop steps through memory with the width of the grid, and nothing becomes a vector. Threads know no order
among each other, so all of a block may take the first step, then all the second: neighbours run side by side, each in its own order.

In: a kernel's tokens. Out: what to write before its body, for one step of the loop; nothing where the loop is not surely of this form.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from itertools import pairwise

from .source import Definition
from .tokens import Token, matching, split

PARAMETERS = "const int ok_trip = -1, bool *const ok_probe = nullptr"
_TYPES = {"const", "int", "unsigned", "long", "size_t", "int32_t", "uint32_t", "int64_t", "uint64_t"}
_PLACE = re.compile(
    r"(blockIdx \. x \* blockDim \. x|blockDim \. x \* blockIdx \. x) \+ threadIdx \. x"
    r"|threadIdx \. x \+ (blockIdx \. x \* blockDim \. x|blockDim \. x \* blockIdx \. x)"
)
_STEP = re.compile(r"blockDim \. x \* gridDim \. x|gridDim \. x \* blockDim \. x")
_BOUND = re.compile(r"(\w+)( \. (size|numel) \( \d? ?\))?( / \d+)?")
_LEAVES = {"return", "break", "continue", "goto", "static", "__shared__", "asm"}


def step_of_loop(tokens: Sequence[Token], kernel: Definition, opaque: Set[str]) -> str | None:
    """One step of the loop that a kernel consists of, as a block before it; None where there is none.

    Before the loop there may be declarations of its start and its step, after it nothing. Its body must not change what
    outlives a step, but memory: then a step can run by itself. Of the names in `opaque` nobody knows what they do.
    """
    body = list(tokens[kernel.body + 1 : kernel.end])
    known: dict[str, str] = {}
    while body and body[0].text != "for":
        end = next((i for i, token in enumerate(body) if token.text == ";"), None)
        if end is None or not _declares(body[:end], known):
            return None
        body = body[end + 1 :]
    if len(body) < 2 or body[1].text != "(":
        return None
    closing = matching(body, 1)
    if closing is None or closing + 1 >= len(body):
        return None
    inner = body[closing + 1 :]
    alone = inner[0].text == "{" and matching(inner, 0) == len(inner) - 1
    simple = inner[0].text != "{" and [t.text for t in inner].count(";") == 1 and inner[-1].text == ";"
    ends = [i for i in range(2, closing) if body[i].text == ";"]
    if not (alone or simple) or len(ends) != 2 or opaque & {token.text for token in inner}:
        return None
    header = body[2 : ends[0]], body[ends[0] + 1 : ends[1]], body[ends[1] + 1 : closing]
    return _step(header, inner, known, _parameter_names(tokens, kernel))


def _declares(statement: Sequence[Token], known: dict[str, str]) -> bool:
    """Note a declaration of the place or the step in `known`; whether it is one."""
    words = [token.text for token in statement]
    if "=" not in words:
        return False
    at = words.index("=")
    value = " ".join(words[at + 1 :])
    if at < 2 or not set(words[: at - 1]) <= _TYPES or not (_PLACE.fullmatch(value) or _STEP.fullmatch(value)):
        return False
    known[words[at - 1]] = value
    return True


def _step(
    header: Sequence[Sequence[Token]], inner: Sequence[Token], known: dict[str, str], names: set[str]
) -> str | None:
    first, condition, last = ([token.text for token in part] for part in header)
    if "=" not in first or len(condition) < 3 or len(last) < 4:
        return None
    at = first.index("=")
    index, type_ = first[at - 1], " ".join(first[: at - 1])
    start, step = " ".join(first[at + 1 :]), " ".join(last[3:])
    bound = _BOUND.fullmatch(" ".join(condition[2:]))
    if not type_ or not set(first[: at - 1]) <= _TYPES - {"const"} or bound is None or bound[1] not in names:
        return None
    if condition[:2] != [index, "<"] or last[:3] != [index, "+", "="]:
        return None
    if not _PLACE.fullmatch(known.get(start, start)) or not _STEP.fullmatch(known.get(step, step)):
        return None
    if any(t.kind == "directive" or t.text in _LEAVES for t in inner) or _changed(inner) & {index, *known, *names}:
        return None
    place = "ok::detail::position(blockIdx.x, blockDim.x, threadIdx.x, gridDim.x)"
    return (
        f" if (ok_trip >= 0) {{ {type_} {index} = ({type_}){place} + ({type_})ok_trip * ({type_})(blockDim.x * gridDim.x);"
        f" const bool ok_on = {' '.join(condition)};"
        f" if (ok_probe) {{ *ok_probe = ok_on; return; }}"
        f" if (ok_on) {_text(inner)} return; }} "
    )


def _text(tokens: Sequence[Token]) -> str:
    """The tokens on one line, apart where they were."""
    found = tokens[0].text
    for before, token in pairwise(tokens):
        found += ("" if before.end == token.offset else " ") + token.text
    return found


def _parameter_names(tokens: Sequence[Token], kernel: Definition) -> set[str]:
    return {part[-1].text for part in split(tokens[kernel.opening + 1 : kernel.closing]) if part}


def _changed(tokens: Sequence[Token]) -> set[str]:
    """Names that a statement may change other than by an element: assigned, counted, or with their address taken."""
    texts = ["", "", "", *(token.text for token in tokens), "", "", ""]
    found: set[str] = set()
    for at, text in enumerate(texts):
        before, after = texts[at - 1] if at else "", texts[at + 1] if at + 1 < len(texts) else ""
        if text == "=" and after != "=" and before not in ("=", "!"):
            found.add(before)
            if before in ("+", "-", "*", "/", "%", "&", "|", "^"):
                found.add(texts[at - 2])
            elif before in ("<", ">") and texts[at - 2] == before:  # <<= and >>=
                found.add(texts[at - 3])
        elif text in ("+", "-") and after == text:
            found |= {before, texts[at + 2]}
        elif text == "&" and texts[at + 2] != "[":
            found.add(after)
    return found
