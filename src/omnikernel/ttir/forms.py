"""The custom assembly forms, one row an op, and the names under which their attributes are kept.

Most custom forms of TTIR are a head (operands, bare words, `key = value` pairs, an attribute dictionary, a string) and
a list of types. The reader collects both without knowing the op; a row says what the bare words mean and how the
result types follow from the listed ones where none stands after `->` or `to`. Sources: the `assemblyFormat` of
TritonOps.td (Triton 3.9) and of MLIR's ArithOps.td, MathOps.td, SCFOps.td and ControlFlowOps.td.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..ir.tile import Value
from ..ir.types import I1, Descriptor, Pointer, Tensor, Type, element_of, like
from .lexer import unquote

Attributes = dict[str, Any]
Rule = Callable[[list[Type]], list[Type]]


@dataclass(frozen=True, slots=True)
class Head:
    """What stood before the types: `marks` counts the operands read when each bare `scale` came."""

    operands: list[Value]
    words: list[str]
    attributes: Attributes
    marks: list[int]


@dataclass(frozen=True, slots=True)
class Form:
    """How one custom form reads: result types from listed types, names of its bare words, and a last correction."""

    rule: Rule
    words: tuple[str, ...] = ()
    fix: Callable[[Head], None] | None = None
    bare: bool = False  # has neither operands nor types, so a value that follows belongs to the next op


def _none(types: list[Type]) -> list[Type]:
    return []


def _last(types: list[Type]) -> list[Type]:
    return types[-1:]


def _first(types: list[Type]) -> list[Type]:
    return types[:1]


def _all(types: list[Type]) -> list[Type]:
    return types


def _twice(types: list[Type]) -> list[Type]:
    return types * 2


def _compared(types: list[Type]) -> list[Type]:
    return [like(types[0], I1)]


def _element(types: list[Type]) -> list[Type]:
    return [element_of(types[0])]


def pointee(pointer: Type) -> Type:
    """What a load through a pointer, a tile of pointers or a block pointer gives. Raises TypeError for another type."""
    kind = pointer.element if isinstance(pointer, Tensor) else pointer
    if not isinstance(kind, Pointer):
        raise TypeError(f"{pointer} is no pointer")
    if isinstance(kind.pointee, Tensor):
        return kind.pointee
    return like(pointer, element_of(kind.pointee))


def _loaded(types: list[Type]) -> list[Type]:
    return [pointee(types[0])]


def _descriptor(types: list[Type]) -> list[Type]:
    made = types[-1]
    if isinstance(made, Pointer) and isinstance(made.pointee, Tensor):
        return [Descriptor(made.pointee)]  # `<tensor<..>>`, as releases before 3.8 print it
    return [made]


def _flags(head: Head) -> None:
    """Bare words that are flags by themselves, as tt.reshape has them."""
    for word in head.words:
        head.attributes[word] = True
    head.words.clear()


def _dot_scaled(head: Head) -> None:
    """Brings a [scale], b [scale], c into the op's own order: a, b, c, a's scale, b's scale."""
    left, right = 1 in head.marks, any(mark > 1 for mark in head.marks)
    scales = [head.operands[mark] for mark in head.marks]
    head.operands[:] = [v for i, v in enumerate(head.operands) if i not in head.marks] + scales
    head.words.clear()
    head.attributes.update(has_lhs_scale=left, has_rhs_scale=right)


def _source_second(head: Head) -> None:
    """`desc[indices], source` is desc, source, indices in the op's own order."""
    head.operands.insert(1, head.operands.pop())


def _spaces(head: Head) -> None:
    """`local|global_read` is one attribute."""
    head.words[:] = ["|".join(head.words)]


