"""What a question costs: `python -m benchmarks.questions`.

Per line and per call in processor time of the thread that runs them, beside the same test in a
plain run; then the wall time of `cideldill trace` beside pytest's with the same test. With
`--suites` only the processor time of two real suites, run for `test_suspects` and plainly; with
`--experiments` only the wall time of many experiments, in forks and in fresh processes.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from pytest_cideldill.protocol.trace_rows import VARIABLE
from tests.together.frontend import FEW_GUESTS
from tests.together.real_package import CLICK, MORE_ITERTOOLS, Release, unpacked

SAMPLES = 7
SUITE_SAMPLES = 5
SHOP = Path(__file__).parent.parent / "examples" / "shop"
SHOP_TEST = "tests/test_cart.py::test_total[bulk]"

SOURCE = """
import json
from pathlib import Path
from time import thread_time

def add(a, b):
    return a + b

def calls(count):
    total = 0
    for number in range(count):
        total = add(total, number)
    return total

def lines(count):
    total = found = 0
    for number in range(count):
        total += number * 2
        if total % 3 == 0:
            found += 1
        last = total - found
    return last

def least(work, count, rounds):
    times = []
    for _ in range(rounds):
        begun = thread_time()
        work(count)
        times.append(thread_time() - begun)
    return min(times) / count * 1e6

def note(value):
    Path(__file__).with_name("sample.json").write_text(json.dumps(value))

def test_calls():
    note(least(calls, 10_000, 3))

def test_lines():
    note(least(lines, 40_000, 1) / 4.3)  # lines a round; every third `if` is true

def test_unwatched():
    lines(1)  # the chosen call
    note(least(lines, 200_000, 5))

class Basket:
    def __init__(self):
        self.items = [1, 2, 3]
        self.price = 1

def keep(basket):
    basket.price += 1

def watched(basket, count):
    total = found = 0
    for number in range(count):
        total += number * 2
        if total % 3 == 0:
            found += 1
        last = total - found
    return last

def watch(count):
    basket = Basket()
    keep(basket)
    return watched(basket, count)

def test_watched():
    note(least(watch, 40_000, 1) / 4.3)

def test_long():
    lines(250_000)  # a million lines
    note(1)
"""

HEAVY = """
from time import thread_time

end = thread_time() + 3
while thread_time() < end:
    sum(range(10_000))
"""
"""A module whose import takes 3 s of processor time."""

HEAVY_TESTS = """
import heavy

def price(number):
    return number * 2

def test_a():
    assert price(1) == 3

def test_b():
    assert price(2) == 4

def test_c():
    assert price(3) == 6

def test_d():
    assert price(0) == 0

def test_e():
    assert price(4) == 8
