"""What a compile does to the process that it runs in: nothing that lasts."""

import gc
from collections.abc import Iterator

import pytest

from omnikernel import pipeline
from omnikernel.errors import ParseError

TEXT = """\
module {
  tt.func public @kernel(%x: !tt.ptr<f32>) attributes {noinline = false} {
    %0 = arith.constant 1.000000e+00 : f32
    tt.store %x, %0 : !tt.ptr<f32>
    tt.return
  }
}
"""


@pytest.fixture(autouse=True)
def searching() -> Iterator[None]:
    yield
    gc.enable()


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("text", [TEXT, "module {"])
def test_the_search_for_garbage_is_as_it_was(text: str, before: bool) -> None:
    (gc.enable if before else gc.disable)()
    try:
        pipeline.compile_text(text, pipeline.Options())
    except ParseError:
        assert text != TEXT
    assert gc.isenabled() == before


def test_the_search_for_garbage_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    lower = pipeline.lower_kernel
    monkeypatch.setattr(pipeline, "lower_kernel", lambda *args: (seen.append(gc.isenabled()), lower(*args))[1])
    pipeline.compile_text(TEXT, pipeline.Options())
    assert seen == [False]
