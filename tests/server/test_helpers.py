"""Helper processes: one request, one reply, whatever else is on their stdout."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from cideldill_mcp.processes.helpers import Unanswered, ask
from pytest_cideldill.interpreter.one_shot import reply_in

HELPER = "pytest_cideldill.sourcecode.helper"

FOREIGN = {
    "a line": "print('hello')",
    "no whole line": "print('hello', end='')",
    "past the buffer": "import os; os.write(1, b'hello')",
    "much": "print('hello ' * 100_000)",
    "JSON": "print('{\"places\": []}')",
    "bytes": "import os; os.write(1, b'\\xff\\0\\n\\n')",
    "at the end": "import atexit; atexit.register(print, 'bye')",
    "all along": "import threading, itertools\n"
    "threading.Thread(target=lambda: [print(n) for n in itertools.count()], daemon=True).start()",
    "a .pth file": "import os, site; site.addsitedir(os.path.dirname(__file__))",
}
"""What a `sitecustomize` may do with stdout."""

QUICK = ("past the buffer",)
"""What the fast tier tries."""


def asked(request: dict[str, Any]) -> dict[str, Any]:
    return asyncio.run(ask([sys.executable], HELPER, request, 30))


@pytest.mark.parametrize(
    "kind",
    [each if each in QUICK else pytest.param(each, marks=pytest.mark.full) for each in FOREIGN],
)
def test_a_reply_is_found_among_what_others_print(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(FOREIGN[kind], encoding="utf-8")
    (tmp_path / "shop.pth").write_text("import sys; print('hello')\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    file = tmp_path / "shop.py"
    file.write_text("total = 1\ncideldill_reply = '\\ncideldill-reply:{}'\n", encoding="utf-8")
    assert asked({"op": "lines", "file": str(file)}) == {"lines": [1, 2]}
    place = asked({"op": "validate", "file": str(file), "line": 2})["places"][0]
    assert place["source"].endswith("'\\ncideldill-reply:{}'")


def test_an_answer_that_does_not_come_is_reported_with_its_reason(tmp_path: Path) -> None:
    for command, reason in (
        ([str(tmp_path / "nothing")], "No such file"),
        ([sys.executable, "-c", "import sys; sys.exit('no way\\n\\n')"], "no way"),
        ([sys.executable, "-c", "print('{}')"], "it did not reply"),
    ):
        with pytest.raises(Unanswered, match=reason):
            asyncio.run(ask(command, HELPER, {}, 30))
    with pytest.raises(TimeoutError):
        asyncio.run(ask([sys.executable, "-c", "input(); input()"], HELPER, {}, 0.01))


def test_a_reply_that_was_cut_off_is_none() -> None:
    for output in (b"", b"{}\n", b'\ncideldill-reply:{"a"'):
        with pytest.raises(ValueError, match=r"reply|delimiter"):
            reply_in(output)
