"""Events: messages up from a process under test, named in the past tense."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final

from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.protocol.columns import Row, Series, places_of, rows_of

OUTCOMES: Final = frozenset({"passed", "failed", "skipped"})
"""pytest's own; plugins have their own ones for attempts that they make again."""

CRASHED: Final = "???"
"""The phase, for xdist and pytest-forked, of a test in which its process died."""


@dataclass(frozen=True, slots=True)
class Hello:
    """A process under test has connected; always its first message."""

    protocol: int
    run_id: str
    pid: int
    worker: str
    python: str
    executable: str
    pytest: str
    rootdir: str
    cwd: str
    argv: list[str]
    engine: dict[str, Any]
    position_file: str | None = None
    stacks_file: str | None = None


@dataclass(frozen=True, slots=True)
class Rejoined:
    """A process goes on with another connection, as its program has closed the one before.

    Its first message there, instead of `Hello`, and no part of what goes on.
    `sent`, `received`: bytes of all its connections, with the hello.
    """

    run_id: str
    worker: str
    pid: int
    sent: int
    received: int


@dataclass(frozen=True, slots=True)
class Collected:
    """Collection ended. `nodeids` only when the run was asked to list them.

    `beside`: ids of test functions in the files of those that are missing. `searched`: where no
    test is left, a sentence about what was looked for.
    """

    total: int
    missing: list[str]
    nodeids: list[str] | None = None
    beside: list[str] = field(default_factory=list)
    searched: str | None = None


@dataclass(frozen=True, slots=True)
class ItemsFound:
    """Of a run that lists tests, while it collects: what a file, or a class, has."""

    nodeids: list[str]


@dataclass(frozen=True, slots=True)
class CollectionFailed:
    """A file or folder could not be collected."""

    nodeid: str
    longrepr: str


@dataclass(frozen=True, slots=True)
class NodeStarted:
    """A test's protocol (setup, call, teardown) begins. `ts`: epoch seconds."""

    nodeid: str
    ts: float


@dataclass(frozen=True, slots=True)
class PhaseReported:
    """One phase of a test did not just pass; by pytest's own category (`failed`, `error`, …).

    `autopsy`: of a failure, as `exception_get_context` replies it.
    `attempt`: of a test that pytest-rerunfailures may try again, from 1 on.
    `subtest`: which part of the test it was, if not all of it.
    `passed_code`: the location is one that the exception passed; else it is that of the test.
    `incomplete`: what of it could not be sent, and why.
    """

    nodeid: str
    phase: str
    category: str
    outcome: str
    duration_s: float
    exception: dict[str, Any] | None = None
    location: dict[str, Any] | None = None
    longrepr: str | None = None
    stdout: str = ""
    stderr: str = ""
    log: str = ""
    autopsy: dict[str, Any] | None = None
    attempt: int | None = None
    passed_code: bool = True
    subtest: str | None = None
    incomplete: str | None = None


@dataclass(frozen=True, slots=True)
class NodeFinished:
    """A test's protocol ended.

    `duration_s`: all phases together, pauses excluded. `plain`: category → count of the reports
    that have nothing but their category (a passed call, passed subtests). `again`: it was
    an attempt, and another one follows. `failed`: phase and category of each report whose outcome
    is `failed`, so that one that got lost does not read as passed. `apart`: it ran in a forked
    child, which is not watched.
    """

    nodeid: str
    duration_s: float
    plain: dict[str, int]
    again: bool = False
    failed: list[list[str]] | None = None
    apart: bool = False


@dataclass(frozen=True, slots=True)
class NodesFinished:
    """Tests ended: `NodeFinished` of each, after its `NodeStarted` unless that came before.

    `tests`: rows of `protocol.ended_tests`.
    """

    tests: list[list[Any]]


@dataclass(frozen=True, slots=True)
class Bound:
    """A breakpoint found (more) functions, or can't be set on what it found.

    Attributes:
        via: How calls are intercepted: `code`, or `attribute` where there is none; None: not yet.
    """

    id: str
    functions: list[str]
    verified: bool
    message: str | None = None
    via: str | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """Calls and hits, in the order in which they ended: `{type, ts, nodeid, thread, …}` each.

    Most come as columns (`columns.Series`). `defined_in` of a call: module and file of its
    function.

    Attributes:
        rows: Those that are in no series.
        order: For each row which is next (`columns.order`): 0 the next one of `rows`, 1 that of the
            first series, and so on. Empty: first `rows`, then the series.
        dropped: How many were lost before the first of them, …
        lost: … and how many of these are calls that have no record now.
    """

    rows: list[dict[str, Any]]
    series: list[Series] = field(default_factory=list)
    order: str = ""
    dropped: int = 0
    lost: int = 0

    def parts(self) -> list[tuple[Row, int]]:
        """The rows in no series, and what those of each series have in common, with their number.

        They stand in this order, and not in that of the rows.
        """
        series = [(each["common"], each["count"]) for each in self.series]
        return [*((row, 1) for row in self.rows), *series]

    def places(self) -> list[list[int]]:
        """Where the rows of `rows` stand among all, and those of each series, from 0 on.

        Raises:
            ValueError: `order` is of other rows.
        """
        return places_of([len(self.rows), *(each["count"] for each in self.series)], self.order)

    def in_order(self) -> list[Row]:
        """All rows."""
        placed: dict[int, Row] = {}
        sources = [self.rows, *map(rows_of, self.series)]
        for rows, places in zip(sources, self.places(), strict=True):
            placed.update(zip(places, rows, strict=True))
        return [placed[place] for place in range(len(placed))]


