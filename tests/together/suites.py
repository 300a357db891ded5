"""Released suites that patch, fake, freeze and forbid much, and the ways in which they are run."""

from __future__ import annotations

import dis
import random
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType

from tests.together.driver import connected, server
from tests.together.frontend import FEW_GUESTS
from tests.together.installed import installed
from tests.together.real_package import (
    Breakage,
    Difference,
    Record,
    Release,
    environment,
    recording,
    unpacked,
)
from tests.together.workbench import OVER

SUITE_S = 600.0
WAIT_S = 280.0
"""Of one call; there may be several."""

PAUSES = 3
"""Of each busy function and each process; later calls go on, swapped and told as before."""

ALL_GUESTS = {"PYTEST_ADDOPTS": ""}


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of a release.

    Attributes:
        libraries: What they need, by keys of `installed.VERSIONS`.
        arguments: Further ones of pytest.
        busy: Dotted names of ten functions that a plain run calls much.
        tests: How many reports of calls there are at least.
        edits: What else of it is not as released, each with its reason.
        different: What is not as without us when its busy functions are swapped.
        guests: Which of our own plugins are loaded.
    """

    release: Release
    libraries: tuple[str, ...]
    arguments: tuple[str, ...]
    busy: tuple[str, ...]
    tests: int
    edits: tuple[Breakage, ...] = ()
    different: tuple[Difference, ...] = ()
    guests: dict[str, str] = field(default_factory=lambda: FEW_GUESTS)


@dataclass(frozen=True, slots=True)
class Bed:
    """An unpacked suite, ready to run.

    Attributes:
        root: Its folder.
        scratch: A folder for what runs leave behind.
        port: One for its servers; node ids may have it.
    """

    suite: Suite
    root: Path
    scratch: Path
    port: int

    def environment(self) -> dict[str, str]:
        """Of each of its runs. Nested runs rewrite their plugins once, and keep them elsewhere."""
        around = environment(*installed(*self.suite.libraries)) | self.suite.guests
        del around["PYTHONDONTWRITEBYTECODE"]
        around["FREE_PORT"] = str(self.port)
        return around | {"PYTHONPYCACHEPREFIX": str(self.scratch / "caches")}

    def user_paths(self) -> str:
        """The argument by which the libraries are user code, whose calls can be recorded."""
        theirs = " ".join(map(str, installed(*self.suite.libraries)))
        return f"--override-ini=cideldill_user_paths={theirs}"

    def run(self, name: str, *arguments: str) -> tuple[Record, str]:
        """A run from the command line: what it reported, and what it printed."""
        record = self.scratch / f"{name}.json"
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *recording(record)]
        done = subprocess.run(
            [*command, *arguments, *self.suite.arguments],
            cwd=self.root,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=SUITE_S,
        )
        assert record.exists(), done.stdout[-2_000:] + done.stderr[-2_000:]
        return Record.read(record), done.stdout

    def served(self) -> tuple[Record, Counter[str]]:
        """A run of the server: what it reported, and how often what paused.

        Each failure and ten busy functions pause; what is paused is released at once.
        """
        record = self.scratch / "served.json"
        pauses: Counter[str] = Counter()
        arguments = [self.user_paths(), *self.suite.arguments]
        with connected(server(self.root, *arguments, env=self.environment())) as agent:
            for name in self.suite.busy:
                agent.call("breakpoint_add", function_name=name)
            reply = agent.call("test_run", args=recording(record), timeout_s=WAIT_S)
            while reply["state"] not in OVER:
                for stop in agent.call("breakpoint_list_paused", max_chars=200_000)["paused"]:
                    what = _what(stop)
                    pauses[what] += 1
                    if what in self.suite.busy and pauses[what] == PAUSES:
                        agent.call("breakpoint_set_behavior", function_name=what, behavior="go")
                    agent.call("breakpoint_continue", pause_id=stop["pause_id"])
                agent.call("breakpoint_wait", timeout_ms=int(WAIT_S * 1_000))
                reply = agent.call("debug_state")
            assert (reply["state"], reply.get("warnings")) == ("finished", None), reply
        return Record.read(record), pauses

    def recorded(self) -> tuple[Record, str]:
        """A recorded run, with the calls of the busy functions and hits on their first lines."""
        reported = [f"--cideldill-trace={place}" for place in self.first_lines()]
        calls = [f"--cideldill-record-calls={name}" for name in self.suite.busy]
        kept = f"--cideldill-record={self.scratch / 'kept'}"
        return self.run("recorded", kept, self.user_paths(), *reported, *calls)

    def first_lines(self) -> Iterator[str]:
        """Of each busy function, as tracepoints that tell an argument."""
        for name in self.suite.busy:
            yield _tracepoint(name, [self.root, *installed(*self.suite.libraries)])


def bed_of(suite: Suite, folder: Path) -> Bed:
    """A fresh copy in a folder."""
    root = unpacked(suite.release, folder)
    for edit in suite.edits:
        edit.apply(root)
    return Bed(suite, root, folder, _free_port())


def _free_port() -> int:
    """Below those that systems give to whoever connects."""
    for number in random.sample(range(15_000, 30_000), 100):
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", number)):
                return number
    raise AssertionError("each of a hundred ports is in use")


def _what(stop: dict[str, object]) -> str:
    call = stop.get("call_data")
    return str(call["qualified_name"]) if isinstance(call, dict) else "failure"


def _tracepoint(name: str, folders: list[Path]) -> str:
    """At the first line that has code, if the file is in one of the folders."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        for folder in folders:
            stem = folder.joinpath(*parts[:length])
            for file in (stem.with_suffix(".py"), stem / "__init__.py"):
                if file.is_file():
                    code = _code(file, ".".join(parts[length:]))
                    where = file.relative_to(folder) if folder == folders[0] else file
                    shown = "{" + code.co_varnames[0] + "}" if code.co_argcount else "called"
                    return f"{where}:{_first_line(code)}={shown}"
    raise AssertionError(f"no file of {name}")


def _first_line(code: CodeType) -> int:
    """Behind `RESUME`, which is on the line of the `def`."""
    found = list(dis.get_instructions(code))
    resumed = [each.opname for each in found].index("RESUME")
    lines = [each.positions.lineno for each in found[resumed + 1 :] if each.positions]
    return next(line for line in lines if line)


def _code(file: Path, qualname: str) -> CodeType:
    codes = [compile(file.read_text("utf-8"), str(file), "exec")]
    while codes:
        code = codes.pop()
        if code.co_qualname == qualname:
            return code
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
    raise AssertionError(f"no {qualname} in {file}")
