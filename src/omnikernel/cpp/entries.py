"""The C functions through which launches reach the user's functions.

In: a source's functions. Out: C++ text that is compiled after the source. Every entry has the form of a compiled kernel (see
`omnikernel.artefact.Artefact`): 64-bit slots for the arguments, the grid, a range of programs, scratch, and where to put
a failure. So the thread pool and the XLA handler run C++ and Triton kernels alike. A program is a block of the grid.

Slots: those of the parameters in order (a view: address, sizes, strides), then for a kernel the block's x, y, z and the bytes
of dynamic shared memory, for a function the address of its result; last the address of the report.
"""

from __future__ import annotations

from collections.abc import Sequence

from .emulation import Emulated
from .source import Function, Parameter, Type

_PREFIXED = {"f16", "bf16", "f8e4m3", "f8e5m2"}
_HEAD = """extern "C" __attribute__((visibility("default"))) int32_t ok_entry_{name}(
    const uint64_t *ok_a, const int32_t *ok_grid, int64_t ok_first, int64_t ok_last, void *ok_arena, void *ok_fault) {{
"""


def slots(type_: Type) -> int:
    """How many slots a parameter of this type takes."""
    return 1 + 2 * type_.rank if type_.form == "view" else 1


def library_entries() -> str:
    """What a library exports beside its functions."""
    return (
        'extern "C" __attribute__((visibility("default"))) void ok_set_pool(void *pool) {\n'
        "    ok::detail::pool = (ok::detail::Pool)pool;\n}\n"
    )


def spelled(type_: Type) -> str:
    """An element type in C++."""
    return f"ok::{type_.cpp}" if type_.cpp in _PREFIXED else type_.cpp


def _value(parameter: Parameter, slot: int, unit: str) -> str:
    type_ = parameter.type
    const = "const " if type_.const else ""
    if type_.form == "view":
        kind = "ok::Restrict" if type_.restrict else "ok::Shared"
        inner = f"{const}{spelled(type_)}, {type_.rank}, {kind}, {unit}"
        return f'ok::detail::view<{inner}>(ok_a + {slot}, "{parameter.name}")'
    if type_.form == "pointer":
        return f"({const}{spelled(type_)} *)(uintptr_t)ok_a[{slot}]"
    return f"ok::detail::scalar<{spelled(type_)}>(ok_a + {slot})"


def _values(function: Function, unit: str) -> tuple[list[str], int]:
    """An expression for each parameter, and the slot after the last."""
    found, slot = [], 0
    for parameter in function.parameters:
        found.append(_value(parameter, slot, unit))
        slot += slots(parameter.type)
    return found, slot


def function_entry(function: Function) -> str:
    """The entry of a C++ function: one program."""
    values, end = _values(function, "false")
    call = f"{function.call}({', '.join(values)})"
    if function.result is not None:
        result = spelled(function.result)
        call = f"{result} ok_r = {call};\n        memcpy((void *)(uintptr_t)ok_a[{end}], &ok_r, sizeof ok_r)"
    return (
        _HEAD.format(name=function.name)
        + "    (void)ok_grid, (void)ok_first, (void)ok_last, (void)ok_arena, (void)ok_fault;\n"
        + f"    try {{\n        {call};\n"
        + "    } catch (const std::exception &ok_e) {\n"
        + f"        ok::detail::report(ok_a[{end + 1}], 0, ok_e.what());\n        return 1;\n"
        + "    } catch (...) {\n"
        + f'        ok::detail::report(ok_a[{end + 1}], 0, "an exception that is no std::exception");\n        return 1;\n'
        + "    }\n    return 0;\n}\n"
    )


def kernel_entry(kernel: Function, source: Emulated, checked: bool) -> str:
    """The entry of a CUDA kernel: a program is a block. Checked kernels always have fibers, which can be left anywhere."""
    base = kernel.call.split("<")[0].split("::")[-1]
    return _fiber_entry(kernel) if checked or base in source.fibers else _loop_entry(kernel, source)


