"""docs/tour.md says what the code does today."""

from __future__ import annotations

import importlib.util
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
    import re

    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name}: {link}"
