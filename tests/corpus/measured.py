"""What is shown of the corpus, in a recorded run and in a served one, and what of it is wrong.

A secret misses where a piece of its value stands in anything that is shown; a harmless value is a
false alarm where its own test has a tag.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_cideldill.redaction.redactor import Redactor
from tests.corpus.cases import BEYOND, HEX, MARK, Harmless, Planted
from tests.corpus.project import FORMS, PLAIN, PLAIN_FORMS, SECRETS, Project, write
from tests.together.driver import locals_of
from tests.together.frontend import FrontEnd, front_end
from tests.together.records import QUIET, recorded

_PIECE: Final = 8
"""Characters of a value that are a leak."""

_LONG_PIECE: Final = 12
"""The same of hexadecimal ones, of which digests and times hold any eight."""

_ROOM: Final = 200_000
_TAG: Final = "<redacted:"
_WORD: Final = re.compile(rb"[A-Za-z0-9+/]{8,}")

Reported = dict[str, set[str]]
"""Names of cases to the surfaces."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was found.

    Attributes:
        misses: Secrets that were shown, and where.
        alarms: Harmless values that were hidden, and where.
        seconds: Of processor time of each part, with all processes that it started.
        sizes: Bytes of each surface that were looked at.
        secrets: Those that were looked for.
        plain: The harmless ones.
    """

    misses: Reported
    alarms: Reported
    seconds: dict[str, float]
    sizes: dict[str, int]
    secrets: tuple[Planted, ...] = SECRETS
    plain: tuple[Harmless, ...] = PLAIN

    @property
    def recall(self) -> float:
        """The share of the secrets that count which was hidden everywhere."""
        counted = [each.title for each in self.secrets if each.kind != BEYOND]
        return sum(title not in self.misses for title in counted) / len(counted)

    @property
    def false_alarms(self) -> float:
        """The share of the harmless cases that was hidden somewhere."""
        return len(self.alarms) / len(self.plain)

    def report(self) -> str:
        """Figures, and all that is wrong by name."""
        kinds = Counter(each.kind for each in self.secrets)
        missed = Counter(title.partition(":")[0] for title in self.misses)
        counted = sum(kinds.values()) - kinds[BEYOND]
        wrong = sum(missed.values()) - missed[BEYOND]
        lines = [f"recall {self.recall:.1%}: {wrong} of {counted} secrets were shown"]
        lines += [
            f"  {kind}: {missed[kind]} of {count}" + (" (don't count)" if kind == BEYOND else "")
            for kind, count in kinds.items()
        ]
        lines += [f"  miss: {each}" for each in _listed(self.misses, self.secrets)]
        hidden = f"{len(self.alarms)} of {len(self.plain)} harmless values were hidden"
        lines.append(f"false alarms {self.false_alarms:.1%}: {hidden}")
        lines += [f"  hidden: {each}" for each in _listed(self.alarms, self.plain)]
        return "\n".join(lines)


def measure_texts() -> Measured:
    """Only the texts, and only by the redactor itself: in a second, but no more than a hint."""
    pieces = _pieces()
    secrets = tuple(each for each in SECRETS if each.text or each.kind == "file")
    plain = tuple(each for each in PLAIN if each.text or each.kind == "file")
    misses: Reported = {}
    alarms: Reported = {}
    for planted in secrets:
        source = planted.source.replace(MARK, planted.value)
        if planted.title in _in(_hidden(source, planted.whole).encode(), pieces):
            misses[planted.title] = {"text"}
    for harmless in plain:
        if _TAG in _hidden(harmless.source, harmless.text):
            alarms[harmless.title] = {"text"}
    return Measured(misses, alarms, {}, {}, secrets, plain)


def _hidden(source: str, text: str) -> str:
    redactor = Redactor(environ={})
    return redactor.redact_source(source) if source else redactor.redact_text(text)


def measure(folder: Path, *options: str, parts: Sequence[str] = ("recorded", "served")) -> Measured:
    """Run the corpus once with a record and once served.

    Args:
        folder: Where the projects are written.
        options: Of both runs.
        parts: Which of the two.
    """
    found: Reported = defaultdict(set)
    alarms: Reported = defaultdict(set)
    seconds, sizes = {}, {}
    pieces = _pieces()
    for part in parts:
        began = _processor()
        project = write(folder / part)
        surfaces: dict[str, list[bytes]] = defaultdict(list)
        for surface, data, case in _PARTS[part](project, options):
            surfaces[surface].append(data)
            if case is not None and _TAG.encode() in data:
                alarms[case].add(surface)
        for surface, reported in surfaces.items():
            data = b"\n".join(reported)
            sizes[surface] = len(data)
            for title in _in(data, pieces):
                found[title].add(surface)
        seconds[part] = _processor() - began
    return Measured(dict(found), dict(alarms), seconds, sizes)


Surface = tuple[str, bytes, str | None]
"""Its name, what it showed, and the harmless case that alone is shown there."""


def _recorded(project: Project, options: Sequence[str]) -> Iterator[Surface]:
    """A run with a record, and all that is made of it."""
    run = recorded(
        project.root,
        *(f"--cideldill-trace={file}:{line}={reported}" for file, line, reported in project.traces),
        "--cideldill-record-calls=reporting.*",
        "--cideldill-summary=sum.md",
        *options,
        environment=project.environment,
    )
    assert run.exit_code == 1, run.out[-3000:] + run.err
    assert len(run.of("hit")) == len(project.traces)
    for path in sorted(each for each in run.record.rglob("*") if each.is_file()):
        name = "page" if path.name == "report.html" else "record"
        yield name, path.read_bytes(), None
    yield "summary", (project.root / "sum.md").read_bytes(), None
    for hits in ((), ("--hits",)):
        show = [sys.executable, "-m", "pytest_cideldill", "show", *hits, str(run.record)]
        shown = subprocess.run(show, capture_output=True, timeout=60, check=True)
        yield "terminal", shown.stdout + shown.stderr, None
    unnamed = {each.title for each in project.harmless.values()}
    for event in run.events:
        if (case := project.case_of(str(event.get("nodeid")))) is not None:
            unnamed.discard(case.title)
            reported = json.dumps(event, ensure_ascii=False).encode("utf-8", "replace")
            yield "record", reported, case.title
    for title in unnamed:  # nothing of it can be found, as its name is hidden
        yield "record", _TAG.encode(), title


def _served(project: Project, options: Sequence[str]) -> Iterator[Surface]:
    """A run that pauses at each failure, over raw pipes: no library of a client hides a byte."""
    arguments = (*QUIET, "--cideldill-record-calls=reporting.*", *options)
    environment: dict[str, Any] = {**project.environment}
    with front_end(project.root, *arguments, **environment) as end:
        end.initialize()
        yield from _about(end, project)
        _objects(end)
        after = 0
        while True:
            reply = end.call("timeline_get", after=after, limit=1_000, max_chars=_ROOM)
            if not reply["events"] or reply["next_after"] == after:
                break
            after = reply["next_after"]
        assert end.leave() == 0
        yield from _messages(end.read_to_the_end())


def _about(end: FrontEnd, project: Project) -> Iterator[Surface]:
    """Pause at each failure and ask what is there; then the results."""
    end.call("test_list", limit=10_000, max_chars=_ROOM)
    tracepoints = [
        {"file": file, "line": line, "log_message": reported}
        for file, line, reported in project.traces
    ]
    reply = end.call("test_run", tracepoints=tracepoints, max_chars=_ROOM)
    lines = _source(end, PLAIN_FORMS).splitlines()
    for number, plain in project.plain_lines.items():
        yield "resource", lines[number - 1].encode(), plain.title
    _source(end, FORMS)
    pauses = 0
    while reply.get("stops"):
        (stop,) = reply["stops"]  # also at what fails in the setup or the teardown
        pauses += 1
        case = project.case_of(stop["nodeid"])
        asked = _asked(end, stop, pauses)
        if case is not None:
            yield "reply", json.dumps([stop, asked]).encode(), case.title
        reply = end.call("breakpoint_continue", pause_id=stop["pause_id"], wait=True)
    assert pauses > len(SECRETS), reply
    unnamed = {each.title for each in project.harmless.values()}
    after: dict[str, str] = {}
    while True:
        results = end.call("test_results", limit=200, max_chars=_ROOM, **after)
        for test in results["tests"]:
            if (case := project.case_of(test["nodeid"])) is not None:
                unnamed.discard(case.title)
                yield "reply", json.dumps(test).encode(), case.title
        if "next_after" not in results:
            break
        after = {"after": results["next_after"]}
    for title in unnamed:  # as in a record
        yield "reply", _TAG.encode(), title


def _asked(end: FrontEnd, stop: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """What the console of a pause shows of its variables; of some, what the other tools do."""
    pause = {"pause_id": stop["pause_id"]}
    reported = []
    if names := list(locals_of(stop)):
        reported.append(end.call("breakpoint_repl_eval", expression="locals()", **pause))
        if number % 4 == 0:
            reported.append(end.call("variables_get", names=names, **pause))
    if number % 10 == 0:
        reported.append(end.call("exception_get_context", max_chars=_ROOM, **pause))
    return reported


def _objects(end: FrontEnd) -> None:
    """Look into what the recorded calls were given and gave."""
    calls = end.call("breakpoint_get_call_records", limit=10_000, max_chars=_ROOM)["calls"]
    for cids in (call["cids"] for call in calls):
        for cid in (*cids["args"], *cids["kwargs"].values(), cids["result"]):
            if cid is not None:
                end.call("breakpoint_inspect_object", cid=cid)


_PARTS: Final = {"recorded": _recorded, "served": _served}


def _source(end: FrontEnd, file: str) -> str:
    read = end.request("resources/read", {"uri": f"debugger://source/{file}"})
    text = read["contents"][0]["text"]
    assert isinstance(text, str)
    return text


def _messages(lines: Iterable[bytes]) -> Iterator[Surface]:
    """Every line that a server wrote, by what it is."""
    for line in lines:
        message = json.loads(line)
        kind = "reply" if "method" not in message else "notification"
        if kind == "reply" and "contents" in message.get("result", {}):
            kind = "resource"
        yield kind, line, None


def _pieces() -> dict[bytes, str]:
    """All pieces of all values, as they are and in base64, to the names of their cases."""
    pieces = {}
    for case in SECRETS:
        size = _LONG_PIECE if case.alphabet == HEX and case.length > _LONG_PIECE else _PIECE
        value = case.value.encode()
        spellings = [value]
        for shift in range(3):
            coded = base64.b64encode(b"\0" * shift + value)
            spellings.append(coded[4 if shift else 0 : -4])
        for spelling in spellings:
            for at in range(len(spelling) - size + 1):
                pieces[spelling[at : at + size]] = case.title
    return pieces


def _in(data: bytes, pieces: dict[bytes, str]) -> set[str]:
    """The names of the cases of which a piece is in the data, or in its UTF-16."""
    found = set()
    for text in (data, data.replace(b"\0", b"")):
        for word in _WORD.findall(text):
            for size in (_PIECE, _LONG_PIECE):
                for at in range(len(word) - size + 1):
                    title = pieces.get(word[at : at + size])
                    if title is not None:
                        found.add(title)
    return found


def _processor() -> float:
    """Seconds of this process, and of those that it has waited for."""
    return sum(os.times()[:4])


def _listed(reported: Reported, cases: Iterable[Planted | Harmless]) -> list[str]:
    titles = [each.title for each in cases]
    return [f"{each} ({', '.join(sorted(reported[each]))})" for each in titles if each in reported]