def _loop_entry(kernel: Function, source: Emulated) -> str:
    """Plain loops over threadIdx, in two forms: all last strides 1 and a grid below 2^20 in x, and any.

    The masks tell the compiler that `blockIdx.x * blockDim.x + threadIdx.x` does not wrap, so that accesses are
    consecutive and not gathers. A thread knows no order among threads, so iterations are independent.
    """
    values, end = _values(kernel, "ok_unit")
    names = [f"ok_v{i}" for i in range(len(values))]
    body = "".join(f"            const auto {n} = {v};\n" for n, v in zip(names, values, strict=True))
    arguments = ", ".join([*names, "ok_t", "ok_b", "ok_bd", "ok_gd"])
    outside = "threadIdx = ok_t; " if source.outside else ""
    trips = end_of_trips = trip = ""
    if kernel.call.split("<")[0].split("::")[-1] in source.strided:
        # All threads take a step of their loop, then the next, while the first of them has one.
        first = "const uint3 ok_t = {0, 0, 0}; bool ok_on;"
        probe = f"{kernel.call}({arguments}, ok_trip, &ok_on);"
        trips = f"        for (int ok_trip = 0;; ok_trip++) {{\n            {first} {outside}{probe}\n            if (!ok_on) break;\n"
        end_of_trips, trip = "        }\n", ", ok_trip"
    independent = "            OK_INDEPENDENT\n" if source.independent else ""
    unit, slot = ["ok_grid[0] <= 0x100000"], 0
    for parameter in kernel.parameters:
        n = parameter.type.rank
        if parameter.type.form == "view":
            unit.append(f"(ok_a[{slot + 2 * n}] == 1 || ok_a[{slot + n}] <= 1)")
        slot += slots(parameter.type)
    template = f"""template <bool ok_unit> static inline __attribute__((always_inline)) int32_t ok_run_{kernel.name}(
    const uint64_t *ok_a, const int32_t *ok_grid, int64_t ok_first, int64_t ok_last, void *ok_fault) {{
    const uint3 ok_bd = {{(unsigned)ok_a[{end}] & 2047, (unsigned)ok_a[{end + 1}] & 2047, (unsigned)ok_a[{end + 2}] & 127}};
    const unsigned ok_gx = ok_unit && ok_grid[0] > 0x100000 ? 0x100000 : (unsigned)ok_grid[0];
    const uint3 ok_gd = {{ok_gx, (unsigned)ok_grid[1] & 0xffff, (unsigned)ok_grid[2] & 0xffff}};
    blockDim = ok_bd, gridDim = ok_gd;
    return ok::detail::run_blocks(ok_grid, ok_first, ok_last, ok_a[{end + 4}], (int32_t *)ok_fault, [&](uint3 ok_at) {{
            const uint3 ok_b = {{ok_unit ? ok_at.x & 0xfffff : ok_at.x, ok_at.y & 0xffff, ok_at.z & 0xffff}};
{body}{trips}        for (unsigned ok_z = 0; ok_z < ok_bd.z; ok_z++)
            for (unsigned ok_y = 0; ok_y < ok_bd.y; ok_y++)
{independent}                for (unsigned ok_x = 0; ok_x < ok_bd.x; ok_x++) {{
                    const uint3 ok_t = {{ok_x, ok_y, ok_z}};
                    {outside}{kernel.call}({arguments}{trip});
                }}
{end_of_trips}    }});
}}
"""
    return (
        template
        + _HEAD.format(name=kernel.name)
        + f"    (void)ok_arena;\n    return {' && '.join(unit)}\n"
        + f"        ? ok_run_{kernel.name}<true>(ok_a, ok_grid, ok_first, ok_last, ok_fault)\n"
        + f"        : ok_run_{kernel.name}<false>(ok_a, ok_grid, ok_first, ok_last, ok_fault);\n}}\n"
        + _scratch(kernel.name, "0")
    )


def _fiber_entry(kernel: Function) -> str:
    values, end = _values(kernel, "false")
    arguments = ", ".join([*values, "ok_t", "ok_c.at", "ok_c.bd", "ok_c.gd"])
    return f"""namespace ok_fibers_{kernel.name} {{
struct Context {{ const uint64_t *a; uint3 at, bd, gd; }};
static void body(const void *ok_p, uint3 ok_t) {{
    const Context &ok_c = *(const Context *)ok_p;
    const uint64_t *ok_a = ok_c.a;
    (void)ok_a;
    ::{kernel.call}({arguments});
}}
}}
{_HEAD.format(name=kernel.name)}    ok_fibers_{kernel.name}::Context ok_c = {{ok_a, {{0, 0, 0}},
        {{(unsigned)ok_a[{end}], (unsigned)ok_a[{end + 1}], (unsigned)ok_a[{end + 2}]}},
        {{(unsigned)ok_grid[0], (unsigned)ok_grid[1], (unsigned)ok_grid[2]}}}};
    blockDim = ok_c.bd, gridDim = ok_c.gd;
    ok::detail::Launch ok_l = {{{{ok_c.bd.x, ok_c.bd.y, ok_c.bd.z}}, {{ok_c.gd.x, ok_c.gd.y, ok_c.gd.z}},
        (unsigned)ok_a[{end + 3}], "{kernel.name}"}};
    ok::detail::Block ok_b = {{}};
    ok_b.launch = &ok_l, ok_b.body = &ok_fibers_{kernel.name}::body, ok_b.context = &ok_c;
    return ok::detail::run_blocks(ok_grid, ok_first, ok_last, ok_a[{end + 4}], (int32_t *)ok_fault, [&](uint3 ok_at) {{
        ok_c.at = ok_at;
        ok::detail::run_fibers(&ok_b, (char *)ok_arena);
    }});
}}
{_scratch(kernel.name, "ok::detail::fiber_bytes")}"""


def _scratch(name: str, value: str) -> str:
    """The scratch that a thread of a block needs, for the launch to multiply and hand over."""
    return f'extern "C" __attribute__((visibility("default"))) const uint64_t ok_scratch_{name} = {value};\n'


def translation_unit(
    text: str, file: str, functions: Sequence[Function], emulated: Emulated | None, first: bool, checked: bool
) -> str:
    """All that the compiler reads for one source: header, the source under its own name and lines, the entries."""
    header = "omnikernel.h" if emulated is None else "omnikernel_cuda_cpu.h"
    parts = [f'#include "{header}"\n#line 1 "{file}"\n', text, '\n#line 1 "entries"\n']
    if first:
        parts.append(library_entries())
    for function in functions:
        parts.append(kernel_entry(function, emulated, checked) if emulated is not None else function_entry(function))
    return "".join(parts)
