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
the main one; its arguments as `[name, text]`; the library modules that lie between, as text |
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
| `parts` | call, count | how many items, waits and resumptions a call had, if not all have rows |
| `caller` | call, code, line | which function called it, and where, if that call has no row |
| `library` | call, name, count | functions of libraries that a call has called itself; at its end |
| `focus` | call, count | this call is the chosen one, the how-manieth of the function |
| `line` | line | a line of the chosen call begins, or the next pass over it |
| `change` | name, text | what the line before changed: a local, `self.total`, `items[3]`; null: \
it is gone |
| `raise` | text | an exception arises in the line, or arrives there |
| `lines` | code, pairs | how often lines of a function ran in a test: `[line, count]`, at its end |
| `matches` | count | how many calls of the asked function there were in a test, at its end |
| `reached` | limit, text | a limit of work was reached; what it means, as a sentence |
| `missing` | nodeids, beside | node ids that no test has; tests that are near them |
| `uncollected` | nodeid, text | a file could not be collected |
| `unmatched` | names | no call of the asked function; dotted paths of functions that were called |
| `warning` | text | a failure of ours, or what was left out of the run's options |
| `refused` | code, text | the question has no answer: an error code and a sentence |
| `end` | | the process has left pytest; without this row it was ended, or died |

Values are texts, rendered without running code of the program, and without secrets.
"""

from __future__ import annotations

from typing import Any, Final

from pytest_cideldill.interpreter.values import dataclass

VARIABLE: Final = "CIDELDILL_QUESTION"
"""The environment variable that holds a request."""


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """What a process is to record.

    Attributes:
        file: Where the rows go; made by the process that asks, empty and private.
        nodeids: The tests, as for `test_run`.
        tree: Whether all calls of user code are wanted.
        function: The function whose calls are wanted: name as for `breakpoint_add`.
        call: Which of its calls is the chosen one, from 1; 0: none.
        when: Expression over its arguments; the first call for which it is true is the chosen one.
        states: Whether the insides of arguments and results are wanted.
        states_from: The number of the first call of which they are.
        neighbours: Whether it is wanted which other tests are near.
        counts: Whether it is wanted how often each line of the function ran.
        calls: Most calls that are recorded.
        lines: Most lines of the chosen call that are recorded; the last ones are beside that.
        key: Of the tags of secrets, hex.
        no_redact: Whether secrets are shown.
        hash_seed: What is set as PYTHONHASHSEED, which tests don't see; None: the user's.
        pinned: How many of pytest's first arguments the asking process added.
        workers: Whether workers of xdist may be used.
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
    calls: int = 100_000
    lines: int = 300_000
    key: str = ""
    no_redact: bool = False
    hash_seed: str | None = None
    pinned: int = 0
    workers: bool = False


Row = list[Any]
"""A row, as above."""
