"""Replies to questions about source files: `python -P -m pytest_cideldill.sourcecode.helper`.

JSON requests on stdin, one a line, replies on stdout; each request gets its reply before the next
one is read. The process ends when its stdin does.

It is a short-lived process of the tests' interpreter, for the front end while no run is alive. It
reads files; it never imports or runs user code (`-P` keeps the current folder off the path).
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from pytest_cideldill.interpreter import one_shot
from pytest_cideldill.sourcecode import locations
from pytest_cideldill.sourcecode.catalog import scan
from pytest_cideldill.sourcecode.describe import FunctionInfo
from pytest_cideldill.sourcecode.names import parse_function_name
from pytest_cideldill.sourcecode.quiet import compile_condition
from pytest_cideldill.sourcecode.reading import Unreadable, source_bytes, text_in
from pytest_cideldill.sourcecode.template import InvalidTemplate, parse_template

Request = dict[str, Any]
Reply = dict[str, Any]


def answer(request: Any) -> Reply:
    """The reply to one request: the result, or `{"error": CODE, "message": SENTENCE, …}`.

    | `op` | parameters | reply |
    |---|---|---|
    | `lines` | `file` | `lines` |
    | `validate` | `file`, and `line` with `column`? or `function`; `condition`?, `template`? are
      checked too | `places` [{`line`, `function`, `key`, `source`, `column`, `offset`}]; `offset`
      is the column counted from the first character of the line's text |
    | `anchor` | `file`, `line`, `source`, `function`, `offset`?: as a place of an earlier reply |
      `place` as above, `alike` [line]: see `anchors.find_again` |
    | `functions` | `file` | `functions` [{`qualname`, `line`, `signature`, `kind`}] |
    | `catalog` | `root`; `known`? {file: stamp}, `name`?, `seconds`? | `files` {file: modules},
      `contents` {file: {`stamp`, `functions` as above, `problem`}}, `unchanged` [file], `unread`,
      `is_complete`: see `catalog.Catalog` |
    | `ready` | – | – |
    | `compile_condition` | `condition` | – |
    | `compile_template` | `template` | `expressions` |

    `shown`, where it is given, stands for `file` in messages.
    """
    try:
        return _OPERATIONS[_text(request, "op")](request)
    except locations.InvalidLine as error:
        return _error("invalid_line", str(error), nearestValidLine=error.nearest)
    except locations.InvalidColumn as error:
        candidates = [asdict(candidate) for candidate in error.candidates]
        return _error("invalid_column", str(error), candidates=candidates)
    except locations.FunctionNotFound as error:
        return _error("function_not_found", str(error), known=list(error.known))
    except InvalidTemplate as error:
        return _error("invalid_template", str(error), position=error.position)
    except locations.InvalidSource as error:
        return _error("invalid_source", str(error), line=error.line)
    except OSError as error:
        return _error(
            "file_not_found",
            f"{request.get('shown') or request['file']} can't be read: {error.strerror}",
        )
    except _Malformed as error:
        return _error("invalid_request", str(error))
    except KeyError:
        return _error("invalid_request", f"op is none of {', '.join(_OPERATIONS)}")


def main() -> None:
    """Reply to the requests on stdin, to each one; the exit code is 0."""
    gc.disable()  # it would look through syntax trees, which have no cycles, again and again
    one_shot.reply_each(_replies())


def _replies() -> Iterator[Reply]:
    for line in sys.stdin.buffer:
        try:
            request = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield _error("invalid_request", f"stdin holds no JSON: {error}")
        else:
            yield _reply(request)


def _reply(request: Any) -> Reply:
    try:
        return answer(request)
    except Exception as error:  # noqa: BLE001 - a border: the caller waits for a reply
        return _error("internal_error", f"{type(error).__name__}: {error}")


class _Malformed(Exception):
    """A request of the wrong form."""


def _text(request: Any, name: str) -> str:
    value = request.get(name) if type(request) is dict else None
    if type(value) is not str or "\0" in value:
        raise _Malformed(f"{name} is no string")
    return value


def _number(request: Request, name: str) -> int:
    value = request.get(name)
    if type(value) is not int:
        raise _Malformed(f"{name} is no integer")
    return value


def _ready(_request: Request) -> Reply:
    return {}


def _lines(request: Request) -> Reply:
    return {"lines": list(_source_map(request).lines)}


def _validate(request: Request) -> Reply:
    checks = ((_compile_condition, "condition"), (_compile_template, "template"))
    for check, name in checks:
        if request.get(name) is not None and "error" in (refused := check(request)):
            return refused
    source_map = _source_map(request)
    if request.get("function") is not None:
        places = source_map.function_places(_text(request, "function"))
        return {"places": [_place(each) for each in places]}
    line = _number(request, "line")
    if request.get("column") is None:
        return {"places": [_place(source_map.code_for_line(line))]}
    column = _number(request, "column")
    place = source_map.code_for_line(line, column)
    return {"places": [_place(place, column, column - source_map.margin(line))]}


def _anchor(request: Request) -> Reply:
    offset = None if request.get("offset") is None else _number(request, "offset")
    source, function = _text(request, "source"), _text(request, "function")
    anchor = locations.Anchor(_number(request, "line"), source, function, offset)
    source_map = _source_map(request)
    place, alike = locations.find_again(source_map, anchor)
    column = None if offset is None else source_map.margin(place.line) + offset
    return {"place": _place(place, column, offset), "alike": list(alike)}


def _functions(request: Request) -> Reply:
    return {"functions": [_function(function) for function in _source_map(request).functions()]}


def _catalog(request: Request) -> Reply:
    known = request.get("known") or {}
    seconds = {} if request.get("seconds") is None else {"seconds": _number(request, "seconds")}
    try:
        stamps = {file: (changed, size) for file, (changed, size) in known.items()}
        name = parse_function_name(_text(request, "name")) if request.get("name") else None
    except (AttributeError, TypeError, ValueError) as error:
        raise _Malformed(f"known or name: {error}") from error
    further = request.get("further") or []
    catalog = scan(_text(request, "root"), further=further, known=stamps, name=name, **seconds)
    return {
        "files": catalog.files,
        "unchanged": catalog.unchanged,
        "contents": {
            file: {
                "stamp": content.stamp,
                "functions": [_function(function) for function in content.functions],
                "problem": content.problem,
            }
            for file, content in catalog.contents.items()
        },
        "unread": catalog.unread,
        "is_complete": catalog.is_complete,
    }


def _compile_condition(request: Request) -> Reply:
    try:
        compile_condition(_text(request, "condition"))
    except ValueError as error:
        return _error("invalid_condition", str(error))
    return {}


def _compile_template(request: Request) -> Reply:
    return {"expressions": list(parse_template(_text(request, "template")).expressions)}


_OPERATIONS: Final = MappingProxyType[str, Callable[[Request], Reply]](
    {
        "ready": _ready,
        "lines": _lines,
        "validate": _validate,
        "anchor": _anchor,
        "functions": _functions,
        "catalog": _catalog,
        "compile_condition": _compile_condition,
        "compile_template": _compile_template,
    }
)


def source_map(file: str, shown: str) -> locations.SourceMap:
    """The code of a source file.

    Args:
        shown: Its name in messages.

    Raises:
        OSError: It can't be read.
        InvalidSource: It is too large, not in the encoding that it declares, or no Python.
    """
    return _map_in(_bytes_of(file, shown), shown)


def _source_map(request: Request) -> locations.SourceMap:
    file = _text(request, "file")
    shown = file if request.get("shown") is None else _text(request, "shown")
    found = _known_map(_bytes_of(file, shown), shown)
    if isinstance(found, locations.InvalidSource):
        raise found.with_traceback(None)
    return found


@lru_cache(maxsize=1)
def _known_map(data: bytes, shown: str) -> locations.SourceMap | locations.InvalidSource:
    """Keeps one map only: a map is large, and requests about one file come in a row."""
    try:
        return _map_in(data, shown)
    except locations.InvalidSource as error:
        return error


def _bytes_of(file: str, shown: str) -> bytes:
    try:
        return source_bytes(file)
    except Unreadable as error:
        raise locations.InvalidSource(shown, None, str(error)) from error


def _map_in(data: bytes, shown: str) -> locations.SourceMap:
    try:
        text = text_in(data)
    except Unreadable as error:
        raise locations.InvalidSource(shown, None, str(error)) from error
    return locations.SourceMap.from_source(text, shown)


def _function(function: FunctionInfo) -> Reply:
    return {
        "qualname": function.qualname,
        "line": function.line,
        "signature": function.signature_text,
        "kind": function.kind,
    }


def _place(
    place: locations.SourcePlace, column: int | None = None, offset: int | None = None
) -> Reply:
    return {
        "line": place.line,
        "function": place.key.qualname,
        "key": place.key.to_plain(),
        "source": place.source,
        "column": column,
        "offset": offset,
    }


def _error(code: str, message: str, **extra: Any) -> Reply:
    return {"error": code, "message": message, **extra}


if __name__ == "__main__":
    main()
