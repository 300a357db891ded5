"""A project folder and a front end on it, shared by many tests to save its start."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.together.driver import Agent, connected, only_stop, server

# pytest trusts a cached test module of the same size that was written in the same second.
_NO_CACHES = {"PYTHONDONTWRITEBYTECODE": "1"}

SECRET = {"SERVICE_TOKEN": "zq81-attribute-7751"}
"""A variable of the shared bench, which no reply may tell."""

OVER = ("idle", "finished", "crashed")
"""States in which nothing more will happen."""


class Bench:
    """A connected agent and the project its front end serves; `clear` between two tests."""

    def __init__(self, agent: Agent, root: Path) -> None:
        self.agent = agent
        self.root = root

    def write(self, **files: str) -> Path:
        """Write files of the project, named as for `make_project`; the path of the last one."""
        path = self.root
        for name, text in files.items():
            path = self.root / (name if "." in name else f"{name}.py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def test(self, text: str, **options: Any) -> dict[str, Any]:
        """Write `test_it.py` and run it: the reply of `test_run`."""
        self.write(test_it=text)
        return self.run(["test_it.py"], **options)

    def run(self, nodeids: Sequence[str] | None = None, /, **options: Any) -> dict[str, Any]:
        """The reply of `test_run`."""
        if nodeids is not None:
            options["nodeids"] = list(nodeids)
        return self.agent.call("test_run", **options)

    def stop_of(self, text: str, **options: Any) -> dict[str, Any]:
        """Write `test_it.py`, run it, expect it to pause: its one stop."""
        return only_stop(self.test(text, **options))

    def go_on(self, stop: dict[str, Any], **options: Any) -> dict[str, Any]:
        """The reply of `breakpoint_continue` that waited for what comes next."""
        return self.agent.call(
            "breakpoint_continue", pause_id=stop["pause_id"], wait=True, **options
        )

    def eval(self, stop: dict[str, Any], expression: str, **options: Any) -> str:
        """What an expression shows at a pause, errors included."""
        reply = self.agent.call(
            "breakpoint_repl_eval", pause_id=stop["pause_id"], expression=expression, **options
        )
        output = reply["output"]
        assert isinstance(output, str)
        return output

    def breakpoint(self, function_name: str, **options: Any) -> dict[str, Any]:
        """The reply of `breakpoint_add`."""
        return self.agent.call("breakpoint_add", function_name=function_name, **options)

    def until(self, *states: str) -> dict[str, Any]:
        """`debug_state` as soon as it tells one of the states; a run must not end in another."""
        while (now := self.agent.call("debug_state"))["state"] not in states:
            assert now["state"] not in OVER, now
        return now

    def until_paused(self, number: int) -> list[dict[str, Any]]:
        """All pauses as soon as there are so many; the run must not end before."""
        while len(paused := self.agent.call("breakpoint_list_paused")["paused"]) < number:
            assert (now := self.agent.call("debug_state"))["state"] not in OVER, now
        return sorted(paused, key=lambda pause: str(pause["id"]))

    def events(self, *types: str, **options: Any) -> list[dict[str, Any]]:
        """Of the newest run in the timeline, all types or these; as many as a reply holds."""
        asked: dict[str, Any] = {"types": list(types)} if types else {}
        asked |= {"run_id": self.agent.call("debug_state")["run_id"], "max_chars": 200_000}
        return self.agent.call("timeline_get", **asked | options)["events"]  # type: ignore[no-any-return]

    def results(self, **options: Any) -> dict[str, dict[str, Any]]:
        """`test_results` by the node id behind the file name."""
        reply = self.agent.call("test_results", **options)
        return {test["nodeid"].partition("::")[2]: test for test in reply["tests"]}

    def listed(self, id: str) -> dict[str, Any]:
        """What `breakpoint_list` tells of one breakpoint."""
        known = self.agent.call("breakpoint_list")["breakpoints"]
        return {each["id"]: each for each in known}[id]  # type: ignore[no-any-return]

    def clear(self) -> None:
        """End what runs, take breakpoints out and delete the files: nothing reaches the next."""
        if self.agent.call("debug_state")["state"] not in OVER:
            self.agent.call("test_stop", mode="kill")
        # A test may have left more than one list has room for.
        while page := self.agent.call("breakpoint_list", max_chars=100_000)["breakpoints"]:
            for known in page:
                self.agent.call("breakpoint_remove", id=known["id"])
        self.agent.call("breakpoint_set_default_behavior", behavior="stop")
        for path in sorted(self.root.rglob("*"), reverse=True):
            if path.is_dir():
                path.rmdir()
            elif path.name != "pytest.ini":
                path.unlink()
            else:
                path.write_text("", encoding="utf-8")


@contextmanager
def workbench(
    root: Path, *arguments: str, mode: str = "auto", env: dict[str, str] | None = None
) -> Iterator[Bench]:
    """A bench with a fresh front end; `arguments` go to `pytest --cideldill-mcp`."""
    root.mkdir(exist_ok=True)
    (root / "pytest.ini").touch()
    with connected(server(root, *arguments, env=_NO_CACHES | (env or {})), mode) as agent:
        yield Bench(agent, root)
