"""A stand-in for a question's pytest: it writes rows, and behaves as the name of its test says.

It takes the place of the interpreter (`--python`). What is no question's process runs as it would.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

HEAD = """\
import json, os, signal, subprocess, sys, threading, time
def note(pid):
    open(os.path.join(os.environ["TMPDIR"], f"{pid}.pid"), "w").close()
note(os.getpid())
request = json.loads(os.environ["CIDELDILL_QUESTION"])
def write(*rows):
    with open(request["file"], "a", encoding="utf-8") as file:
        file.write(json.dumps(rows) + "\\n")
def begin(nodeid=request["nodeids"][0]):
    write(["process", "3.12.1", os.getcwd()], ["test", nodeid], ["phase", "setup"])
    write(["outcome", "setup", "passed", None, None, None], ["phase", "call"])
def calls(count):
    write(["code", 1, "shop", "total", "shop.py", 1, 2, "function"])
    write(*(["call", n, 0, 1, 3, "", [], ""] for n in range(1, count + 1)))
def end(outcome="passed"):
    write(["outcome", "call", outcome, None, None, None])
    write(["phase", "teardown"], ["outcome", "teardown", "passed", None, None, None], ["end"])
def hang():
    threading.Event().wait()
"""

SCRIPTS = {
    "good": "begin(); calls(2); end()",
    "failing": "begin(); calls(1); end('failed')",
    "hangs": "begin(); calls(3); hang()",
    "deaf": "signal.signal(signal.SIGINT, signal.SIG_IGN); begin(); hang()",
    "stubborn": "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); begin(); hang()",
    "raises": "begin(); calls(1); write(['unwind', 1, 'KeyError: 1']); end('failed')",
    "counts": "begin()\nwrite(['code', 1, 'shop.cart', 'total', 'shop/cart.py', 24, 28, "
    "'function'])\nwrite(['lines', 1, [[25, 1], [28, 3]]]); end()",
    "killed": "begin(); calls(2); os.kill(os.getpid(), signal.SIGKILL)",
    "garbage": "open(request['file'], 'wb').write(b'\\xff[[[\\n[1,2]\\n[[]]\\n{}\\n')\n"
    "begin(); calls(2); end(); open(request['file'], 'ab').write(b'[[\"call\", 3')",
    "silent": "print('no plugin here')",
    "breaks": "write(['process', '3.12.1', os.getcwd()])\n"
    "sys.stderr.write('ImportError: no shop\\n'); sys.exit(4)",
    "leaves": "note(subprocess.Popen([sys.executable, '-c', 'input()'], stdin=-1).pid)\n"
    "begin(); end()",
    "lingers": "begin(); calls(1); end(); hang()",
    "missing": "write(['process', '3.12.1', os.getcwd()])\n"
    "write(['missing', request['nodeids'], ['test_it.py::test_missing']], ['end'])",
    "uncollected": "write(['process', '3.12.1', os.getcwd()])\n"
    "write(['uncollected', 'test_it.py', 'x\\nE   NameError: shop'], ['end'])",
    "refuses": "write(['process', '3.12.1', os.getcwd()])\n"
    "write(['refused', 'invalid_parameter', 'len is made in C'], ['end'])",
    "uncalled": "begin(); write(['matches', 0], ['unmatched', ['shop.sum']]); end()",
    "test_flaky": "begin(); end()",
    "twice": "begin(); calls(2); write(['matches', 2]); end()",
    "request": "seen = {'seen_seed': os.environ['PYTHONHASHSEED'],"
    " 'mode': os.stat(request['file']).st_mode & 0o777}\n"
    "begin(json.dumps({**request, **seen})); end()",
}


def fake_python(folder: Path) -> Path:
    """An interpreter of tests; `test_it.py::NAME` does what the script `NAME` says."""
    script = folder / "child.py"
    names = "NAME = request['nodeids'][0].rpartition('::')[2]"
    script.write_text(
        f"{HEAD}{names}\nexec(json.loads({json.dumps(json.dumps(SCRIPTS))})[NAME])\n",
        encoding="utf-8",
    )
    python = folder / "python"
    run = f"exec {shlex.quote(sys.executable)}"
    text = f'#!/bin/sh\n[ -z "$CIDELDILL_QUESTION" ] || {run} {shlex.quote(str(script))} "$@"\n'
    python.write_text(f'{text}{run} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    return python


def living(folder: Path) -> list[int]:
    """The processes, of those that were started with this TMPDIR, that are there."""
    pids = [int(path.stem) for path in folder.glob("*.pid")]
    return [pid for pid in pids if _lives(pid)]


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def files_of_questions(folder: Path) -> list[Path]:
    """What questions have in private directories below this TMPDIR."""
    return [path for path in folder.glob("cideldill-*/q*") if path.name[1:2].isdecimal()]
