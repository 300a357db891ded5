"""Sessions of Streamable HTTP: streams that are asked for again, and sessions that nobody uses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cideldill_mcp.transports.http import MAX_SESSIONS
from tests.together.conftest import MakeProject
from tests.together.frontend import DEADLINE_S, module_command, wait_until
from tests.together.test_http_life import BUSY, FAILING
from tests.together.web import Place, next_event, tool_call, web_end

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks into /proc")

FAILS = f"{BUSY}        assert 0\n"

HEARD = ["sh", "-c", 'exec "$0" "$@" 2> stderr', *module_command()]


def complaints(project: Path) -> list[str]:
    """What the server wrote to stderr after its address."""
    return (project / "stderr").read_text(encoding="utf-8").splitlines()[1:]


def status(place: Place, session: dict[str, str]) -> int:
    """Of a call within a session."""
    return place.post(tool_call("debug_state"), headers=session).status


@pytest.mark.full
def test_a_stream_that_is_asked_for_again_is_a_new_one(make_project: MakeProject) -> None:
    """Clients name the last event that they had; events are not kept, so that is passed over."""
    project = make_project(test_it=FAILING)
    with web_end(project, command=HEARD) as (_, place):
        session = place.session()
        with place.stream(headers=session | {"Last-Event-ID": "7"}) as events:
            assert place.post(tool_call("test_run"), headers=session).status == 200
            stop = next_event(events, ["debugger/breakpointHit"])
            assert stop["params"]["pauseId"] == "r1.main.1"
        assert complaints(project) == []


@pytest.mark.full
def test_of_many_sessions_the_one_that_was_unused_longest_ends(make_project: MakeProject) -> None:
    """Not one whose stream is open, nor one whose call is under way; the run goes on."""
    project = make_project(test_it=FAILS)
    with web_end(project, command=HEARD) as (_, place):
        streaming, waiting, used, unused, ended = (place.session() for _ in range(5))
        assert place.request("DELETE", headers=place.usual(ended)).status == 200
        with (
            place.stream(headers=streaming) as events,
            place.under_way(tool_call("test_run", timeout_s=DEADLINE_S), headers=waiting),
        ):
            wait_until((project / "reached").exists, "the call is under way")
            further = [place.session() for _ in range(MAX_SESSIONS - 2)]
            assert [status(place, each) for each in (used, unused, used)] == [200, 200, 200]
            further += [place.session() for _ in range(2)]
            reported = [status(place, each) for each in further]
            assert reported == [404, 404] + [200] * (MAX_SESSIONS - 2)
            further += [place.session() for _ in range(MAX_SESSIONS - 1)]
            reported = [status(place, each) for each in (used, unused, streaming, waiting)]
            assert reported == [404, 404, 200, 200]
            (project / "go on").touch()
            stop = next_event(events, ["debugger/breakpointHit"])
            assert stop["params"]["pauseId"] == "r1.main.1"
        assert complaints(project) == []