def _rows() -> dict[str, Form]:
    rows: dict[str, Form] = {}

    def add(names: str, rule: Rule, *words: str, fix: Callable[[Head], None] | None = None) -> None:
        rows.update(dict.fromkeys(names.split(), Form(rule, words, fix)))

    add(
        "arith.addi arith.subi arith.muli arith.divsi arith.remsi arith.divui arith.remui arith.ceildivsi"
        " arith.ceildivui arith.floordivsi arith.andi arith.ori arith.xori arith.shli arith.shrsi arith.shrui"
        " arith.addf arith.subf arith.mulf arith.divf arith.remf arith.negf arith.maxsi arith.maxui arith.minsi"
        " arith.minui arith.maximumf arith.minimumf arith.maxnumf arith.minnumf arith.select",
        _last,
    )
    add("arith.cmpi arith.cmpf", _compared, "predicate")
    add(
        "arith.extsi arith.extui arith.trunci arith.index_cast arith.index_castui arith.extf arith.sitofp"
        " arith.uitofp arith.fptosi arith.fptoui arith.bitcast",
        _none,
    )
    add("arith.truncf", _none, "roundingmode")
    add("arith.addui_extended", _all)
    add("arith.mului_extended arith.mulsi_extended", _twice)
    add("math.isfinite math.isinf math.isnan math.isnormal", _compared)
    add("math.fpowi", _first)
    add("ub.poison tt.clampf tt.precise_sqrt tt.precise_divf tt.approx_divf tt.mulhiui tt.make_range", _last)
    add("tt.get_program_id tt.get_num_programs", _last, "axis")
    add("tt.fp_to_fp tt.bitcast tt.ptr_to_int tt.int_to_ptr tt.splat tt.expand_dims tt.broadcast tt.trans", _none)
    add("tt.cat tt.join tt.dot tt.gather tt.histogram tt.extern_elementwise", _none)
    add("tt.addptr tt.make_tensor_ptr tt.advance", _first)
    add("tt.unsplat", _element)
    add("tt.split", _none)
    add("tt.reshape", _none, fix=_flags)
    add("tt.load", _loaded)
    add("tt.store", _none)
    add("tt.atomic_rmw", _none, "kind", "sem", "scope")
    add("tt.atomic_cas tt.atomic_load tt.atomic_store", _none, "sem", "scope")
    add("tt.atomic_poll", _none, "sem", "scope", "timeout")
    add("tt.dot_scaled", _none, fix=_dot_scaled)
    add("tt.make_tensor_descriptor", _descriptor)
    add("tt.descriptor_load tt.descriptor_gather tt.descriptor_scatter", _none)
    add("tt.descriptor_store", _none, fix=_source_second)
    add("tt.descriptor_reduce", _none, "kind", fix=_source_second)
    add("tt.elementwise_inline_asm", _none, "asm_string")
    add("tt.print", _none, "prefix")
    add("tt.assert", _none, "message")
    add("cf.assert", _none, "msg")
    add("tt.call", _none, "callee")
    add("tt.return tt.reduce.return tt.scan.return tt.map_elementwise.return scf.yield scf.condition", _none)
    add("llvm.intr.assume", _none)
    for name in ("gpu.barrier", "ub.unreachable", "tt.grid_dependency_wait", "tt.grid_dependency_launch_dependents"):
        rows[name] = Form(_none, bare=True)
    rows["ttg.barrier"] = Form(_none, ("addrspace",), _spaces, bare=True)
    return rows


FORMS = _rows()
_MATH = Form(_last)


def form_of(name: str) -> Form | None:
    """The row of an op, or None where its custom form is not known. Functions of `math` all read alike."""
    return FORMS.get(name) or (_MATH if name.startswith("math.") else None)


def results_of(name: str, form: Form, listed: list[Type], given: list[Type] | None) -> list[Type]:
    """The types of an op's results, from those listed and those after `->` or `to`."""
    types = form.rule(listed) if given is None else given
    return types * 2 if name == "tt.split" and len(types) == 1 else types


# --- attributes --------------------------------------------------------------------------------------------------

# Names as TableGen has them -> ours.
RENAMED = {
    "atomic_rmw_op": "kind",
    "cacheModifier": "cache",
    "evictionPolicy": "evict",
    "a_elem_type": "lhs_elem_type",
    "b_elem_type": "rhs_elem_type",
    "lhs": "lhs_elem_type",
    "rhs": "rhs_elem_type",
    "unsignedCmp": "unsigned",
}
_WITH_HINTS = ("tt.load", "tt.store", "tt.descriptor_load", "tt.descriptor_store", "tt.descriptor_gather")
_RENAMING_OPS = frozenset({*_WITH_HINTS, "tt.atomic_rmw", "tt.dot_scaled", "scf.for"})


def _numbered(words: str, start: int = 0) -> dict[int, str]:
    return dict(enumerate(words.split(), start))


_SEM = _numbered("relaxed acquire release acq_rel", 1)
_SCOPE = _numbered("gpu cta sys", 1)
_HINTS = {
    "cache": _numbered("none ca cg wb cs wt cv", 1),
    "evict": _numbered("evict_normal evict_first evict_last", 1),
    "padding": _numbered("zero nan", 1),
}
_ELEMENTS = _numbered("e4m3 e5m2 e2m3 e3m2 e2m1 bf16 fp16")
_ATOMIC = {"sem": _SEM, "scope": _SCOPE}

