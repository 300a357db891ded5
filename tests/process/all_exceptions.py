"""Makes every exception of the standard library; prints those whose text is not that of `str`.

A program of its own: it imports all of the standard library.
"""

from __future__ import annotations

import importlib
import itertools
import json
import pkgutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_cideldill.config.limits import Limits
from pytest_cideldill.project import Project
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering.display import Lens
from pytest_cideldill.rendering.exception_text import message_of

LEFT_OUT = frozenset({"__main__", "antigravity", "idlelib", "lib2to3", "this", "turtledemo"})
ARGUMENTS: tuple[tuple[Any, ...], ...] = (
    (),
    ("",),
    ("it's wrong",),
    (7,),
    (-9, "cmd"),
    (None, "why"),
    (2, ["run", "it"]),
    (2, "why"),
    (2, "why", "a file"),
    (2, "why", "a file", None, "another"),
    (2, "why", Path("a/file")),
    ("why", ("a.py", 3, 1, "x = ", 3, 4)),
    ("why", (None, 3, 1, "x = ")),
    ("utf-8", b"abc\xe9", 3, 4, "reason"),
    ("utf-8", b"abc\xe9", 1, 4, "reason"),
    ("ascii", "abc\xe9", 3, 4, "reason"),
    ("abc\xe9", 3, 4, "reason"),
    ("two", [ValueError(1), KeyError("k")]),
    ("what", [ValueError(1)]),
    (KeyError("inner"),),
    (b"part", 3),
    ("text", "document", 3),
    ("a", "b", "c"),
    ({"a": [1, 2.5]}, {1}, None),
)


# What is not made of any of those.
OWN_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "urllib.error.HTTPError": ("http://x", 404, "Not Found", {}, None),
}


def modules() -> Iterator[ModuleType]:
    names = sorted(sys.stdlib_module_names - LEFT_OUT)
    for name in names:
        for found in _imported(name):
            yield found
            for inner in pkgutil.iter_modules(getattr(found, "__path__", ()), f"{name}."):
                if not {"test", "tests", "__main__"} & set(inner.name.split(".")):
                    yield from _imported(inner.name)
    yield from _imported("concurrent.futures.process")
    yield from _imported("importlib.metadata")


def _imported(name: str) -> list[ModuleType]:
    try:
        return [importlib.import_module(name)]
    except (ImportError, AttributeError, OSError, RuntimeError, SystemExit, TypeError):
        return []


def main() -> None:
    warnings.simplefilter("ignore")
    lens = Lens(Project(str(Path.cwd())), Redactor(environ={}), Limits(capture_ms=60_000))
    classes = {
        held: None
        for module in modules()
        for held in list(vars(module).values())
        if isinstance(held, type) and issubclass(held, BaseException)
        if held.__module__ == module.__name__
    }
    made, wrong = set(), {}
    for cls, arguments in itertools.product(classes, ARGUMENTS):
        name = f"{cls.__module__}.{cls.__qualname__}"
        try:
            error = cls(*OWN_ARGUMENTS.get(name, arguments))
            wanted = str(error)
        except Exception:  # noqa: BLE001 - it is made of other things
            continue
        made.add(name)
        shown = message_of(error, lens)
        if shown != wanted[:500]:
            wrong[f"{name}{arguments!r}"] = [shown, wanted]
    every = {f"{cls.__module__}.{cls.__qualname__}" for cls in classes}
    print(json.dumps({"made": sorted(made), "not made": sorted(every - made), "wrong": wrong}))


if __name__ == "__main__":
    main()
