"""docs/tour.md says what the code does today."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def make_tour() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_tour", ROOT / "tools" / "make_tour.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tour_is_up_to_date(make_tour: ModuleType) -> None:
    now, present = make_tour.tour(refresh=False), make_tour.TOUR.read_text()
    assert now == present, "out of date: run `python tools/make_tour.py` and read what changed"


def test_locations_are_left_out(make_tour: ModuleType) -> None:
    text = '#loc = loc("a.py":1:0)\nmodule {\n  %x = foo %y : i32 loc(callsite(#loc1 at #loc2))\n} loc(#loc)\n'
    assert make_tour.without_locations(text) == "module {\n  %x = foo %y : i32\n}"


def test_links_in_the_documents_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
        links = [link for link in re.findall(r"\]\(([^)#]+)\)", prose) if "://" not in link]
        missing = [link for link in links if not (page.parent / link).exists()]
        assert not missing, f"{page.name}: {missing}"
