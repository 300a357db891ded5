"""Asks about a case: the command `cideldill why`, what its answer proposes, pytest by itself."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.evidence_cases.cases import Case
from benchmarks.spine import RawClient
from tests.together.real_package import environment

COMMAND: Final = (sys.executable, "-m", "cideldill_mcp.commands.main")
"""The command `cideldill`, of this interpreter."""

ANSWER_S: Final = 180.0
PYTEST_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its answer.

    Attributes:
        question: As the answer before proposed it.
        refused: Why there is no answer, if there is none.
    """

    question: str
    text: str
    seconds: float
    parts: list[str] = field(default_factory=list)
    suspects: list[dict[str, Any]] = field(default_factory=list)
    proposals: list[str] = field(default_factory=list)
    refused: str = ""


def why(case: Case, root: Path) -> Asked:
    """The first question."""
    return _commanded(case, root, ["why", case.failing])


def further(case: Case, root: Path, proposals: Sequence[str]) -> Iterator[Asked]:
    """Proposed questions: `tool {"name": "value"}: why`, or `cideldill …: why`.

    Tools are called on one server, as an agent's client has it.
    """
    with ExitStack() as stack:
        client: RawClient | None = None
        for each in proposals:
            if each.startswith("cideldill "):
                yield _commanded(case, root, shlex.split(each.partition(": ")[0])[1:])
                continue
            if client is None:
                client = stack.enter_context(RawClient(root, env=_environment(case, root)))
                client.initialize()
            yield _called(client, each)


def _commanded(case: Case, root: Path, words: Sequence[str]) -> Asked:
    begun = time.perf_counter()
    done = _run(case, root, [*COMMAND, *words, "--json"], ANSWER_S)
    seconds = time.perf_counter() - begun
    question = f"cideldill {shlex.join(words)}"
    try:
        reply = json.loads(done.stdout)
    except ValueError:
        return Asked(question, "", seconds, refused=(done.stderr or done.stdout)[-600:].strip())
    if "text" not in reply:
        return Asked(question, "", seconds, refused=str(reply.get("message", reply)))
    parts, suspects, proposals = (reply.get(key) or [] for key in ("parts", "suspects", "next"))
    return Asked(question, reply["text"], seconds, parts, suspects, proposals)


def _called(client: RawClient, proposed: str) -> Asked:
    tool, _, rest = proposed.partition(" ")
    arguments, _ = json.JSONDecoder().raw_decode(rest)
    question = f"{tool} {json.dumps(arguments)}"
    begun = time.perf_counter()
    result = client.request("tools/call", {"name": tool, "arguments": arguments})
    seconds = time.perf_counter() - begun
    content = result["content"][0]["text"]
    if result.get("isError"):
        return Asked(question, "", seconds, refused=f"{question}: {content[:400]}")
    return Asked(question, json.loads(content)["text"], seconds)


def pytest_says(case: Case, root: Path, option: str) -> str:
    """What pytest prints, without this plugin; of all tests of the case if the order matters."""
    tests = case.selected if case.needs_order else [case.failing]
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:cideldill"]
    return _run(case, root, [*words, option, *tests], PYTEST_S).stdout


def _run(
    case: Case, root: Path, command: Sequence[str], seconds: float
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=root,
        env=_environment(case, root),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
        timeout=seconds,
    )


def _environment(case: Case, root: Path) -> dict[str, str]:
    """States of the command are kept beside the project."""
    states = {"XDG_STATE_HOME": str(root.parent / "states"), "COLUMNS": "100"}
    return environment(*(root / case.source,) * case.is_real) | states | _path()


def _path() -> dict[str, str]:
    """The command `cideldill` is found where this interpreter is."""
    beside = str(Path(sys.executable).parent)
    return {"PATH": os.pathsep.join([beside, os.environ.get("PATH", "")])}
