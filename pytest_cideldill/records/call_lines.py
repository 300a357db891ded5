"""Lines of recorded calls in a file of events, many at once: of one kind they differ in little."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from json.encoder import encode_basestring_ascii
from typing import Final

from pytest_cideldill.interpreter import clock
from pytest_cideldill.protocol.call_rows import Calls, by_row
from pytest_cideldill.protocol.encoding import standard
from pytest_cideldill.redaction.record_filter import Hiding

_quoted: Final = encode_basestring_ascii

_FIRST: Final = ("method_name", "qualified_name", "status")
_MIDDLE: Final = ("nodeid", "thread", "call_site")
_LAST: Final = ("defined_in",)
"""Keys of what calls share, in the order of a line."""


def lines_of_calls(calls: Calls, worker: str, hiding: Hiding) -> Iterator[tuple[int, float, str]]:
    """The lines of calls, in which the number is missing.

    Yields:
        The place among the rows of the batch, when it ended (epoch seconds), and the line from
        behind its number up to its line feed.
    """
    common = calls.common | {"nodeid": hiding.name(calls.common["nodeid"])}
    first, middle, last = (
        standard({key: common[key] for key in keys if key in common})[1:-1]
        for keys in (_FIRST, _MIDDLE, _LAST)
    )
    head = f',"type":"call","worker":{_quoted(worker)},"call_id":'
    named = f",{first},"
    last = f",{last}" if last else ""
    quoted_args = by_row([list(map(_quoted, each)) for each in calls.args], len(calls.at))
    cids = _cids(calls)
    wall_at, prefix = clock.wall_at, calls.prefix
    columns = zip(
        *(calls.at, calls.numbers, calls.parents, calls.began, calls.ended),
        *(quoted_args, map(_quoted, calls.results), cids),
        strict=False,
    )
    for at, number, parent, began, ended, args, result, named_by in columns:
        began_at, ended_at = wall_at(began), wall_at(ended)
        by = "null" if parent is None else _quoted(f"{prefix}{parent}")
        yield (
            at,
            ended_at,
            f',"ts":{began_at!r}{head}{_quoted(f"{prefix}{number}")}{named}"pretty_args":'
            f'[{",".join(args)}],"pretty_kwargs":{{}},"started_at":{began_at!r},"completed_at":'
            f'{ended_at!r},"parent_id":{by},{middle},"cids":{named_by},"pretty_result":{result}'
            f"{last}}}\n",
        )


def _cids(calls: Calls) -> Iterator[str]:
    """What lines have as `cids`: hexadecimal digits need no escapes."""
    if calls.arg_cids is None:
        yield from repeat("null")
        return
    for args, result in zip(by_row(calls.arg_cids, len(calls.at)), calls.result_cids, strict=True):
        named = '","'.join(args)
        mine = f'["{named}"]' if args else "[]"
        yield f'{{"args":{mine},"kwargs":{{}},"result":"{result}"}}'