# Enumerations stand as words in custom forms, and as numbers in attribute dictionaries.
_ENUMS: dict[str, dict[str, dict[int, str]]] = {
    "arith.cmpi": {"predicate": _numbered("eq ne slt sle sgt sge ult ule ugt uge")},
    "arith.cmpf": {"predicate": _numbered("false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true")},
    "arith.truncf": {"roundingmode": _numbered("to_nearest_even downward upward toward_zero to_nearest_away")},
    **dict.fromkeys(_WITH_HINTS, _HINTS),
    "tt.make_tensor_descriptor": _HINTS,
    "tt.atomic_rmw": {"kind": _numbered("and or xor add fadd max min umax umin exch", 1), **_ATOMIC},
    "tt.atomic_cas": _ATOMIC,
    "tt.atomic_load": _ATOMIC,
    "tt.atomic_store": _ATOMIC,
    "tt.atomic_poll": _ATOMIC,
    "tt.descriptor_reduce": {"kind": _numbered("add min max inc dec and or xor", 1)},
    "tt.fp_to_fp": {"rounding": _numbered("rtz rtne")},
    "tt.clampf": {"propagateNan": {0: "none", 0xFFFF: "all"}},
    "tt.dot": {"inputPrecision": _numbered("tf32 tf32x3 ieee bf16x3 bf16x6")},
    "tt.dot_scaled": {"lhs_elem_type": _ELEMENTS, "rhs_elem_type": _ELEMENTS},
}
_PROGRAM = frozenset({"tt.get_program_id", "tt.get_num_programs"})
_NORMALISED = _RENAMING_OPS | _ENUMS.keys() | _PROGRAM | {"tt.call"}
_AXES = {"x": 0, "y": 1, "z": 2}
_UNSAID = {"cache": "none", "evict": "evict_normal"}


def keeps_names(name: str) -> bool:
    """Whether the attributes of an op are kept as they are written."""
    return name not in _NORMALISED


def normalise(name: str, attributes: Attributes) -> None:
    """Brings the attributes of an op, from either form and any release, under the names and values that stages read.

    Raises:
        ValueError: for a number that the enumeration of an attribute does not have.
    """
    if name not in _NORMALISED:
        return
    if name in _RENAMING_OPS:
        _rename(attributes)
    enums = _ENUMS.get(name)
    if enums is not None:
        for key, names in enums.items():
            value = attributes.get(key)
            if isinstance(value, int) and not isinstance(value, bool):
                if value not in names:
                    raise ValueError(f"{key} = {value} of {name} is not known")
                attributes[key] = names[value]
        if enums is _HINTS:
            for key, usual in _UNSAID.items():
                if attributes.get(key) == usual:
                    del attributes[key]
    elif name in _PROGRAM:
        attributes["axis"] = _AXES.get(attributes["axis"], attributes["axis"])
    elif name == "tt.call":
        attributes["callee"] = symbol(attributes["callee"])


def _rename(attributes: Attributes) -> None:
    policy = attributes.pop("cachePolicy", None)
    if isinstance(policy, str):  # `#tt.cache_policy<cache_modifier = ca, eviction_policy = evict_first>`, from 3.9
        fields = dict(item.split(" = ") for item in policy.partition("<")[2][:-1].split(", "))
        attributes |= {"cache": fields["cache_modifier"], "evict": fields["eviction_policy"]}
    for old in RENAMED.keys() & attributes.keys():
        attributes[RENAMED[old]] = attributes.pop(old)


def symbol(token: str) -> str:
    """The name that a symbol token `@f` or `@"f.g"` means; other text stays."""
    if token.startswith('@"'):
        return unquote(token[1:])
    return token.removeprefix("@")


def array_elements(body: str) -> tuple[Any, ...]:
    """The Python values of `array<body>`, e.g. `i32: 0, 1`."""
    kind, _, items = body.partition(":")
    words = [item.strip() for item in items.split(",") if item.strip()]
    if kind == "i1":
        return tuple(word in ("true", "1") for word in words)
    convert: Callable[[str], Any] = float if kind.startswith(("f", "bf")) else int
    return tuple(convert(word) for word in words)


def check_words(head: Head, names: Sequence[str]) -> None:
    """Stores the bare words of a head under their names. Raises ValueError for a word too many."""
    if len(head.words) > len(names):
        raise ValueError(f"unexpected word {head.words[len(names)]}")
    head.attributes.update(zip(names, head.words, strict=False))
