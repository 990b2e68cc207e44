"""What is made of benchmark results: tables, the page, comparisons. The numbers are invented."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rich")

import compare
import goals
import page
import report
from measure import Timing, interleaved
from rich.console import Console


def row(name: str = "gelu", ours: float = 1.0, ratio: float = 0.5, threads: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "kind": "row", "key": name, "name": name, "threads": threads, "ms": {"ours": ours, "torch": ours / ratio},
        "ratio": {"torch": ratio}, "ratio_tuned": {}, "goals": [["torch", 0.75]], "flops": 100.0, "bytes": 8.0,
        "bound": "arithmetic", "note": "torch: its own", "left_out": {}, "typical": "BLOCK=1", "chosen": "", **more,
    }  # fmt: skip


OTHERS: list[dict[str, Any]] = [
    {"kind": "compile", "name": "k", "ms": 20.0, "limit": 60.0, "arena_bytes": 4096, "code_bytes": 10},
    {"kind": "family", "name": "f", "sizes": "1, 2", "small_ms": 10.0, "large_ms": 16.0, "arena_bytes": [0, 64]},
    {"kind": "cached", "name": "c", "ms": 3.0, "front_end_ms": 0.0, "cold_ms": 30.0},
    {"kind": "launch", "name": "l", "us": 2.0, "limit": 3.0},
    {"kind": "ceiling", "name": "memory", "per_second": 1e10, "unit": "byte/s"},
    *(
        {
            "kind": "sweep",
            "name": "s",
            "kernel": kernel,
            "size": size,
            "units": size,
            "unit": "element",
            "ms": {"ours": ms, "torch": 2.0 * size},
            "alone_ms": ms - 1.0,
            "bytes": 8 * size,
            "bound": bound,
            "first_cache": 64,
            "last_cache": 8192,
        }
        for kernel, bound, size, ms in (
            ("grow", "memory", 4, 99.0),  # smaller than the first cache
            ("grow", "memory", 8, 17.0),
            ("grow", "memory", 1024, 1025.0),
            ("grow", "memory", 2048, 9999.0),  # larger than the last
            ("matmul f32", "arithmetic", 512, 512.0),
            ("matmul f32", "arithmetic", 2048, 4096.0),
        )
    ),
    {"kind": "failed", "name": "broken", "why": "wrong result"},
]


@pytest.mark.parametrize(
    ("ratio", "tuned", "word"),
    [(0.5, {}, "met"), (0.8, {"torch": 0.7}, "met, tuned"), (0.8, {"torch": 0.9}, "missed"), (0.8, {}, "missed")],
)
def test_verdicts(ratio: float, tuned: dict[str, float], word: str) -> None:
    (found,) = goals.of_row(row(ratio=ratio, ratio_tuned=tuned))
    assert found[-1] == word


def test_a_contender_that_did_not_run_is_no_success() -> None:
    (found,) = goals.of_row(row(goals=[["torch.compile", 2.0]]))
    assert found[-1] == "not run"


def test_terminal_names_everything() -> None:
    console = Console(width=200, file=io.StringIO())
    report.print_tables([row(), row(ours=0.5, threads=2), *OTHERS], console)
    text = console.file.getvalue()
    for part in (
        "gelu",
        "cold compile, k",
        "1.60: missed",
        "broken: wrong result",
        "goal 3.0: met",
        "2.00 times one, goal 1.6: met",
        "grow: the dearest (size 8) is 2.00 times the cheapest (size 1024), 2.12 with the price of a launch; torch 1.00",
        "2048 has 0.50 of the flops a second of 512; goal 0.8: missed",
        "two threads: 1 of 1 met; 0 beyond",
        "table: 5 of 5 met; 0 beyond 1.5 times the goal; 100%, where 85% and none beyond are asked: met",
        "all: 5 of 8 met; 2 beyond 1.5 times the goal",
        "missed, beyond 1.5 times: time against size, grow: 2.00, goal 1.3",
    ):
        assert part in text


def test_goals_of_every_kind_are_counted() -> None:
    slow = row("slow", ratio=1.2, goals=[["torch", 0.75], ["torch.compile", 1.0]])
    tuned = row("tuned", ratio=0.8, ratio_tuned={"torch": 0.7})
    found = {c.kind: c for c in goals.counts([row(), slow, tuned, row(ours=0.9, threads=2), *OTHERS])}
    one = found["one thread"]
    assert (one.met, one.tuned, one.missing, one.far, one.all) == (2, 1, 1, 1, 4)
    assert (found["two threads"].met, found["two threads"].far) == (0, 0)
    assert (found["compile by family"].met, found["compile by family"].far) == (0, 0)
    single = {kind: c.all for kind, c in found.items() if kind not in ("table", "all")}
    assert found["all"].all == sum(single.values())
    assert found["table"].all == sum(single[kind] for kind in goals.TABLE if kind in single)
    assert list(found)[-2:] == ["table", "all"]
    (line,) = (line for line in goals.summary([row(), slow, *OTHERS]) if line.startswith("table:"))
    assert line.endswith("are asked: missed")


def test_a_run_without_goals_says_nothing_of_them() -> None:
    assert list(goals.summary([row(goals=[])])) == []


def test_page_has_every_part() -> None:
    text = "\n".join(page.tables({"machine": {"CPU": "some"}, "results": [row(), *OTHERS]}))
    for part in (
        "| gelu | torch: its own | 1.000 |",
        "| one thread | 1 | 0 | 0 | 0 | 1 |",
        "* all: 4 of 7 met",
        "| k | 20.0 | 60 |",
        "missed",
        "* broken: wrong result",
    ):
        assert part in text


def test_compare_sees_what_became_slower(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / "old.json", tmp_path / "new.json"]
    runs = ([row("a"), row("b"), row("gone")], [row("a", 2.0, 1.0), row("b", 2.0, 0.5)])  # b: the machine was slower
    for path, results in zip(files, runs, strict=True):
        path.write_text(json.dumps({"machine": {}, "results": results}))
    assert compare.main([str(p) for p in files]) == 1
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "SLOWER" in lines["a"] and "SLOWER" not in lines["b"] and "missing" in lines["gone"]
    assert compare.main([str(files[0])] * 2) == 0


def test_plots_are_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    swept = [
        {"kind": "sweep", "name": "s", "kernel": "add", "size": n, "units": n, "unit": "element", "threads": 1,
         "ms": {"ours": n * 1e-6, "torch": n * 2e-6}, "alone_ms": n * 1e-6, "bytes": 4 * n, "bound": "memory",
         "first_cache": 256, "last_cache": 512} for n in (64, 128)
    ]  # fmt: skip
    peak = {"kind": "ceiling", "name": "arithmetic", "per_second": 1e11, "unit": "flop/s"}
    paths = report.write([row(), *OTHERS, peak, *swept], {}, tmp_path)
    assert {p.name for p in paths} >= {"bench.json", "bench.png", "roofline.png", "sweep.png"}
    assert all(p.stat().st_size for p in paths)


def test_ratios_are_of_the_same_round() -> None:
    assert Timing((1.0, 4.0, 9.0)).ratio(Timing((1.0, 2.0, 3.0))) == 2.0


def test_all_contenders_have_their_turns() -> None:
    ticks = iter(range(1000))
    found = interleaved({"a": lambda: None, "b": lambda: None}, 3, lambda: float(next(ticks)), enough=0)
    assert {name: len(t.rounds) for name, t in found.items()} == {"a": 3, "b": 3}
