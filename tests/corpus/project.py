"""The project that is made of the corpus: its files, its tracepoints, its environment."""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.corpus import harmless, named, shapes, sources, texts
from tests.corpus.cases import MARK, TEXT, Harmless, Planted

SECRETS: Final[tuple[Planted, ...]] = (
    *named.cases(),
    *texts.cases(),
    *shapes.cases(),
    *sources.cases(),
)
PLAIN: Final[tuple[Harmless, ...]] = tuple(harmless.cases())

FORMS: Final = "forms.py"
"""The file with secrets in its source."""

PLAIN_FORMS: Final = "plain.py"
"""The file without, one case a line."""

_MODULES: Final = {
    "test_plain_id": "test_password",
    "test_plain_trace": "test_token",
    "test_plain_variable": "test_auth_secret",
}
"""Modules whose names look like those of secrets; harmless as well."""

_VAULT: Final = """
import json, pathlib

_KEPT = json.loads((pathlib.Path(__file__).parent / "vault.json").read_text(encoding="utf-8"))


def plant(number):
    return _KEPT[number][0]


def text(number):
    return _KEPT[number][1]
"""

_SHOP: Final = '''
import collections, contextvars, enum, functools, http.cookiejar, inspect, json, logging, os
import pathlib, subprocess, sys, urllib.parse
from collections import namedtuple
from dataclasses import dataclass, make_dataclass
from unittest.mock import MagicMock

import reporting

never = False


class Client:
    host = "web"

    def __init__(self):
        self.timeout = 3


class Thing:
    pass


class Kind(enum.Enum):
    NAME = 1
    NUMBER = 2
    SIGN = 3


@dataclass
class Token:
    kind: Kind
    text: str
    position: int


class Bucket:
    def __init__(self, size, rate):
        self.size, self.rate = size, rate


def slotted(name, value):
    made = type("Slotted", (), {"__slots__": ("host", name)})()
    made.host = "web"
    setattr(made, name, value)
    return made


def alike(name, value):
    """As attrs makes them: slots, and a `repr` of its own."""
    made = type("Settings", (), {"__slots__": (name, "__weakref__"), "__attrs_attrs__": (name,)})()
    object.__setattr__(made, name, value)
    return made
'''

_REPORTING: Final = """
import os
from vault import plant, text


def charge(*amounts, **options):
    return len(options)


def refuse(**options):
    raise RuntimeError("refused")

"""

_CONFTEST: Final = """
import os
import pytest
from vault import plant, text


def load_dotenv(name, value):
    for line in f"# settings\\n{name}={value}\\n".splitlines():
        key, _, rest = line.partition("=")
        if rest:
            os.environ[key] = rest

"""

_MOST_TESTS: Final = 20
"""Of a module: pytest parses the whole file for each failure in it."""

_HEAD: Final = "import pytest\nfrom shop import *\nfrom vault import plant, text\n\n"


@dataclass(frozen=True, slots=True)
class Project:
    """What was written.

    Attributes:
        root: Its folder.
        environment: Variables to start it with.
        traces: Of each tracepoint the file, the line and the message.
        harmless: The harmless cases by the names of their tests.
        plain_lines: The harmless lines of source by their numbers.
    """

    root: Path
    environment: dict[str, str]
    traces: tuple[tuple[str, int, str], ...]
    harmless: dict[str, Harmless]
    plain_lines: dict[int, Harmless]

    def case_of(self, nodeid: str) -> Harmless | None:
        """The harmless case whose test this is."""
        name = re.match(r".*?::(\w+)", nodeid)
        return self.harmless.get(name[1]) if name else None


def write(root: Path) -> Project:
    """Write the project of the whole corpus."""
    root.mkdir(parents=True, exist_ok=True)
    cases: Sequence[Planted | Harmless] = (*SECRETS, *PLAIN)
    modules: dict[str, list[str]] = defaultdict(lambda: [_HEAD])
    traces, known, tests = [], {}, Counter[str]()
    for number, case in enumerate(cases):
        is_harmless = isinstance(case, Harmless)
        module = f"test_{'plain' if is_harmless else 'planted'}_{case.kind}"
        module = _MODULES.get(module, module)
        tests[module] += 1
        if part := tests[module] // _MOST_TESTS:
            module = f"{module}_{part}"
        name = f"test_{'h' if is_harmless else 's'}{number}"
        test = _test(case, number, name)
        if test:
            modules[module].append(test)
        if test and isinstance(case, Harmless):
            known[name] = case
        if case.trace:
            line = "".join(modules[module]).rstrip("\n").count("\n") + 1
            traces.append((f"{module}.py", line, case.trace))
    for module, parts in modules.items():
        _write(root, f"{module}.py", "".join(parts))
    kept = [(each.value, each.whole) for each in SECRETS] + [("", each.text) for each in PLAIN]
    _write(root, "vault.json", json.dumps(kept))
    _write(root, "vault.py", _VAULT)
    _write(root, "shop.py", _SHOP)
    functions = [_filled(each.function, n) for n, each in enumerate(SECRETS) if each.function]
    _write(root, "reporting.py", "\n\n".join([_REPORTING, *functions]))
    settings = [_filled(each.conftest, n) for n, each in enumerate(SECRETS) if each.conftest]
    _write(root, "conftest.py", "\n".join([_CONFTEST, *settings, ""]))
    _write(root, "pytest.ini", "[pytest]\n")
    forms = [each.source.replace(MARK, each.value) for each in SECRETS if each.kind == "file"]
    _write(root, FORMS, "import os\n\n" + "\n\n".join([*forms, ""]))
    lines = [each for each in PLAIN if each.kind == "file"]
    _write(root, PLAIN_FORMS, "\n".join(["import os", *(each.source for each in lines), ""]))
    variables = {each.variable: each.value for each in SECRETS if each.variable}
    return Project(root, variables, tuple(traces), known, dict(enumerate(lines, start=2)))


def _test(case: Planted | Harmless, number: int, name: str) -> str:
    if case.kind == "file":
        return ""
    body = case.body
    if case.source and isinstance(case, Planted):
        body = case.source.replace(MARK, case.value)
    body = _filled(body, number)
    head = _filled(f"{case.head}\n" if case.head else "", number)
    return f"{head}def {name}({case.arguments}):\n{textwrap.indent(body, '    ')}\n\n\n"


def _filled(text: str, number: int) -> str:
    return text.replace(MARK, f"plant({number})").replace(TEXT, f"text({number})")


def _write(root: Path, name: str, text: str) -> None:
    (root / name).write_text(text, encoding="utf-8")
