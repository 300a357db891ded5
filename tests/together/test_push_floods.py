"""A tight loop with a tracepoint, and everyone it is pushed to: over stdio, HTTP and SSE.

Each client gets all hits in order, or a count of those that were left out. A client on stdio that
does not read at all is in `test_slow_client.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.together.conftest import MakeProject
from tests.together.driver import DEADLINE_S
from tests.together.frontend import FrontEnd, front_end
from tests.together.test_slow_client import peak_memory
from tests.together.tracing import line_of, tracepoint
from tests.together.web import next_event, web_end

HITS = 20_000

HOT = f"""
import pathlib

WORDS = ("plain", "é…😀", "lone \\udce9", 'a "quoted" \\\\ \\n')


def test_hot():
    for number in range({HITS}):
        word = WORDS[number % 4]
        number += 1  # hot
    pathlib.Path("done").touch()
    assert number == 0
"""

TEMPLATE = "{number} {word}"

BREAKPOINT_HIT = "debugger/breakpointHit"

MEMORY = 250 * 2**20
"""Bytes of a front end; see `test_slow_client`."""

Params = dict[str, Any]


def until_the_stop(messages: Iterator[Params]) -> list[Params]:
    """What is pushed of hits, up to the stop of the failed test."""
    pushed: list[Params] = []
    while not pushed or pushed[-1]["type"] == "tracepoint":
        message = next(messages)
        if message.get("method") == BREAKPOINT_HIT:
            pushed.append(message["params"])
    return pushed


def on_pipes(end: FrontEnd) -> Iterator[Params]:
    while True:
        yield end.receive()


def check(pushed: list[Params]) -> None:
    """All hits in order, each pushed or counted by the next one, and the stop behind them."""
    *hits, stop = pushed
    assert stop["pauseId"] is not None
    seqs = [params["seq"] for params in pushed]
    assert seqs == sorted(set(seqs))
    counts = [params["hitCount"] for params in hits]
    left_out = [params.get("coalesced", 0) for params in hits]
    assert counts[-1] == HITS
    assert [n - before - 1 for before, n in zip([0, *counts], counts, strict=False)] == left_out
    for params in hits:
        number, _, word = params["logMessage"].partition(" ")
        assert int(number) == params["hitCount"] - 1
        assert word.startswith(("plain", "é…😀", "lone", "a "))
        word.encode()  # no lone surrogate


@pytest.mark.full
def test_a_client_that_reads_gets_every_hit_in_order(make_project: MakeProject) -> None:
    """Texts that are hard to encode end no connection."""
    with front_end(make_project(test_it=HOT), "-p", "no:cacheprovider") as end:
        end.initialize()
        tracepoint(end, line_of(HOT, "hot"), TEMPLATE)
        end.start("test_run")
        check(until_the_stop(on_pipes(end)))
        assert end.call("debug_state")["counts"]["dropped"] == 0


@pytest.mark.full
def test_every_client_gets_the_same_and_one_that_reads_late_delays_nobody(
    make_project: MakeProject,
) -> None:
    """Over stdio, in two sessions over HTTP and over SSE; the third session reads late."""
    project = make_project(test_it=HOT)
    with (
        web_end(project, "--cideldill-mcp") as (end, place),
        place.stream(headers=place.session()) as one,
        place.stream(headers=place.session()) as two,
        place.stream(headers=place.session()) as late,
        place.sse() as (older, _),
        ThreadPoolExecutor() as pool,
    ):
        end.initialize()
        tracepoint(end, line_of(HOT, "hot"), TEMPLATE)
        end.start("test_run")
        asked = [
            pool.submit(until_the_stop, iter(lambda events=events: next_event(events), None))  # type: ignore[misc]
            for events in (one, two, older)
        ]
        reported = [until_the_stop(on_pipes(end)), *(each.result(DEADLINE_S * 2) for each in asked)]
        assert peak_memory(end) < MEMORY
        reported.append(until_the_stop(iter(lambda: next_event(late), None)))
        for pushed in reported:
            check(pushed)
        # What was pushed to several clients is the same to the letter, but for what was left out.
        known: dict[int, Params] = {}
        for params in (params for pushed in reported for params in pushed):
            alike = {name: value for name, value in params.items() if name != "coalesced"}
            assert known.setdefault(params["seq"], alike) == alike
