"""What a failing test costs: `python -m benchmarks.failures`.

The autopsy is made of frames that really failed. The delay is taken from the failing line to the
moment when the reply that holds the pause has been read, over raw pipes as in `benchmarks.spine`.
Prints medians with every sample; asserts nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType

from benchmarks.spine import RawClient, show, versions
from pytest_cideldill.frames.failure import RECORDED, ExaminedFailure, FailureExtent, autopsy
from pytest_cideldill.project import Project
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering.display import Lens

FRAMES = 10
LOCALS = 40

FAILING = """
import time


def test_fails():
    left, right = [1, 2, 3], [1, 2, 4]
    failed_at = time.time()
    assert left == right
"""


def deep(depth: int) -> str:
    """Source of functions that call each other, with `LOCALS` locals each.

    The last one fails, in a line that uses five lists which are too long to be shown whole.
    """
    kinds = ("{n}", "'text {n}'", "[{n}] * 50", "{{'key {n}': {n}}}", "Item({n})")
    lines = ["class Item:", "    def __init__(self, n): self.n, self.tags = n, ['a', 'b']", ""]
    for level in range(depth):
        lines.append(f"def level{level}():")
        lines += [f"    v{n} = {kinds[n % len(kinds)].format(n=n)}" for n in range(LOCALS)]
        is_last = level == depth - 1
        lines += [
            "    raise ValueError(v2, v7, v12, v17, v22)" if is_last else f"    level{level + 1}()",
            "",
        ]
    return "\n".join(lines)


def autopsies(folder: Path, count: int, extent: FailureExtent) -> list[float]:
    """Milliseconds of processor time of each autopsy of one failure of `FRAMES` frames."""
    path = folder / "deep.py"
    path.write_text(deep(FRAMES), encoding="utf-8")
    names: dict[str, object] = {"__name__": "deep"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    start = names["level0"]
    assert callable(start)
    try:
        start()
    except ValueError as error:
        failed = error
    else:
        raise AssertionError("it did not fail")
    places: list[tuple[FrameType, int]] = []
    trace = failed.__traceback__
    while trace is not None:
        places.insert(0, (trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    places = places[:FRAMES]
    lens = Lens(Project(str(folder)), Redactor())
    samples = []
    for _ in range(count):
        began = time.thread_time()
        exception = {"type": "ValueError", "message": "0"}
        made = autopsy(ExaminedFailure(failed, exception, places), lens, extent)
        samples.append((time.thread_time() - began) * 1e3)
        assert len(made["frames"]) == FRAMES
    return samples


def delays(folder: Path, count: int) -> list[float]:
    """Milliseconds from the failing assertion to the client's knowing of the pause."""
    (folder / "pytest.ini").touch()
    (folder / "test_it.py").write_text(FAILING, encoding="utf-8")
    samples = []
    with RawClient(folder) as client:
        client.initialize()
        for _ in range(count + 1):  # the first one compiles
            stop = client.call("test_run", replace=True)["stops"][0]
            known_at = time.time()
            pause = {"pause_id": stop["pause_id"], "expression": "failed_at"}
            failed_at = float(client.call("breakpoint_repl_eval", **pause)["output"])
            samples.append((known_at - failed_at) * 1e3)
            client.call("breakpoint_continue", pause_id=stop["pause_id"], wait=True)
    return samples[1:]


def main() -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser("python -m benchmarks.failures", description=__doc__)
    parser.add_argument("--runs", type=int, default=9, help="of a failing test")
    parser.add_argument("--autopsies", type=int, default=9, help="of one failure")
    chosen = parser.parse_args()
    print(versions(), end="\n\n")
    sys.dont_write_bytecode = True
    with tempfile.TemporaryDirectory(prefix="cideldill-failures-") as temp:
        for extent in (RECORDED, FailureExtent(variables=FRAMES)):
            samples = autopsies(Path(temp), chosen.autopsies, extent)
            name = f"{FRAMES} frames, {LOCALS} locals each, {extent.variables} of them shown"
            show(f"autopsy: {name}", samples, "ms", "aim 50 ms")
        samples = delays(Path(temp), chosen.runs)
        show("failing assertion to the pause at the client", samples, "ms", "aim 150 ms")


if __name__ == "__main__":
    main()
