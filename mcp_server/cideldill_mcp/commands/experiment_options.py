"""The options that say what is changed in an experiment, and the objects that they make."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any


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


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add them to a command."""
    for option, (_, values, help) in _OF_OPTIONS.items():
        count = len(values) if isinstance(values, tuple) else None
        parser.add_argument(option, nargs=count, metavar=values, action=_Part, help=help)
    parser.add_argument(
        "--spec", metavar="FILE", help="experiments as JSON, as the tool takes them; - is stdin"
    )


def experiments(chosen: argparse.Namespace, *, together: bool) -> list[Any]:
    """The experiments of the options in their order, as clients write them.

    Args:
        together: Whether all options make one; those of `--spec` are further ones.

    Raises:
        ValueError: A value is malformed, or a file can't be read or is no JSON.
    """
    given: list[tuple[str, Any]] = getattr(chosen, "parts", None) or []
    parts = [_OF_OPTIONS[option][0](values) for option, values in given]
    if together and parts:
        parts = [_joined(parts)]
    return parts + ([] if chosen.spec is None else _of_file(chosen.spec))


def _raise(values: list[str]) -> dict[str, Any]:
    kind, _, message = values[1].partition(":")
    made = {"function": values[0], "type": kind.strip(), "message": message.strip()}
    return {"raise": made}


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


_OF_OPTIONS: Mapping[str, tuple[Callable[[Any], dict[str, Any]], str | tuple[str, ...], str]] = {
    "--patch": (
        lambda values: {"patch": [dict(zip(("file", "old", "new"), values, strict=True))]},
        ("FILE", "OLD", "NEW"),
        "import FILE with OLD, which stands there once, replaced by NEW",
    ),
    "--diff": (
        lambda path: {"diff": _read(path)},
        "FILE",
        "import with a unified diff; - is stdin",
    ),
    "--return": (
        lambda values: {"return": {"function": values[0], "value": {"$eval": values[1]}}},
        ("FUNCTION", "VALUE"),
        "have FUNCTION return VALUE (an expression; __return__ is what it returned)",
    ),
    "--raise": (_raise, ("FUNCTION", "TYPE"), "have FUNCTION raise TYPE, or TYPE: MESSAGE"),
    "--replace": (
        lambda values: {"replace": {"function": values[0], "with": values[1]}},
        ("FUNCTION", "WITH"),
        "call WITH instead: a dotted path, a lambda or a def",
    ),
    "--set": (
        _set,
        ("FILE:LINE", "NAME", "VALUE"),
        "assign VALUE (an expression) to NAME before the line runs",
    ),
    "--env": (_env, "NAME=VALUE", "set a variable (NAME alone: unset it)"),
}
"""Option → the experiment that its values make, their names, and its help."""

OPTIONS = tuple(_OF_OPTIONS)


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