"""

EXPERIMENTS = 20

REQUESTS: dict[str, tuple[str, dict[str, object], str]] = {
    "a call in the tree": ("test_calls", {"tree": True}, "µs a call"),
    "a line of the chosen call": (
        "test_lines",
        {"function": "lines", "call": 1},
        "µs a line",
    ),
    "a line while an object is watched": (
        "test_watched",
        {"function": "keep", "call": 1, "watch": {"expression": "basket"}},
        "µs a line",
    ),
    "a line while a list in an attribute is watched": (
        "test_watched",
        {"function": "keep", "call": 1, "watch": {"expression": "basket.items"}},
        "µs a line",
    ),
    "a line while a local is watched": (
        "test_watched",
        {"function": "watched", "call": 1, "watch": {"expression": "found"}},
        "µs a line",
    ),
    "a line while an expression is watched": (
        "test_watched",
        {"function": "watched", "call": 1, "watch": {"expression": "len(basket.items)"}},
        "µs a line",
    ),
    "code beside the chosen call": (
        "test_unwatched",
        {"function": "lines", "call": 1},
        "µs a round",
    ),
}


def main() -> None:
    """Print the figures."""
    if "--suites" in sys.argv:
        _suites()
        return
    if "--experiments" in sys.argv:
        _experiments()
        return
    print(f"Python {platform.python_version()}, {SAMPLES} samples each, in turns")
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        (project / "pytest.ini").touch()
        (project / "test_cost.py").write_text(SOURCE, encoding="utf-8")
        for title, (test, request, unit) in REQUESTS.items():
            plain, asked = [], []
            for _ in range(SAMPLES):
                plain.append(_cost(project, test, None))
                asked.append(_cost(project, test, request))
            ratio = median(asked) / median(plain)
            shown = ", ".join(f"{each:.2f}" for each in sorted(asked))
            print(f"{title}: {median(asked):.2f} {unit}; plain {median(plain):.3f}; × {ratio:.2f}")
            print(f"    {shown}")
        seconds = [_wall(lambda: _cost(project, "test_long", {"function": "lines", "call": 1}))]
        print(f"a test of 1,000,000 lines, all in the chosen call: {seconds[0]:.1f} s")
    _command()


def _cost(project: Path, test: str, request: dict[str, object] | None) -> float:
    rows = project / "rows"
    rows.write_text("")
    asked = {"file": str(rows), "nodeids": [f"test_cost.py::{test}"], **(request or {})}
    extra = {} if request is None else {VARIABLE: json.dumps(asked)}
    command = [sys.executable, "-m", "pytest", "-q", f"test_cost.py::{test}"]
    subprocess.run(
        command, cwd=project, env={**os.environ, **extra}, check=True, capture_output=True
    )
    value: float = json.loads((project / "sample.json").read_text())
    return value


def _command() -> None:
    """Start to answer, beside pytest alone."""
    script = shutil.which("cideldill", path=str(Path(sys.executable).parent))
    if script is None:
        print("the command cideldill is not installed here")
        return
    plain, asked = [], []
    for _ in range(SAMPLES):
        plain.append(_wall(lambda: _run([sys.executable, "-m", "pytest", "-q", SHOP_TEST])))
        asked.append(_wall(lambda: _run([script, "trace", SHOP_TEST])))
    ratio = median(asked) / median(plain)
    print(
        f"cideldill trace on examples/shop: {median(asked):.2f} s; "
        f"pytest {median(plain):.2f} s; × {ratio:.2f}"
    )
    print(f"    {', '.join(f'{each:.2f}' for each in sorted(asked))}")


def _suites() -> None:
    """Starts of functions, in the suites of released packages."""
    for release in (CLICK, MORE_ITERTOOLS):
        with tempfile.TemporaryDirectory() as folder:
            root = unpacked(release, Path(folder))
            plain, noted = [], []
            for _ in range(SUITE_SAMPLES):
                plain.append(_of_suite(root, release, None))
                noted.append(_of_suite(root, release, {"starts": True}))
        # The least: whatever else the machine does makes it more.
        least, bare = min(noted), min(plain)
        name = f"{release.name} with starts"
        print(f"{name}: {least:.1f} s; plain {bare:.1f} s; × {least / bare:.2f}")
        print(f"    {', '.join(f'{each:.1f}' for each in sorted(noted))}")


def _of_suite(root: Path, release: Release, request: dict[str, object] | None) -> float:
    """Seconds of the processor."""
    rows = root.parent / "rows"
    rows.write_text("")
    asked = {"file": str(rows), "nodeids": [], **(request or {})}
    extra = {"PYTHONPATH": str(root / Path(release.package).parent)} | FEW_GUESTS
    extra |= {VARIABLE: json.dumps(asked)} if request is not None else {}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "no:cideldill"] if request is None else []
    before = _children_s()
    subprocess.run(command, cwd=root, env={**os.environ, **extra}, check=True, capture_output=True)
    return _children_s() - before


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _experiments() -> None:
    """Experiments of forced changes on a project with long imports, in forks and without."""
    script = shutil.which("cideldill", path=str(Path(sys.executable).parent))
    if script is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        plugins = "-p no:rerunfailures -p no:hypothesispytest"
        (project / "pytest.ini").write_text(f"[pytest]\naddopts = {plugins}\n")
        (project / "heavy.py").write_text(HEAVY, encoding="utf-8")
        (project / "test_heavy.py").write_text(HEAVY_TESTS, encoding="utf-8")
        changes = [
            {"return": {"function": "test_heavy.price", "value": each}}
            for each in range(EXPERIMENTS)
        ]
        (project / "spec.json").write_text(json.dumps(changes))
        command = [script, "try", "test_heavy.py", "--spec", "spec.json", "--timeout", "600"]
        fresh = _wall(lambda: _run([*command, "--fresh"], project))
        forked = _wall(lambda: _run(command, project))
    print(
        f"{EXPERIMENTS} experiments after 3 s of imports: {fresh:.1f} s in fresh processes, "
        f"{forked:.1f} s in forks; × {fresh / forked:.1f}"
    )


def _run(command: list[str], folder: Path = SHOP) -> None:
    subprocess.run(command, cwd=folder, check=False, capture_output=True)


def _wall(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
