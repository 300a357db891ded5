"""Lines of recorded calls in a file of events, many at once: of one kind they differ in little."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from json.encoder import encode_basestring_ascii
from typing import Final

from pytest_cideldill.interpreter import clock
from pytest_cideldill.protocol.call_rows import Calls
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
    id = _quoted(calls.prefix)[:-1]  # without the quote behind the number
    head = f',"type":"call","worker":{_quoted(worker)},"call_id":{id}'
    named = f'",{first},"pretty_args":['
    middle = f",{middle},"
    end = f",{last}}}\n" if last else "}\n"
    args = [list(map(_quoted, arg)) for arg in calls.args]
    joined = map(",".join, zip(*args, strict=True)) if args else repeat("")
    wall_at, parents = clock.wall_at, calls.parents
    by = ['"parent_id":null' if each is None else f'"parent_id":{id}{each}"' for each in parents]
    columns = (calls.at, calls.numbers, calls.began, calls.ended, by, joined, calls.results)
    for at, number, began, ended, parent, mine, result, cids in zip(
        *columns, _cids(calls), strict=False
    ):
        began_at, ended_at = repr(wall_at(began)), wall_at(ended)
        yield (
            at,
            ended_at,
            f',"ts":{began_at}{head}{number}{named}{mine}],"pretty_kwargs":{{}},"started_at":'
            f'{began_at},"completed_at":{ended_at!r},{parent}{middle}"cids":{cids}'
            f',"pretty_result":{_quoted(result)}{end}',
        )


def _cids(calls: Calls) -> Iterator[str]:
    """What lines have as `cids`: hexadecimal digits need no escapes."""
    if calls.arg_cids is None:
        return repeat("null")
    columns = calls.arg_cids
    args = map('","'.join, zip(*columns, strict=True)) if columns else repeat("")
    around = '"' if columns else ""
    return (
        f'{{"args":[{around}{mine}{around}],"kwargs":{{}},"result":"{result}"}}'
        for mine, result in zip(args, calls.result_cids, strict=False)
    )