@dataclass(frozen=True, slots=True)
class LinesPassed:
    """How often watched lines were passed, when that changed; at most every 300 ms.

    `passes`: probe id → `probes.linehits.LineProbe.counts`; of an exception breakpoint, before
    each of its stops, `passes` only.
    """

    passes: dict[str, dict[str, Any]]


Pause = dict[str, Any]
"""As clients see it; what must be there says `checking`."""

CALLS_OF: Final = "calls of "


@dataclass(frozen=True, slots=True)
class Watched:
    """The tests are over, or nothing is watched any more: what became of each breakpoint here.

    `facts`: breakpoint id, or `CALLS_OF` and a glob of functions whose calls are recorded → a fact
    of `probes.unhit`; what is not known is left out. `blind`: events were lost, so that nothing is
    known.
    """

    facts: dict[str, dict[str, Any]]
    blind: bool = False


@dataclass(frozen=True, slots=True)
class Stopped:
    """A thread is parked.

    `pause` is the pause as clients get it plus its autopsy, or else `frames`: where the
    thread is in user code, as `{file, line, function, module, source}`, innermost first.
    """

    pause: Pause


@dataclass(frozen=True, slots=True)
class Resumed:
    """A parked thread goes on. `by`: `client | lease | disconnect | stop`."""

    pause_id: str
    action: str
    by: str


@dataclass(frozen=True, slots=True)
class StepEnded:
    """The test, or the thread, ended before a step did; its pause is over."""

    pause_id: str


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """xdist's controller lost a worker."""

    worker: str
    error: str


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """A worker begins to collect; when it is connected, it was before that."""

    worker: str


@dataclass(frozen=True, slots=True)
class NodeRelayed:
    """xdist's controller reports a test of a worker that could not, or perhaps could not, itself.

    `phases`: the fields of `PhaseReported`. `has_ended`: the worker did not die in it. The others
    are those of `NodeStarted` and `NodeFinished`.
    """

    worker: str
    nodeid: str
    ts: float
    phases: list[dict[str, Any]]
    plain: dict[str, int]
    duration_s: float
    has_ended: bool


@dataclass(frozen=True, slots=True)
class RedactionChosen:
    """The ini file or a hook chose more secrets. `off`: nothing is redacted.

    `shown`: names whose values are no secrets.
    """

    names: list[str]
    patterns: list[str]
    off: bool = False
    shown: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class EngineChosen:
    """The event source was chosen, or has changed; as `Hello.engine`."""

    engine: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Warned:
    """Our own failure inside the guest: the probe is gone, the test goes on."""

    message: str


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Ctrl-C or `pytest.exit` ended the run; where it struck."""

    message: str


@dataclass(frozen=True, slots=True)
class InternalErrorRaised:
    """pytest reported an internal error (a bug in a hook of some plugin or conftest)."""

    longrepr: str


@dataclass(frozen=True, slots=True)
class Finished:
    """`pytest_sessionfinish`: the verdict of the run, whatever the process does afterwards.

    `failed`: how many failures pytest counted, those of collection included; None: not known.
    """

    exit_code: int
    failed: int | None = None


@dataclass(frozen=True, slots=True)
class Departed:
    """pytest unconfigured itself in order; nothing more comes."""


@dataclass(frozen=True, slots=True)
class Replied:
    """The answer to the command with the same `request`: exactly one of `result` and `error`.

    `pause_id`, `lease_expires_at`: the pause that it was about, and its lease, which it renewed.
    """

    request: int
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    pause_id: str | None = None
    lease_expires_at: float | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The peer sent something this side does not know; it is named and was ignored."""

    refused_kind: str
    reason: str


Event = (
    Hello
    | Collected
    | ItemsFound
    | CollectionFailed
    | NodeStarted
    | PhaseReported
    | NodeFinished
    | NodesFinished
    | Bound
    | Recorded
    | LinesPassed
    | Watched
    | Stopped
    | Resumed
    | StepEnded
    | WorkerLost
    | WorkerReady
    | NodeRelayed
    | RedactionChosen
    | EngineChosen
    | Warned
    | Interrupted
    | InternalErrorRaised
    | Finished
    | Departed
    | Replied
    | Refused
    | Rejoined
)


def is_made_again(category: str, outcome: str, attempt: int | None) -> bool:
    """Of the fields of a `PhaseReported`; the outcome of the test is that of a later attempt."""
    return category == "rerun" or (attempt is not None and outcome not in OUTCOMES)
