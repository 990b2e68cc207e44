"""Runs PyTorch's own tests of user-defined Triton kernels on the CPU, from a checkout that you have.

    python tools/torch_conformance.py PYTORCH_CHECKOUT            # or test/inductor/test_triton_kernels.py itself
    python tools/torch_conformance.py PYTORCH_CHECKOUT --workers 2 -k "views or autotune"

The file must be of the torch that is installed, or near it. None of its code is in this repository: the tests are told
that the GPU is the CPU (`torch_conformance_plugin.py`), and `torch_conformance_table.py` says which of them ask for what
only a GPU has. Writes docs/conformance-torch.md. It needs pytest and expecttest.

    -k EXPR                  as pytest's
    --records FILE           keep every outcome there; cases that it has already are not run again
    --page PATH              where to write the page ("-": to the terminal only)
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from conformance import Batch, Place, Result, collect, earlier, first_match, revision_of, row, run_batch, tell
from torch_conformance_table import GPU_ONLY, NOT_OURS, REFUSED

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "conformance-torch.md"
FILE = Path("test") / "inductor" / "test_triton_kernels.py"
CHUNK = 60


@dataclass(frozen=True)
class TorchPlace(Place):
    """A folder with the test file, and where this run keeps its files."""

    def command(self, paths: list[str], *extra: str) -> list[str]:
        """Pytest on the file, deaf to whatever configuration surrounds it."""
        alone = ("-c", os.devnull, "--rootdir", str(self.tests), "--confcutdir", str(self.tests))
        quiet = ("-q", "--tb=short", "-p", "no:cacheprovider", "-p", "torch_conformance_plugin")
        return [sys.executable, "-m", "pytest", *alone, *quiet, *extra, *(str(self.tests / path) for path in paths)]

    def environment(self, records: Path, selected: Path | None = None) -> dict[str, str]:
        """Graphs are compiled anew, since tests look at what is compiled; C++ headers are compiled once, not once a test."""
        caches = {
            "INDUCTOR_TEST_DISABLE_FRESH_CACHE": "1",
            "TORCHINDUCTOR_CACHE_DIR": str(self.scratch / "inductor"),
            "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
            "TORCHINDUCTOR_AUTOGRAD_CACHE": "0",
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
        }
        return {**super().environment(records, selected), **caches}


def classify(case: str, result: Result) -> Result:
    """Pytest's outcome in the page's terms."""
    if result.kind in ("skipped", "xfailed"):
        return Result("not applicable", result.error.removeprefix("Skipped: ") or "skipped", result.text)
    if result.kind == "failed":
        happened = f"{case}\n{result.error}\n{result.text}"
        if reason := first_match(REFUSED, happened):
            return Result("refused", reason, result.text)
        if reason := first_match(NOT_OURS, happened):
            return Result("failed", reason, result.text)
    return result


def page(revision: str, results: dict[str, Result]) -> str:
    """The page: a table of classes, then every reason."""
    import torch
    import triton
    from torch.version import git_version

    kinds = Counter(result.kind for result in results.values())
    applicable = kinds["passed"] + kinds["failed"] + kinds["refused"]
    lines = [
        "# PyTorch's own tests of user-defined Triton kernels",
        "",
        f"Written by `tools/torch_conformance.py`: torch {torch.__version__}, Triton {triton.__version__}, device `cpu`,",
        f"`test/inductor/test_triton_kernels.py` of PyTorch commit {revision} (that torch is of {str(git_version)[:10]}).",
        f"Of {applicable} cases that need nothing of CUDA, {kinds['passed']} pass "
        f"({100 * kinds['passed'] / max(applicable, 1):.1f} %).",
        "",
        "Refused: the backend says by design that it does not compile the kernel. Not applicable: skipped by the test itself,",
        "or a test of what only a GPU has. `tools/torch_conformance_plugin.py` has all that is done to the tests' surroundings.",
        "",
        "Again: `python tools/torch_conformance.py PYTORCH_CHECKOUT`; it needs pytest and expecttest.",
        "",
        "| class | passed | failed | refused | not applicable |",
        "|---|---|---|---|---|",
    ]
    classes: dict[str, Counter[str]] = {}
    for case, result in results.items():
        classes.setdefault(case.split("::")[1], Counter())[result.kind] += 1
    lines += [f"| {name} {row(counts)}" for name, counts in sorted(classes.items())]
    lines.append(f"| **all** {row(kinds)}")
    for kind, title in (("failed", "Failed"), ("refused", "Refused"), ("not applicable", "Not applicable")):
        lines += ["", f"## {title}", ""]
        chosen = {case.split("::")[-1]: result for case, result in results.items() if result.kind == kind}
        reasons: dict[str, list[str]] = {}
        for name, result in chosen.items():
            first = next((line for line in result.error.splitlines() if line.strip()), "no message")
            reasons.setdefault(first.replace("|", "\\|")[:200], []).append(name)
        if not chosen:
            lines.append("None.")
            continue
        lines += ["| cases | reason | tests |", "|---|---|---|"]
        for reason, names in sorted(reasons.items()):
            shown = ", ".join(f"`{name}`" for name in sorted(names))
            lines.append(f"| {len(names)} | {reason} | {shown} |")
    return "\n".join(lines) + "\n"


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Runs PyTorch's tests of user-defined Triton kernels on the CPU.")
    parser.add_argument("checkout", type=Path, help="a PyTorch checkout, or the test file itself")
    parser.add_argument("-k", dest="expression", default="")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for one case")
    parser.add_argument("--revision", default="", help="the file's commit, where it is not in a git repository")
    parser.add_argument("--page", default=str(PAGE))
    parser.add_argument("--records", type=Path, help="JSON lines of every outcome; what is in it is not run")
    return parser.parse_args()


def main() -> int:
    """Run, write the page, return 1 where something failed."""
    options = arguments()
    file = options.checkout.resolve()
    file = file if file.is_file() else file / FILE
    if not file.is_file():
        print(f"{options.checkout}: no {FILE} in it; expected a checkout of PyTorch, or that file")
        return 2
    with tempfile.TemporaryDirectory(prefix="conformance-") as scratch, ThreadPoolExecutor(options.workers) as pool:
        place = TorchPlace(file.parent, Path(scratch), options.limit)
        cases, known, _ = collect(place, [file.name], options.expression, False, 1)
        known |= {case: Result("not applicable", reason) for case in cases if (reason := first_match(GPU_ONLY, case))}
        cases = [case for case in cases if case not in known]
        results = known | {c: classify(c, r) for c, r in earlier(options.records, cases).items()}
        cases = [case for case in cases if case not in results]
        batches = [Batch(cases[at : at + CHUNK]) for at in range(0, len(cases), CHUNK)]
        run = lambda numbered: run_batch(place, numbered[1], f"batch{numbered[0]}")  # noqa: E731
        for batch in pool.map(run, enumerate(batches)):
            tell(batch.results, options.records)
            results |= {case: classify(case, result) for case, result in batch.results.items()}
    text = page(options.revision or revision_of(file.parent), results)
    print(text) if options.page == "-" else Path(options.page).write_text(text, encoding="utf-8")
    return int(any(result.kind == "failed" for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
