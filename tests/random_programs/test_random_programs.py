"""Random kernels: the reference runs them, and compiled code agrees with it bit for bit."""

from __future__ import annotations

import os

import numpy as np
import pytest
from program_comparison import differences, options_of, run_compiled, run_reference
from program_drawer import Program
from random_programs import draw

from omnikernel import pipeline, reference
from omnikernel.ir.printer import print_kernel
from omnikernel.ir.tile import Kernel
from omnikernel.passes.clip import clip
from omnikernel.passes.contract import contract
from omnikernel.passes.uncarry import uncarry
from omnikernel.ttir.parse import parse

BATCH = 10


def seeds(config: pytest.Config) -> list[range]:
    first = config.getoption("--program-seed", None) or int(os.environ.get("OMNIKERNEL_TEST_PROGRAM_SEED", "0"))
    count = config.getoption("--programs", None) or int(os.environ.get("OMNIKERNEL_TEST_PROGRAMS", "1000"))
    return [range(low, min(low + BATCH, first + count)) for low in range(first, first + count, BATCH)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "batch" in metafunc.fixturenames:
        batches = seeds(metafunc.config)
        metafunc.parametrize("batch", batches, ids=[f"{b.start}-{b.stop - 1}" for b in batches])


def kernel_of(program: Program, fp_fusion: bool) -> Kernel:
    """What the reference runs: the text as it stands, or with products and sums fused."""
    kernel = clip(parse(program.text))
    return contract(kernel) if fp_fusion else kernel


def test_compiled_code_agrees_with_the_reference(batch: range) -> None:
    for seed in batch:
        program, options = draw(seed), options_of(seed)
        want = run_reference(kernel_of(program, options.fp_fusion), program)
        try:
            found = differences(want, run_compiled(pipeline.compile_text(program.text, options), program))
        except Exception as error:
            pytest.fail(f"program {seed}, {options}: {type(error).__name__}: {error}\n{program.text}")
        if found:
            pytest.fail(
                "\n".join(
                    [
                        f"program {seed}, {options}, grid {program.grid} (shrink.py makes it small):",
                        *found,
                        program.text,
                    ]
                )
            )


def test_passes_keep_the_meaning() -> None:
    for seed in range(40):
        program = draw(seed)
        kernel = parse(program.text)
        want, got = run_reference(kernel, program), run_reference(uncarry(kernel), program)
        found = differences(want, got)
        assert not found, "\n".join([f"uncarry, program {seed}:", *found, program.text])


def test_printing_and_reading_again_keep_the_meaning() -> None:
    for seed in range(40):
        program = draw(seed)
        kernel = parse(program.text)
        found = differences(run_reference(kernel, program), run_reference(parse(print_kernel(kernel)), program))
        assert not found, "\n".join([f"printer, program {seed}:", *found, program.text])


def test_a_seed_gives_one_program() -> None:
    first, again = draw(5), draw(5)
    assert first.text == again.text
    one, two = first.copy_arguments(), again.copy_arguments()
    assert [np.asarray(a).tobytes() for a in one] == [np.asarray(a).tobytes() for a in two]
    assert draw(6).text != first.text


def test_programs_write_and_stay_in_bounds() -> None:
    """Every access lies in an array of the arguments; most programs change memory."""

    class Bounds:
        def __init__(self, arrays: list[np.ndarray]) -> None:
            self.spans = sorted((a.ctypes.data, a.ctypes.data + a.nbytes) for a in arrays)
            self.lows = np.array([low for low, _ in self.spans])
            self.highs = np.array([high for _, high in self.spans])

        def load(self, op: object, addresses: np.ndarray, mask: np.ndarray, width: int) -> None:
            touched = addresses[mask]
            at = np.searchsorted(self.lows, touched, "right") - 1
            assert (at >= 0).all() and (touched + width <= self.highs[at]).all(), op

        store = atomic = load

        def program(self, x: int, y: int, z: int) -> None: ...

        def branch(self, op: object, taken: bool) -> None: ...

    changed = 0
    for seed in range(60):
        program = draw(seed)
        arguments = program.copy_arguments()
        slots = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]
        arrays = [a for a in arguments if isinstance(a, np.ndarray)]
        whole = [a for a in arrays if a.base is None]  # parts of arrays lie inside them
        reference.run(parse(program.text), slots, program.grid, observer=Bounds(whole))
        before = [a.tobytes() for a in program.copy_arguments() if isinstance(a, np.ndarray)]
        changed += [a.tobytes() for a in arrays] != before
    assert changed > 40


def test_the_comparison_finds_a_difference() -> None:
    a = np.array([1.0, np.nan, 0.0], np.float32)
    assert differences([a], [a.copy()]) == []
    assert differences([a], [np.array([1.0, -np.nan, -0.0], np.float32)]) != []
    assert "[0]" in differences([np.array([1])], [np.array([2])])[0]
