"""The op schema: one row an op.

A row says how many operands, results and regions the op takes, what it does to memory, whether it ends a block, and
what it means, with its source. The verifier, the passes and the tests read it; a lowering (`lower/`) and a NumPy
meaning (`reference/`) are registered under the same name, and a test keeps the three key sets equal.
"""

from __future__ import annotations

from dataclasses import dataclass

MANY = 10**6


class Effect:
    """What an op does beyond its results, as bits. Plain integers: passes ask for all pairs of ops, and enums are slow."""

    NONE = 0
    READ = 1  # reads memory
    WRITE = 2  # writes memory
    ORDER = 4  # orders other effects (atomics, barriers)
    HOST = 8  # visible outside memory: print, assert


@dataclass(frozen=True, slots=True)
class Row:
    """The schema of one op.

    `kind` groups ops by how they are lowered: 'elementwise' (same meaning lane by lane, also on scalars), 'shape'
    (moves elements), 'memory', 'reduce', 'lookup' (elements found by other elements), 'dot', 'control', 'program',
    'debug'.
    `operands` and `results` are (least, most).
    """

    name: str
    kind: str
    operands: tuple[int, int]
    results: tuple[int, int]
    doc: str
    effect: int = Effect.NONE
    regions: int = 0
    terminator: bool = False

    @property
    def pure(self) -> bool:
        return self.effect == Effect.NONE and self.regions == 0 and not self.terminator


SCHEMA: dict[str, Row] = {}


def _add(
    kind: str,
    names: str,
    operands: int | tuple[int, int],
    results: int | tuple[int, int],
    doc: str,
    effect: int = Effect.NONE,
    regions: int = 0,
    terminator: bool = False,
) -> None:
    for name in names.split():
        least_most = (operands, operands) if isinstance(operands, int) else operands
        made = (results, results) if isinstance(results, int) else results
        SCHEMA[name] = Row(name, kind, least_most, made, doc, effect, regions, terminator)


