"""Who writes hits knows where they are: they need not be read to be summed up."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_cideldill.protocol import Departed, Warned
from pytest_cideldill.records import merge
from pytest_cideldill.records import writer as writer_module
from pytest_cideldill.records.hit_blocks import HitBlock, Stretches
from pytest_cideldill.records.manifest import summarize
from pytest_cideldill.reports.digest import Story
from tests.process.parts import Disk, Part, system_with

KEPT = 20


def written(part: Part) -> None:
    """Four stretches of 500 hits."""
    other, number = part.of("tp-2"), 0
    for _ in range(4):
        part.say(Warned("something"))
        for _ in range(5):
            rows = [part.hit(number + n, f"n={n}") for n in range(100)]
            number += len(rows)
            rows[50] = (other, *rows[50][1:])
            part.add(*rows)
    part.say(Departed())
    part.writer.close()


def reported(story: Story) -> dict[str, tuple[int, list[bytes], bytes | None]]:
    """Of each tracepoint: how many hits, the first ones, the very last."""
    rows = {id: each.hits for id, each in story.tracepoints.items()}
    return {id: (each.count, each.first, [None, *each.last][-1]) for id, each in rows.items()}


def test_what_is_known_is_summed_up_without_reading_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And gives what reading it gives."""
    part = Part(tmp_path)
    written(part)
    stretches = part.writer.stretches
    assert [each.counts for each in stretches] == [{"tp-1": 495, "tp-2": 5}] * 4
    read, known = Story(tmp_path, KEPT), Story(tmp_path, KEPT)
    read.end(summarize(tmp_path, read))
    with monkeypatch.context() as patched:
        patched.setattr(merge, "block_of", _unwanted)
        known.end(summarize(tmp_path, known, stretches))
    assert known.summary == read.summary
    assert known.summary.hits == 2_000
    assert reported(known)["tp-1"][:2] == reported(read)["tp-1"][:2]
    assert reported(known)["tp-1"][2] is not None
    assert reported(known)["tp-1"][2] == reported(read)["tp-1"][2]
    assert reported(known)["tp-2"][:2] == reported(read)["tp-2"][:2]
    assert reported(known)["tp-2"][0] == 20


def _unwanted(text: bytes) -> HitBlock:
    raise AssertionError(text)


def test_nothing_is_known_when_the_disk_did_not_take_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was lost moves what comes later."""
    monkeypatch.setattr(writer_module, "os", system_with(Disk(700, failures=1).write))
    part = Part(tmp_path)
    written(part)
    assert part.writer.stretches == []
    assert summarize(tmp_path).hits < 2_000


def test_short_stretches_are_not_remembered() -> None:
    """Very many other lines may lie between them."""
    stretches = Stretches()
    for at in range(0, 50_000, 500):
        stretches.add(at, at + 400, {"tp-1": 1})
    assert len(stretches.all()) == 1
    stretches.add(60_000, 80_000, {"tp-1": 9})
    for at in range(80_000, 900_000, 10_000):
        stretches.add(at, at + 10_000, {"tp-1": 5})
    first, *others = stretches.all()
    assert (first.start, len(others)) == (60_000, 3)
    assert sum(each.counts.total() for each in (first, *others)) == 9 + 82 * 5
