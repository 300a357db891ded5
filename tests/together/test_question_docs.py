"""The questions of the documentation: commands print, and tools reply, what is shown there."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.together.driver import DEADLINE_S, connected, server
from tests.together.frontend import clean_environment
from tests.together.transcript import blocks, replay

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
PAGE = (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMAND = "from cideldill_mcp.commands.main import main; import sys; sys.exit(main())"

CONSOLE = [
    re.fullmatch(r"(\w+)\$ cideldill (.*?)\n(.*)\n", block, re.DOTALL)
    for block in blocks(PAGE, "console")
]
"""Commands of the page: the folder in `examples/`, the arguments, what is printed."""


def copied(name: str, folder: Path) -> Path:
    """A copy of an example project."""
    leftovers = shutil.ignore_patterns("__pycache__", ".*")
    return shutil.copytree(EXAMPLES / name, folder / name, ignore=leftovers)


def printed(arguments: str, project: Path) -> str:
    """What `cideldill` prints there; it has an answer."""
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *shlex.split(arguments), "--python", sys.executable],
        cwd=project,
        env=clean_environment(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def known(text: str) -> list[str]:
    """The lines that every Python version prints: on 3.11 libraries in C are not seen."""
    lines = text.rstrip("\n").split("\n")
    if sys.version_info >= (3, 12):
        return lines
    return [line for line in lines if not line.lstrip().startswith("lib: ")]


@pytest.mark.parametrize("number", range(len(CONSOLE)))
def test_a_command_of_the_page_prints_what_is_shown(number: int, tmp_path: Path) -> None:
    block = CONSOLE[number]
    assert block is not None
    name, arguments, shown = block.groups()
    assert known(printed(arguments, copied(name, tmp_path))) == known(shown)


def test_the_page_has_each_kind_of_answer() -> None:
    """Why a test fails, the tree, the first call for which something is true, who changed a value,
    also until something is true, ranked functions, differences of two tests and before and after a
    patch, source with the lines that ran, experiments.
    """
    assert [block and block[2].split()[0] for block in CONSOLE] == [
        *("why", "trace", "trace", "watch", "watch", "suspects", "diff", "diff", "source", "try")
    ]
    assert [block and "--when" in block[2] for block in CONSOLE] == [
        *(False, False, True, False, False, False, False, False, False, False)
    ]


def test_the_call_of_the_page_gets_the_reply_that_is_shown(tmp_path: Path) -> None:
    """Through the protocol, in the example that the text above it names."""
    page = PAGE
    if sys.version_info < (3, 12):
        page = re.sub(r"^\| *lib: .*\n", "", page, flags=re.MULTILINE)
    with connected(server(copied("receipts", tmp_path))) as agent:
        replay(agent, page)


def test_the_commands_of_the_readme_say_why_and_show_the_call(tmp_path: Path) -> None:
    (block,) = (text for text in blocks(README, "sh") if " trace " in text)
    project = copied("shop", tmp_path)
    shows = ("shop.pricing.rate  ", "found = _RATES[code]  → found=Decimal('0.05')")
    for line, shown in zip(block.splitlines(), shows, strict=True):
        program, _, arguments = line.partition(" ")
        assert program == ".venv/bin/cideldill"
        assert shown in printed(arguments, project)
