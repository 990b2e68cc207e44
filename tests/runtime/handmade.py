"""Kernels for the runtime's tests, written by hand in LLVM IR with the ABI that `pipeline.Artefact` documents."""

from __future__ import annotations

from functools import cache

from omnikernel.ir.types import Pointer, Scalar
from omnikernel.llvm import jit
from omnikernel.pipeline import Artefact, Options, Parameter

HEAD = "(ptr %args, ptr %grid, i64 %first, i64 %last, ptr %arena, ptr %fault)"

# A loop over the programs around a body that sees %p; the body must fall through to %next.
LOOP = """
define i32 @{name}{head} {{
entry:
  br label %head
head:
  %p = phi i64 [ %first, %entry ], [ %p.next, %next ]
  %more = icmp slt i64 %p, %last
  br i1 %more, label %body, label %exit
body:
{body}
next:
  %p.next = add i64 %p, 1
  br label %head
exit:
  ret i32 0
}}
"""


def slot(index: int, type_: str = "ptr") -> str:
    """IR that loads argument slot `index` as %a<index>."""
    return f"  %s{index} = getelementptr i64, ptr %args, i64 {index}\n  %a{index} = load {type_}, ptr %s{index}\n"


# out[p] = x[p] + y[p] where p < n, with an i32 n in slot 3.
ADD = (
    "".join(slot(i) for i in range(3))
    + slot(3, "i32")
    + """
  %n = sext i32 %a3 to i64
  %in = icmp slt i64 %p, %n
  br i1 %in, label %do, label %next
do:
  %xp = getelementptr float, ptr %a0, i64 %p
  %yp = getelementptr float, ptr %a1, i64 %p
  %op = getelementptr float, ptr %a2, i64 %p
  %x = load float, ptr %xp
  %y = load float, ptr %yp
  %r = fadd float %x, %y
  store float %r, ptr %op
  br label %next
"""
)

# counts[p] += 1, by an atomic; touches the whole arena of 256 bytes, which must be aligned to 64.
COUNT = (
    slot(0)
    + """
  %address = ptrtoint ptr %arena to i64
  %low = and i64 %address, 63
  %aligned = icmp eq i64 %low, 0
  br i1 %aligned, label %do, label %next
do:
  call void @llvm.memset.p0.i64(ptr %arena, i8 -1, i64 256, i1 false)
  %cp = getelementptr i32, ptr %a0, i64 %p
  %old = atomicrmw add ptr %cp, i32 1 seq_cst
  br label %next
"""
)

# Program p waits until turn == p, then sets turn = p + 1: progress needs increasing order of programs.
TURN = (
    slot(0)
    + """
  br label %spin
spin:
  %t = load atomic i64, ptr %a0 seq_cst, align 8
  %mine = icmp eq i64 %t, %p
  br i1 %mine, label %do, label %spin
do:
  %t1 = add i64 %p, 1
  store atomic i64 %t1, ptr %a0 seq_cst, align 8
  br label %next
"""
)

# out[i] = slot i + 1, for 8 slots: what the launcher packed.
ECHO = (
    slot(0)
    + "".join(
        f"  %e{i} = getelementptr i64, ptr %args, i64 {i + 1}\n  %v{i} = load i64, ptr %e{i}\n"
        f"  %o{i} = getelementptr i64, ptr %a0, i64 {i}\n  store i64 %v{i}, ptr %o{i}\n"
        for i in range(8)
    )
    + "  br label %next\n"
)

# Fails assert 2 in every program p >= n.
FAIL = """
define i32 @fail(ptr %args, ptr %grid, i64 %first, i64 %last, ptr %arena, ptr %fault) {
entry:
  %n = load i64, ptr %args
  br label %head
head:
  %p = phi i64 [ %first, %entry ], [ %p.next, %next ]
  %more = icmp slt i64 %p, %last
  br i1 %more, label %body, label %exit
body:
  %bad = icmp sge i64 %p, %n
  br i1 %bad, label %failed, label %next
next:
  %p.next = add i64 %p, 1
  br label %head
failed:
  %p32 = trunc i64 %p to i32
  store i32 %p32, ptr %fault
  %fy = getelementptr i32, ptr %fault, i64 1
  store i32 0, ptr %fy
  %fz = getelementptr i32, ptr %fault, i64 2
  store i32 0, ptr %fz
  ret i32 2
exit:
  ret i32 0
}
"""
DECLARATIONS = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n"


@cache
def compiled(name: str, body: str) -> bytes:
    """Object code of a hand-written kernel."""
    text = body if body.lstrip().startswith("define") else LOOP.format(name=name, head=HEAD, body=body)
    return jit.compile_object(DECLARATIONS + text, jit.host_target())


def f32(name: str, written: bool = False) -> Parameter:
    """A `*fp32` parameter, read unless written."""
    return Parameter(name, Pointer(Scalar("f32")), read=not written, written=written)


def add(options: Options = Options(disjoint=True), cost: float = 5.0) -> Artefact:  # noqa: B008  (frozen)
    """x[p] + y[p] -> out[p], one element a program."""
    parameters = (f32("x"), f32("y"), f32("out", written=True), Parameter("n", Scalar("i32")))
    return Artefact("add", compiled("add", ADD), parameters, 0, cost=cost, texts={"ttir": "add ttir"}, options=options)


def count(cost: float = 0.0) -> Artefact:
    """Count how often each program ran; needs 256 bytes of scratch."""
    parameter = Parameter("counts", Pointer(Scalar("i32")), read=True, written=True)
    return Artefact("count", compiled("count", COUNT), (parameter,), 256, cost=cost)


def turn() -> Artefact:
    """Programs that wait for each other in order."""
    parameter = Parameter("turn", Pointer(Scalar("i64")), read=True, written=True)
    return Artefact("turn", compiled("turn", TURN), (parameter,), 0)


def fail() -> Artefact:
    """Every program from `n` on fails the second assert."""
    asserts = ("kernel.py:3: never", "kernel.py:7: index out of range")
    return Artefact("fail", compiled("fail", FAIL), (Parameter("n", Scalar("i64")),), 0, asserts)


def echo(*types: Scalar) -> Artefact:
    """Writes the slots of its (up to 8) scalar parameters to `out`, an int64 array."""
    out = Parameter("out", Pointer(Scalar("i64")), written=True)
    scalars = tuple(Parameter(f"a{i}", type_) for i, type_ in enumerate(types))
    padding = tuple(Parameter(f"pad{i}", Scalar("i64")) for i in range(8 - len(types)))
    return Artefact("echo", compiled("echo", ECHO), (out, *scalars, *padding), 0)
