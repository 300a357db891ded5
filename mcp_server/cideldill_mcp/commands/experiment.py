"""`cideldill try`: what becomes of tests if this were otherwise?"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cideldill_mcp.commands.question import QuestionCommand

if TYPE_CHECKING:
    from cideldill_mcp.commands.question import Ask


class _Part(argparse.Action):
    """Keeps options that are experiments in the order in which they are given."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - as argparse calls it
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        parts = getattr(namespace, "parts", None) or []
        namespace.parts = [*parts, (str(option_string), values)]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("nodeids", metavar="NODEID", nargs="+", help="the tests, the failing one first")
    add(
        "--patch",
        nargs=3,
        metavar=("FILE", "OLD", "NEW"),
        action=_Part,
        help="import FILE with OLD, which stands there once, replaced by NEW",
    )
    add("--diff", metavar="FILE", action=_Part, help="import with a unified diff; - is stdin")
    add(
        "--return",
        nargs=2,
        metavar=("FUNCTION", "VALUE"),
        action=_Part,
        help="have FUNCTION return VALUE (an expression; __return__ is what it returned)",
    )
    add(
        "--raise",
        nargs=2,
        metavar=("FUNCTION", "TYPE"),
        action=_Part,
        help="have FUNCTION raise TYPE, or TYPE: MESSAGE",
    )
    add(
        "--replace",
        nargs=2,
        metavar=("FUNCTION", "WITH"),
        action=_Part,
        help="call WITH instead: a dotted path, a lambda or a def",
    )
    add(
        "--set",
        nargs=3,
        metavar=("FILE:LINE", "NAME", "VALUE"),
        action=_Part,
        help="assign VALUE (an expression) to NAME before the line runs",
    )
    add("--env", metavar="NAME=VALUE", action=_Part, help="set a variable (NAME alone: unset it)")
    add("--spec", metavar="FILE", help="experiments as JSON, as the tool takes them; - is stdin")
    add("--together", action="store_true", help="make one experiment of these options, not several")
    add("--repeat", type=int, metavar="N", default=1, help="run each N times (default: 1)")
    add(
        "--evaluate",
        metavar="EXPR",
        action="append",
        default=[],
        help="show EXPR at the failure, or at the end of the test",
    )
    add("--suggest", action="store_true", help="add experiments that may flip the failing test")
    add("--fresh", action="store_true", help="start a process for each, even where a fork would do")


def _question(chosen: argparse.Namespace) -> Ask:
    from cideldill_mcp.questions.ask_experiment import Experiments, experiment
    from cideldill_mcp.questions.experiment_specs import experiments_of

    asked = Experiments(
        chosen.nodeids,
        experiments_of(_specs(chosen)),
        chosen.repeat,
        chosen.evaluate,
        chosen.suggest,
        chosen.fresh,
    )
    asked.check()
    return lambda asker, bounds: experiment(asker, asked, bounds)


def _specs(chosen: argparse.Namespace) -> list[Any]:
    """The experiments of the options, in their order.

    Raises:
        ValueError: A file can't be read, or is no JSON.
    """
    given: list[tuple[str, Any]] = getattr(chosen, "parts", None) or []
    if not given and chosen.spec is None and not chosen.suggest:
        raise ValueError(f"nothing to try: give {', '.join(_OF_OPTIONS)}, --spec or --suggest")
    parts = [_OF_OPTIONS[option](values) for option, values in given]
    if chosen.together and parts:
        parts = [_joined(parts)]
    return parts + ([] if chosen.spec is None else _of_file(chosen.spec))


def _patch(values: list[str]) -> dict[str, Any]:
    return {"patch": [dict(zip(("file", "old", "new"), values, strict=True))]}


def _return(values: list[str]) -> dict[str, Any]:
    return {"return": {"function": values[0], "value": {"$eval": values[1]}}}


def _raise(values: list[str]) -> dict[str, Any]:
    kind, _, message = values[1].partition(":")
    made = {"function": values[0], "type": kind.strip(), "message": message.strip()}
    return {"raise": made}


def _replace(values: list[str]) -> dict[str, Any]:
    return {"replace": {"function": values[0], "with": values[1]}}


def _set(values: list[str]) -> dict[str, Any]:
    place, name, value = values
    file, _, line = place.rpartition(":")
    if not line.isdecimal():
        raise ValueError(f"--set takes FILE:LINE, not {place!r}")
    made = {"file": file, "line": int(line), "name": name, "value": {"$eval": value}}
    return {"set_local": made}


def _env(text: str) -> dict[str, Any]:
    name, equals, value = text.partition("=")
    return {"env": {name: value if equals else None}}


_OF_OPTIONS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "--patch": _patch,
    "--diff": lambda path: {"diff": _read(path)},
    "--return": _return,
    "--raise": _raise,
    "--replace": _replace,
    "--set": _set,
    "--env": _env,
}
"""Option → the experiment that its values make."""


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """One experiment of several."""
    whole: dict[str, Any] = {}
    for part in parts:
        for kind, value in part.items():
            if kind == "env":
                whole.setdefault(kind, {}).update(value)
            elif kind == "diff":
                whole[kind] = whole.get(kind, "") + value
            else:
                whole.setdefault(kind, []).extend(value if isinstance(value, list) else [value])
    return whole


def _of_file(path: str) -> list[Any]:
    try:
        plain = json.loads(_read(path))
    except ValueError as error:
        raise ValueError(f"--spec {path}: {error}") from error
    if isinstance(plain, dict):
        plain = plain.get("experiments", [plain])
    if not isinstance(plain, list):
        raise ValueError(f"--spec {path} holds no list of experiments")
    return plain


def _read(path: str) -> str:
    if path == "-":
        return sys.stdin.read()
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise ValueError(f"{path} can't be read: {error.strerror}") from error


COMMAND = QuestionCommand(
    "try",
    "run tests with something changed, and compare",
    "Run the tests as they are, and once more for each experiment: with source replaced (no file "
    "is touched), other results, exceptions, values or variables. Say which one makes the failing "
    "test pass and breaks no other.",
    _add_arguments,
    _question,
)
