"""The next calls that replies propose can be made as they are written, for any name of a test."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.together.conftest import MakeProject
from tests.together.opened import opened
from tests.together.records import recorded
from tests.together.workbench import Bench

PROPOSAL = re.compile(r"(?P<tool>[a-z_]+) (?P<parameters>\{.*\}): .")

CODE = """
    import pytest

    def größe(text): return len(text)
    def unused(text): return text

    @pytest.mark.parametrize("text", ['say "a" {b}: c', "tab\\t", "ü"])
    def test_größe(text):
        assert größe(text) == 99
    """

ASKED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("test_why", {}),
    ("test_trace", {}),
    ("test_trace", {"function": "größe"}),
    ("test_watch", {"expression": "text"}),
    ("test_diff", {"against": "auto"}),
    ("test_experiment", {"experiments": [{"return": {"function": "größe", "value": 99}}]}),
    ("test_results", {}),
    ("exception_get_context", {}),
)


def proposals_of(reply: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Tools and parameters; those that are to be filled in, or given in words, are left out."""
    found = []
    for text in reply.get("next", []):
        if "{" in text and "…" not in text:
            match = PROPOSAL.search(text)
            assert match is not None, text
            found.append((match["tool"], json.loads(match["parameters"])))
    return found


@pytest.mark.full
@pytest.mark.parametrize("number", range(3))
def test_what_is_proposed_can_be_called_as_it_is_written(bench: Bench, number: int) -> None:
    bench.write(test_odd=CODE)
    agent = bench.agent
    seen = proposals_of(bench.run(["test_odd.py"], pause_on="never"))
    nodeid = agent.call("test_results", outcome="failed")["tests"][number]["nodeid"]
    for tool, more in ASKED:
        key, value = ("nodeids", [nodeid]) if tool == "test_experiment" else ("nodeid", nodeid)
        reply = agent.raw(tool, {key: value, **more})  # test_diff refuses: no test passes
        seen += proposals_of(json.loads(reply.content[0].text))
    named = {parameters["nodeid"] for _, parameters in seen if "nodeid" in parameters}
    assert nodeid in named
    assert {tool for tool, _ in seen} <= {tool.name for tool in agent.tools()}


@pytest.mark.full
def test_what_an_opened_record_proposes_can_be_called_too(make_project: MakeProject) -> None:
    root = make_project(test_odd=CODE)
    recorded(root)
    with opened(root, root / "rec") as bench:
        proposed = dict(proposals_of(bench.agent.call("debug_state")))
        assert bench.agent.call("exception_get_context", **proposed["exception_get_context"])
