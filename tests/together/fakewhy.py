"""A stand-in for the command `cideldill why`, which a run with `--cideldill-why` starts.

A package of the front end's name, which a folder of PYTHONPATH puts before the installed one. So
the command line is the real one. It answers as the name of the test says.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_MAIN = """\
import json, os, signal, sys, time
nodeid = sys.argv[2]
asked = {"argv": sys.argv[1:], "cwd": os.getcwd(), "stdin": sys.stdin.read(), "pid": os.getpid(),
         "environment": dict(os.environ)}
with open(os.environ["ASKED"], "a", encoding="utf-8") as file:
    file.write(json.dumps(asked) + "\\n")
if "refused" in nodeid:
    print(json.dumps({"error": "not_reproduced", "message": f"{nodeid} passes when it runs alone"}))
    sys.exit(1)
if "broken" in nodeid:
    sys.exit("ImportError: no front end\\n\\n")
if "garbage" in nodeid:
    print("no JSON")
    sys.exit(0)
if "interrupts" in nodeid:
    os.kill(os.getppid(), signal.SIGINT)
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        open(os.environ["ASKED"] + ".ended", "w").close()
        sys.exit(130)
suspects = [{"function": "shop.total", "file": "shop.py", "line": 3, "reason": "returned it"}]
print(json.dumps({"id": "q1", "nodeid": nodeid, "outcome": "failed", "parts": ["failure"],
    "suspects": suspects, "seconds": 0.1, "text": f"why {nodeid} ✗\\n  because <b>of</b> it"}))
"""


def fake_command(folder: Path) -> dict[str, str]:
    """Make it in a folder; the variables with which pytest starts it."""
    commands = folder / "fakes" / "cideldill_mcp" / "commands"
    commands.mkdir(parents=True)
    (commands.parent / "__init__.py").touch()
    (commands / "__init__.py").touch()
    (commands / "main.py").write_text(_MAIN, encoding="utf-8")
    return {"PYTHONPATH": str(folder / "fakes"), "ASKED": str(folder / "asked.jsonl")}


def asked_in(folder: Path) -> list[dict[str, Any]]:
    """What the command was started with, each time."""
    file = folder / "asked.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [json.loads(each) for each in lines]


def nodeids_in(folder: Path) -> list[str]:
    """The tests that it was asked for."""
    return [each["argv"][1] for each in asked_in(folder)]