# Sources: https://mlir.llvm.org/docs/Dialects/ArithOps/, MathOps, SCFDialect, ControlFlowDialect, UBOps;
# https://triton-lang.org/main/dialects/TritonOps.html
_add("elementwise", "arith.constant", 0, 1, "A scalar, or a dense tensor (attribute `value`: Constant).")
_add("elementwise", "arith.addi arith.subi arith.muli", 2, 1, "Integer ring; wraps at the width (i1: mod 2).")
_add(
    "elementwise",
    "arith.divsi arith.remsi",
    2,
    1,
    "Signed, truncating toward zero. x/0 = -1, x%0 = x, min/-1 = min, min%-1 = 0; never traps.",
)
_add("elementwise", "arith.divui arith.remui", 2, 1, "Unsigned. x/0 = all ones, x%0 = x; never traps.")
_add("elementwise", "arith.ceildivsi arith.ceildivui arith.floordivsi", 2, 1, "Integer division rounded up or down.")
_add("elementwise", "arith.andi arith.ori arith.xori", 2, 1, "Bitwise.")
_add("elementwise", "arith.shli arith.shrsi arith.shrui", 2, 1, "Shifts; past the width: 0, or the sign for shrsi.")
_add(
    "elementwise",
    "arith.addf arith.subf arith.mulf arith.divf",
    2,
    1,
    "IEEE, one rounding to the type; f16 and bf16 round after each op.",
)
_add("elementwise", "arith.remf", 2, 1, "C fmod: exact, the sign of the dividend.")
_add("elementwise", "arith.negf", 1, 1, "Flips the sign bit.")
_add("elementwise", "arith.cmpi", 2, 1, "Attribute `predicate`: eq ne slt sle sgt sge ult ule ugt uge.")
_add(
    "elementwise",
    "arith.cmpf",
    2,
    1,
    "Attribute `predicate`: false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true.",
)
_add(
    "elementwise",
    "arith.select",
    3,
    1,
    "Second operand where the first (i1 tensor, or one i1 for whole tiles), else the third.",
)
_add(
    "elementwise",
    "arith.extsi arith.extui arith.trunci arith.index_cast arith.index_castui",
    1,
    1,
    "Integer width changes.",
)
_add(
    "elementwise",
    "arith.extf arith.truncf",
    1,
    1,
    "Float width changes; truncf rounds to nearest even unless attribute `roundingmode` is toward_zero.",
)
_add("elementwise", "arith.sitofp arith.uitofp", 1, 1, "Integer to float, one rounding to nearest even.")
_add("elementwise", "arith.fptosi arith.fptoui", 1, 1, "Truncates; saturates out of range, NaN gives 0.")
_add("elementwise", "arith.bitcast", 1, 1, "Reinterprets bits of one width.")
_add("elementwise", "arith.maxsi arith.maxui arith.minsi arith.minui", 2, 1, "Integer order.")
_add("elementwise", "arith.maximumf arith.minimumf", 2, 1, "NaN if either is NaN; -0 is below +0.")
_add("elementwise", "arith.maxnumf arith.minnumf", 2, 1, "The other operand if one is NaN; -0 is below +0.")
_add("elementwise", "arith.addui_extended", 2, 2, "Sum and carry (i1).")
_add("elementwise", "arith.mului_extended arith.mulsi_extended", 2, 2, "Low and high half of the double-width product.")
_add(
    "elementwise",
    "math.exp math.exp2 math.log math.log2 math.sin math.cos math.sqrt math.rsqrt math.erf math.floor math.ceil math.absf math.absi",
    1,
    1,
    "See lower/math.py for each function's bound in ulp.",
)
_add("elementwise", "math.fma", 3, 1, "a * b + c with one rounding.")
_add(
    "elementwise",
    "tt.fp_to_fp",
    1,
    1,
    "Float conversion incl. fp8; attribute `rounding` (rtne, rtz) where it narrows; narrowing to fp8 saturates.",
)
_add(
    "elementwise",
    "tt.clampf",
    3,
    1,
    "min(max(x, lo), hi); attribute `propagateNan` (none, all), `nan` (high) by passes/clip.py.",
)
_add("elementwise", "tt.precise_sqrt", 1, 1, "Correctly rounded square root.")
_add("elementwise", "tt.precise_divf", 2, 1, "Correctly rounded quotient.")
_add("elementwise", "tt.mulhiui", 2, 1, "High half of the unsigned product.")
_add("elementwise", "tt.extern_elementwise", (1, 4), 1, "A libdevice function, by attribute `symbol`.")
_add("elementwise", "tt.addptr", 2, 1, "Pointer plus offset in elements; the offset is sign-extended.")
_add("elementwise", "tt.bitcast tt.ptr_to_int tt.int_to_ptr", 1, 1, "Reinterprets pointers and integers.")
_add("elementwise", "ub.poison", 0, 1, "An undefined value; 0 here.")

_add("shape", "tt.make_range", 0, 1, "i32 [start, end) (attributes `start`, `end`).")
_add("shape", "tt.splat", 1, 1, "One scalar everywhere.")
_add("shape", "tt.unsplat", 1, 1, "The element of a one-element tensor.")
_add("shape", "tt.expand_dims", 1, 1, "Inserts an extent of 1 at `axis`.")
_add("shape", "tt.broadcast", 1, 1, "Repeats along extents of 1.")
_add("shape", "tt.reshape", 1, 1, "Row-major reinterpretation; `allow_reorder` is not used.")
_add("shape", "tt.trans", 1, 1, "Permutes dimensions: result dim i is source dim order[i].")
_add(
    "shape",
    "tile.flip tile.partner",
    1,
    1,
    "The other element along `axis`, whose extent is 2. Made by passes/exchange.py; a partner is read in its own block.",
)

_add("shape", "tt.join", 2, 1, "A new innermost extent of 2: the first operand at 0, the second at 1.")
_add("shape", "tt.split", 1, 2, "The inverse of tt.join: what lies at 0 and at 1 of the innermost extent.")
_add("shape", "tt.cat", 2, 1, "One after the other along the outermost dimension.")

