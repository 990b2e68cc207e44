"""The verdict, on made-up measurements: nothing is timed here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from omnikernel.worth import report
from omnikernel.worth.verdict import Agreement, Compiled, Measured, Outcome, Timing, judge


def steady(milliseconds: float) -> Timing:
    return Timing((milliseconds * 1e-3,) * 5)


# An elementwise operator on 8 MB: torch.compile makes one kernel of it that moves every byte once.
GELU = Measured(
    "mylib::gelu",
    Agreement(1e-7, 1e-4, 1e-5),
    eager=steady(3.0),
    compiled=steady(1.02),
    ours=steady(1.0),
    copy=steady(0.7),
    made=Compiled(1, (), 8_000_000),
    least_bytes=8_000_000,
)
# Attention: the matrix of scores goes through memory, between two products of the library.
ATTENTION = Measured(
    "mylib::attention",
    Agreement(1e-6, 1e-4, 1e-5),
    eager=steady(60.0),
    compiled=steady(40.0),
    ours=steady(14.0),
    copy=steady(0.5),
    made=Compiled(3, ("bmm", "bmm"), 90_000_000),
    least_bytes=8_000_000,
    flops=10**9,
    flop_rate=1e11,
)


def test_torch_compile_does_as_well() -> None:
    verdict = judge(GELU)
    assert (verdict.outcome, verdict.rival) == (Outcome.even, "compiled")
    assert verdict.ratio == pytest.approx(1 / 1.02)
    assert verdict.text.startswith("torch.compile does as well as mylib::gelu: the operator takes 0.98 of the time")
    assert "one kernel, which moves each byte once: no traffic is left for another kernel to save" in verdict.text
    assert (
        "The operator takes 1.4 times as long as a copy of as many bytes on this machine, so little is left to gain"
        in verdict.text
    )
    assert "the reference is less code to keep" in verdict.text and "Keep it" not in verdict.text


def test_the_kernel_earns_its_place() -> None:
    verdict = judge(ATTENTION)
    assert verdict.outcome is Outcome.earns
    assert verdict.text.startswith("mylib::attention earns its place: it takes 0.35 of the time of its reference")
    assert (
        "3 kernels and 2 calls of the library (bmm), which move 11.2 times the bytes that must be moved" in verdict.text
    )
    assert "1.4 times as long as a matrix product of as many operations" in verdict.text
    assert verdict.text.endswith("Keep it.")


def test_traffic_is_what_a_memory_bound_kernel_saves() -> None:
    saves = "What the operator saves is this traffic."
    memory_bound = replace(ATTENTION, flops=0, flop_rate=0.0)
    assert saves in judge(memory_bound).text
    assert saves not in judge(ATTENTION).text  # its time goes into products
    assert saves not in judge(replace(memory_bound, ours=steady(39.0))).text  # it saves nothing


@pytest.mark.parametrize(
    ("ours", "outcome"),
    [(0.5, Outcome.earns), (0.9, Outcome.little), (1.0, Outcome.even), (1.04, Outcome.even), (1.2, Outcome.loses)],
)
def test_outcomes_by_ratio(ours: float, outcome: Outcome) -> None:
    assert judge(replace(GELU, compiled=steady(1.0), ours=steady(ours))).outcome is outcome


def test_noise_widens_what_is_even() -> None:
    noisy = Timing(tuple(1e-3 * r for r in (0.7, 0.8, 0.9, 1.1, 1.2, 0.6, 0.9)))
    verdict = judge(replace(GELU, eager=Timing((3e-3,) * 7), compiled=Timing((1e-3,) * 7), ours=noisy))
    assert verdict.ratio == pytest.approx(0.9) and verdict.margin == pytest.approx(0.2)
    assert verdict.outcome is Outcome.even and "tell 20% apart, not less" in verdict.text


def test_the_ratio_is_taken_round_by_round() -> None:
    """Rounds in which the whole machine was slow change nothing."""
    slow = [1, 1, 1, 5, 5]
    both = {name: Timing(tuple(1e-3 * s * f for s in slow)) for name, f in (("compiled", 1.0), ("ours", 0.5))}
    assert judge(replace(GELU, **both)).ratio == pytest.approx(0.5)


def test_plain_torch_is_the_rival_where_it_is_faster_than_compiled() -> None:
    verdict = judge(replace(GELU, eager=steady(0.5)))
    assert (verdict.outcome, verdict.rival, verdict.ratio) == (Outcome.loses, "eager", pytest.approx(2.0))
    assert verdict.text.startswith("Plain torch, without torch.compile, does better than mylib::gelu")
    assert "only where there is no torch, as" in verdict.text


def test_a_wrong_operator_is_never_praised() -> None:
    wrong = Agreement(3.0, 1e-4, 1e-5, "5 of 10 elements of the result differ")
    verdict = judge(replace(ATTENTION, agreement=wrong))
    assert verdict.outcome is Outcome.wrong
    assert verdict.text.startswith("mylib::attention does not give what its reference gives: 5 of 10 elements")
    assert "earns" not in verdict.text


def test_what_torch_compile_made_is_told() -> None:
    only_calls = judge(replace(ATTENTION, made=Compiled(0, ("aten.topk",), 8_000_000))).text
    assert (
        "torch.compile makes no kernel, but 1 call of the library (aten.topk), which move no more bytes" in only_calls
    )
    unknown = judge(replace(GELU, made=Compiled(2, (), None, breaks=2))).text
    assert "torch.compile makes 2 kernels. It breaks the graph 2 times, and returns to Python there." in unknown
    faster = judge(replace(GELU, ours=steady(0.7))).text
    assert "the gain is in the code of the kernel, not in traffic" in faster


def test_a_call_that_is_mostly_overhead() -> None:
    tiny = replace(GELU, compiled=steady(0.02), ours=steady(0.01), copy=steady(0.001))
    assert "most of that is the call itself, so measure larger arrays too" in judge(tiny).text
    on_a_gpu = replace(GELU, ours=steady(3.0), issue=2.9e-3)
    assert "most of that is the call itself" in judge(on_a_gpu).text
    assert "most of that" not in judge(replace(on_a_gpu, issue=1e-3)).text
    far = replace(GELU, ours=steady(3.0), compiled=steady(3.0))
    assert "4.3 times as long as a copy of as many bytes on this machine; a better kernel could gain" in judge(far).text


def test_nothing_is_said_to_be_left_or_not_where_torch_is_better() -> None:
    text = judge(replace(GELU, ours=steady(1.04), compiled=steady(0.72))).text
    assert "1.5 times as long as a copy of as many bytes on this machine. For torch alone" in text


def test_json_and_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    pytest.importorskip("rich")
    verdict = judge(ATTENTION)
    report.show(ATTENTION, verdict, "mylib::attention(float32[8x64])")
    shown = capsys.readouterr().out
    for part in ("torch.compile", "3 + 2 calls", "mylib::attention", "40 ms", "14 ms", "71%", "earns its place"):
        assert part in shown
    report.write_json(tmp_path / "a.json", ATTENTION, verdict, {"device": "CPU"})
    record = json.loads((tmp_path / "a.json").read_text())
    assert record["ours"] == {"rounds": [0.014] * 5, "seconds": 0.014}
    assert record["verdict"]["outcome"] == "earns its place" and record["made"]["calls"] == ["bmm", "bmm"]
    assert record["floor_seconds"] == pytest.approx(0.01) and record["device"] == "CPU"


def test_plot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    report.plot(tmp_path / "a.png", GELU, "mylib::gelu")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(report.PlotError, match="a plot needs matplotlib: pip install matplotlib"):
        report.plot(tmp_path / "b.png", GELU, "mylib::gelu")
