"""The comparison of the shared cases with the list of expected failures can fail, both ways."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import run_shared


def fake_cases(folder: Path, *lines: str) -> None:
    (folder / "cases").mkdir()
    body = "\n".join(f"print({line!r})" for line in lines)
    (folder / "cases" / "run_all.py").write_text(body + "\n")


@pytest.mark.parametrize(
    ("listed", "status", "said"),
    [
        ("cases/b_case: not built yet\n", 0, "1 failed, 1 of them expected to"),
        ("# nothing\n", 1, "UNEXPECTED FAILURE cases/b_case"),
        ("cases/b_case: x\ncases/a_case: y\n", 1, "UNEXPECTED PASS cases/a_case"),
        ("cases/b_case: x\ngpu_truth/other: not run here\n", 0, "1 failed, 1 of them"),
    ],
)
def test_outcome(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    listed: str,
    status: int,
    said: str,
) -> None:
    fake_cases(tmp_path, "PASS a_case", "FAIL b_case | got=1 want=2", "1 passed, 1 failed")
    known = tmp_path / "expected_failures.txt"
    known.write_text(listed)
    monkeypatch.setattr(run_shared, "LIST", known)
    monkeypatch.setattr(sys, "argv", ["run_shared.py", str(tmp_path)])
    assert run_shared.main() == status
    assert said in capfd.readouterr().out


def test_a_program_that_ends_without_its_count_is_an_error(tmp_path: Path) -> None:
    fake_cases(tmp_path, "PASS a_case")
    with pytest.raises(SystemExit, match="without its count"):
        run_shared.failures(tmp_path)


def test_the_list_needs_reasons() -> None:
    with pytest.raises(ValueError, match="a reason must follow"):
        run_shared.expected("cases/a_case:\n")
    run_shared.expected(run_shared.LIST.read_text())


def test_prune_takes_off_what_passes() -> None:
    text = "# why\ncases/a_case: x\ncases/b_case: y\n"
    assert run_shared.prune(text, {"cases/a_case"}) == "# why\ncases/b_case: y\n"
