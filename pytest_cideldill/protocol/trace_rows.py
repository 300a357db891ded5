"""The file in which a question's process leaves what it saw, and the request that it got.

The process that asks starts pytest with the request in the environment variable `VARIABLE` (JSON
text), and reads the file when the process is gone, or has to be ended: all that was written by then
counts. Each line of the file is a JSON array of rows, in the order of the program; the last line
may be cut off. A row is an array: its kind, then the columns below.

| kind | columns | means |
|---|---|---|
| `process` | python, rootdir | the first row |
| `test` | nodeid | a test begins; all rows up to the next one belong to it |
| `phase` | name | `setup`, `call` or `teardown` of it begins on the main thread |
| `outcome` | phase, outcome, text, file, line | of that phase, or of a subtest in it: `passed`, \
`failed`, `skipped`, `xfailed` or `xpassed`; why, in one line, and the place of a failure, or null |
| `code` | code, module, qualname, file, first, last, kind | a code object gets a number; `kind`: \
`function`, `generator`, `coroutine`, `async_generator`, `module`, `class` |
| `call` | call, parent, code, line, thread, args, via | a call of user code begins: its number, \
from 1; the call that it came from, 0 if none; the line there, or 0; the thread's name, empty for \
the main one; its arguments as `[name, text]`; the library modules that lie between, as text, or \
`EXPLANATION` |
| `skipped` | code, count | so many calls of it have no row since the last one that has |
| `return` | call, text | it returns |
| `unwind` | call, text | an exception leaves it: `Type: message` |
| `yield` | call, text | a generator hands out an item |
| `wait` | call | a coroutine waits: something else runs until it goes on |
| `resume` | call, text | it goes on; `text` is empty, or the exception that is thrown into it |
| `state` | call, moment, pairs | the states of its arguments when it began (`begin`), and of \
those that were others when it ended (`end`) with that of the result (`return`): `[name, digest]`; \
the digest is empty behind a limit |
| `leaves` | digest, leaves | what is in a state, `[path, text]`; before its first use, or missing |
| `neighbours` | nodeids | the other tests in the files of the wanted ones, in order |
| `aftermath` | call | at the end of a phase that failed: the first call that began while the \
exception was on its way |
| `parts` | call, count | how many items, waits and resumptions a call had, if not all have rows |
| `caller` | call, code, line | which function called it, and where, if that call has no row |
| `library` | call, name, count | functions of libraries that a call has called itself; at its end |
| `focus` | call, count | this call is the chosen one, the how-manieth of the function |
| `line` | line | a line of the chosen call begins, or the next pass over it |
| `change` | name, text | what the line before changed: a local, `self.total`, `items[3]`; null: \
it is gone |
| `caught` | text, from, raised, place, count, last, calls, unwound, more, left | at the end of a \
phase: exceptions of one class that were raised at one place and caught at one: the first one, and \
what it was made from in a handler, as `Type: message`; `[code, line, library]` of the user code \
that raised it, or called the library function that did; `[code, line, library, how, silent]` of \
what caught it, with `how`: `except`, `with`, `finally`, or empty if that is somewhere behind the \
last user code that it left, `silent`: the handler does nothing about it; how many; when the last \
one was, a number that grows; the first and the last call in which they were caught; `[code, \
line]` of user frames that the first one left, the inmost first; how many further ones; `[name, \
value, code, lines]` of what these had set, if that was so behind the handler |
| `raise` | text | an exception arises in the line, or arrives there |
| `starts` | codes | functions that started in a phase and in none before it, in order; at its \
end. What shared fixtures have run counts for each test that uses them |
| `ran` | code, lines | lines of a function that ran in a phase and in none before it; at its end. \
Lines of comprehensions and classes in it are its own; what shared fixtures and imports have run \
counts as for `starts` |
| `frames` | codes | functions in the traceback of the failure of a phase, the innermost first |
| `failed` | phase, facts | what failed in a phase: `type`, `message`; `frames`, innermost first, \
each `[file, line, function, whether it is the user's]`; `behind`: what Python prints with it, as \
`[cause, context or member, type, message, [file, line, function] or null]`; `locals` of the \
user's innermost frame as `[name, text]`; of an assertion `op`, `left`, `right`, their \
expressions, `insides`: `left` and `right` → `[path, text]` of what is in them, and `stoppedAt`: \
the variables of a generator expression that was not read to its end, as texts |
| `test_files` | files | where tests are defined |
| `lines` | code, pairs | how often lines of a function ran in a test: `[line, count]`, at its end |
| `matches` | count | how many calls of the asked function there were in a test, at its end |
| `applied` | change, count, of | at the end of a test: how often a forced change was made in it, \
and how many calls or passes its place had |
| `unapplied` | change, text | why a change could not be made where it was to be |
| `unreached` | facts | at the end: why places of changes were not reached: number of the change \
→ a fact as of `Watched` |
| `patched` | files | at the end: patched files that were imported |
| `evaluated` | expression, text, error, file, line, function | what an expression gave at the \
failure, or at the end of the test's function; `error`: the text is of an exception |
| `watch` | text, code, line, caller, line, call | a watch begins: the first value, where, by whom \
that was called, the how-manieth call of the function; no code: before the test |
| `changed` | parts, code, line, caller, line, thread, code, line, caller, line, late | a line \
changed the value, or the object: `[place in it, old, new]` of each part, null for what was not \
there; its caller; a line of another thread that may have done it instead; how many lines later \
it was seen |
| `writer` | code, line, count | how often that line has changed it so far |
| `aliases` | when, texts | what else holds the object, at the `first` change or the `end` |
| `became` | code, line, caller, line, names | after that line `until` is true; locals there as \
`[name, text]` |
| `true_at_first` | | `until` is true when the watch begins |
| `lost` | code, line, caller, line | behind that line nothing leads to the object |
| `value` | text | the value at the end |
| `reached` | limit, text | a limit of work was reached; what it means, as a sentence |
| `missing` | nodeids, beside | node ids that no test has; tests that are near them |
| `uncollected` | nodeid, text | a file could not be collected |
| `unmatched` | names | no call of the asked function; dotted paths of functions that were called |
| `warning` | text | a failure of ours, or what was left out of the run's options |
| `refused` | code, text | the question has no answer: an error code and a sentence |
| `unforked` | fork, text | why a fork was not made, by its number in the request; -1: none was |
| `end` | | the process has left pytest; without this row it was ended, or died |

Values are texts, rendered without running code of the program, and without secrets.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final

from pytest_cideldill.interpreter.values import dataclass

VARIABLE: Final = "CIDELDILL_QUESTION"
"""The environment variable that holds a request."""

EXPLANATION: Final = "the message of a failure"
"""Stands in the column `via` of calls that are made only to explain a failed assertion."""


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """What a process is to record.

    Attributes:
        file: Where the rows go; made by the process that asks, empty and private.
        nodeids: The tests, as for `test_run`; empty: those that pytest selects.
        tree: Whether all calls of user code are wanted.
        function: The function whose calls are wanted: name as for `breakpoint_add`.
        call: Which of its calls is the chosen one, from 1; 0: none.
        when: Expression over its arguments; the first call for which it is true is the chosen one.
        states: Whether the insides of arguments and results are wanted.
        states_from: The number of the first call of which they are.
        neighbours: Whether it is wanted which other tests are near.
        counts: Whether it is wanted how often each line of the function ran.
        caught: Whether exceptions that are caught are wanted; with `tree`.
        calls: Most calls that are recorded.
        lines: Most lines of the chosen call that are recorded; the last ones are beside that.
        starts: Whether the functions that each test starts are wanted; then no calls are.
        ran: Whether the lines that ran are wanted: beside calls, else with `starts`.
        keyword: As pytest's `-k`; None: the user's.
        markers: As pytest's `-m`; None: the user's.
        key: Of the tags of secrets, hex.
        no_redact: Whether secrets are shown.
        hash_seed: What is set as PYTHONHASHSEED, which tests don't see; None: the user's.
        pinned: How many of pytest's first arguments the asking process added.
        workers: Whether workers of xdist may be used.
        changes: What is changed by force, as `ForcedChange` in plain form.
        evaluate: Expressions, evaluated where a test fails, or at the end of its function.
        failure: Whether it is wanted what failed, with both sides of a comparison.
        watch: The fields of a `WatchRequest`, if something is to be watched.
        forks: No tests are run here, but in a fork for each of these, as `Fork` in plain form.
        beside: Most forks at a time.
        record: A folder into which the process records itself as a run does (`pytest
            --cideldill-record`), made by it; empty: it does not.
    """

    file: str
    nodeids: list[str]
    tree: bool = False
    function: str | None = None
    call: int = 0
    when: str | None = None
    states: bool = False
    states_from: int = 0
    neighbours: bool = False
    counts: bool = False
    caught: bool = False
    calls: int = 100_000
    lines: int = 300_000
    starts: bool = False
    ran: bool = False
    keyword: str | None = None
    markers: str | None = None
    key: str = ""
    no_redact: bool = False
    hash_seed: str | None = None
    pinned: int = 0
    workers: bool = False
    changes: list[dict[str, Any]] = field(default_factory=list)
    evaluate: list[str] = field(default_factory=list)
    failure: bool = False
    watch: dict[str, Any] | None = None
    forks: list[dict[str, Any]] = field(default_factory=list)
    beside: int = 1
    record: str = ""


@dataclass(frozen=True, slots=True)
class Fork:
    """One experiment, made in a fork of a process that has collected.

    Attributes:
        file: As of `TraceRequest`, for the rows of the fork.
        changes: As of `TraceRequest`.
        places: The code that they change, as `[file, first, last]`: if any of it ran while tests
            were collected, the changes come too late.
    """

    file: str
    changes: list[dict[str, Any]] = field(default_factory=list)
    places: list[list[Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ForcedChange:
    """One change of what the program does, at the calls of a function or at a line.

    Values are those of `breakpoint_continue`: JSON, with `{"$eval": …}` and `{"$literal": …}`.

    Attributes:
        kind: `return`, `raise`, `set_args`, `replace`, `set_local`; `patch`: source that is patched
            already, of which it is only found out whether its lines (`value`) are reached.
        function: Name as for `breakpoint_add`; empty for `set_local`.
        file: Absolute real path; for `set_local` and `patch`.
        line: Before it runs.
        call: Which call or pass, from 1; 0: all.
        when: Expression over the arguments, or in the frame of the line; only where it is true.
        name: What `set_local` assigns to; of `patch` the file as it is shown.
        value: What is returned or assigned.
        arguments: Of `set_args`: leading positional ones, or by name.
        type: Of `raise`: the name of an exception class.
        message: Its only argument, if not empty.
        source: Of `replace`: a dotted path, a `lambda` or a `def`.
    """

    kind: str
    function: str = ""
    file: str = ""
    line: int = 0
    call: int = 0
    when: str | None = None
    name: str = ""
    value: Any = None
    arguments: list[Any] | dict[str, Any] | None = None
    type: str = "Exception"
    message: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """What is to be watched: in the chosen call of the function, else in modules.

    Attributes:
        expression: What is watched.
        module: Whose globals are its names, where there is no function.
        until: Ends the watch when it becomes true.
        max_changes: Most changes that have a row; of further ones the writers are counted.
    """

    expression: str
    module: str | None = None
    until: str | None = None
    max_changes: int = 50


Row = list[Any]
"""A row, as above."""
