"""Compile options: what is accepted, and what changes the generated code."""

from __future__ import annotations

import json

import pytest

from omnikernel.backend.options import CPUOptions, parse


def test_gpu_options_do_not_change_the_hash() -> None:
    plain = parse({}).hash()
    for given in (
        {"num_warps": 8},
        {"num_stages": 5},
        {"num_ctas": 2},
        {"maxnreg": 64},
        {"waves_per_eu": 2},
        {"kpack": 2},
    ):
        assert parse(given).hash() == plain


def test_options_that_change_the_code_change_the_hash() -> None:
    plain = parse({}).hash()
    for given in ({"debug": True}, {"enable_fp_fusion": False}, {"default_dot_input_precision": "tf32x3"}):
        assert parse(given).hash() != plain


def test_gpu_only_keywords_are_accepted_and_unknown_ones_are_not() -> None:
    options = parse({"waves_per_eu": 2, "BLOCK": 128, "matrix_instr_nonkdim": 16})
    assert options.__dict__["waves_per_eu"] == 2
    assert "BLOCK" not in options.__dict__  # Triton then looks for it among the kernel's arguments


def test_knobs_that_triton_passes_along_are_accepted() -> None:
    from triton import knobs

    if not hasattr(knobs.compilation, "instrumentation_mode"):
        pytest.skip("this Triton passes no such knob")
    names = [name for name in ("instrumentation_mode", "fpsan_homomorphic_casts") if hasattr(knobs.compilation, name)]
    options = parse(dict.fromkeys(names, "x"))
    assert all(options.__dict__[name] == "x" for name in names)


def test_none_means_not_given() -> None:
    assert parse({"num_warps": None, "enable_fp_fusion": None}) == parse({})


def test_fusion_follows_tritons_knob(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    assert parse({}).enable_fp_fusion is False
    assert parse({"enable_fp_fusion": True}).enable_fp_fusion is True


def test_options_survive_json() -> None:
    options = parse({"waves_per_eu": 2, "debug": True})
    again = parse(json.loads(json.dumps(options.__dict__)))
    assert again == options
    assert again.hash() == options.hash()


@pytest.mark.parametrize("kind", [ValueError, AssertionError])
def test_num_warps_is_a_power_of_two(kind: type[Exception]) -> None:
    with pytest.raises(kind, match="num_warps must be a power of 2, got 3"):
        parse({"num_warps": 3})


def test_warp_size_is_there() -> None:
    assert CPUOptions().warp_size == 32