_add("memory", "tt.load", (1, 3), 1, "Pointers, mask, other. A masked-off lane gives other, or 0.", Effect.READ)
_add("memory", "tt.store", (2, 3), 0, "Pointers, values, mask.", Effect.WRITE)
_add(
    "memory",
    "tt.atomic_rmw",
    (2, 3),
    1,
    "Attribute `kind`: and or xor add fadd max min umax umin exch. Gives the old value; 0 where masked off.",
    Effect.READ | Effect.WRITE | Effect.ORDER,
)
_add(
    "memory",
    "tt.atomic_cas",
    3,
    1,
    "Pointer, expected, desired; gives the old value.",
    Effect.READ | Effect.WRITE | Effect.ORDER,
)

_add("reduce", "tt.reduce", (1, MANY), (1, MANY), "Combines along `axis` by its region.", regions=1)
_add(
    "reduce",
    "tt.scan",
    (1, MANY),
    (1, MANY),
    "Running combinations along `axis` by its region, the earlier one as its first operand; attribute `reverse`.",
    regions=1,
)
_add(
    "reduce",
    "tt.map_elementwise",
    (1, MANY),
    (1, MANY),
    "Runs its region on `pack` consecutive elements at a time, in row-major order.",
    regions=1,
)
_add(
    "lookup",
    "tt.gather",
    2,
    1,
    "Source, indices (unsigned): result[.., i, ..] = source[.., indices[.., i, ..], ..] along `axis`; past the end: the last.",
)
_add(
    "lookup",
    "tt.histogram",
    (1, 2),
    1,
    "Values, mask: i32 counts of each of 0, 1, .. n - 1; other values, and masked-off ones, do not count.",
)
_add(
    "lookup",
    "tile.network",
    1,
    1,
    "A tile, flat: attribute `steps` holds (bit, side, turned) of compare-and-swaps and halvings. Made by passes/network.py.",
)
_add(
    "dot",
    "tt.dot",
    3,
    1,
    "a (.., M, K) times b (.., K, N) plus c (.., M, N), also a batch of them; products and sums in the type of c.",
)
_add(
    "dot",
    "tt.dot_scaled",
    (3, 5),
    1,
    "A dot of micro-scaled operands: a, b, c and the scales there are, by attributes `has_lhs_scale`, `has_rhs_scale`.",
)

_add("control", "scf.for", (3, MANY), (0, MANY), "lower, upper, step, initial values; attribute `unsigned`.", regions=1)
_add("control", "scf.while", (0, MANY), (0, MANY), "Region 0 ends in scf.condition, region 1 in scf.yield.", regions=2)
_add("control", "scf.if", 1, (0, MANY), "Two regions; the second may have no blocks.", regions=2)
_add(
    "control",
    "scf.yield tt.reduce.return tt.scan.return tt.map_elementwise.return tt.return",
    (0, MANY),
    0,
    "Ends a region with its values.",
    terminator=True,
)
_add(
    "control",
    "scf.condition",
    (1, MANY),
    0,
    "Goes on while the first operand is true; passes the rest on.",
    terminator=True,
)
_add("control", "cf.br", 0, 0, "Jumps (successor operands are the block's arguments).", terminator=True)
_add("control", "cf.cond_br", 1, 0, "Jumps to the first successor if true, else to the second.", terminator=True)
_add(
    "control",
    "tt.call",
    (0, MANY),
    (0, MANY),
    "Calls the function of attribute `callee`.",
    Effect.READ | Effect.WRITE | Effect.ORDER,
)

_add("program", "tt.get_program_id tt.get_num_programs", 0, 1, "Attribute `axis`: 0, 1 or 2.")
_add("debug", "ttg.barrier gpu.barrier", 0, 0, "A fence within the program.", Effect.ORDER)
_add("debug", "llvm.intr.assume", 1, 0, "A promise; not needed for correctness.")
_add(
    "debug",
    "tt.assert",
    (1, 2),
    0,
    "Fails the launch with attribute `message` where the first operand is false.",
    Effect.HOST,
)
_add(
    "debug",
    "tt.print",
    (0, MANY),
    0,
    "A line an element on standard output, with program and index; attributes `prefix`, `hex`, `isSigned`.",
    Effect.HOST,
)
