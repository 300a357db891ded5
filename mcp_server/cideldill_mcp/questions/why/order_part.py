"""The part `order` of `test_why`: after which tests it fails, and what these left behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cideldill_mcp.questions.asking.asker import Seen
from cideldill_mcp.questions.diff.diff_text import Compared
from cideldill_mcp.questions.recordings.listing import SourceFiles
from cideldill_mcp.questions.recordings.recorded import BODIES, Code, Recorded, RecordedTest
from cideldill_mcp.questions.texts.fitting import counted
from cideldill_mcp.questions.why.ask_order import Order
from cideldill_mcp.questions.why.evidence import Finding, of_tests
from cideldill_mcp.questions.why.shared_state import read_names, written_names
from cideldill_mcp.questions.why.why_parts import Part

_NAMED = 3


def order_part(order: Order, seen: Seen, compared: Compared | None, files: SourceFiles) -> Part:
    """The part.

    Args:
        order: What the search has found.
        seen: The tests together, the last of which fails.
        compared: With the test alone.
        files: The sources.
    """
    after = _names(order.before)
    least = "" if order.is_least else "; perhaps fewer are enough"
    lines = [f"order: passes alone, fails after {after}{least}"]
    evidence = list(_left_behind(order, seen.recorded, _readers(compared), files))
    lines += [
        f"  {each.code.name} {each.reason}  {each.code.file}:{each.line}" for each in evidence[:4]
    ]
    return Part("order", lines, evidence, most=500)


def brittle_part(test: RecordedTest, tests: Sequence[RecordedTest]) -> Part | None:
    """The part of a test that fails alone, if it passes behind others.

    Args:
        test: Alone.
        tests: Others and the same test, in the order in which they ran.
    """
    names = [each.nodeid for each in tests]
    if test.nodeid not in names:
        return None
    before = names[: names.index(test.nodeid)]
    if not before or tests[len(before)].outcome != "passed":
        return None
    return Part("order", [f"order: fails alone, passes after {_names(before)}"])


def _names(nodeids: Sequence[str]) -> str:
    """The last of them, which are the likelier ones."""
    more = len(nodeids) - _NAMED
    return ", ".join(nodeids[-_NAMED:]) + (f" and {counted(more, 'more test')}" if more > 0 else "")


def _readers(compared: Compared | None) -> list[Code]:
    """The functions that did something else because of what was left behind."""
    first = None if compared is None else compared.first
    call = None if first is None else first.left
    if call is None:
        return []
    codes = [call.code, *(child.code for child in call.children)]
    return list({code.number: code for code in codes}.values())


def _left_behind(
    order: Order, recorded: Recorded, readers: list[Code], files: SourceFiles
) -> Iterator[Finding]:
    """Functions that the tests before it ran, and that write what the differing ones read."""
    reads: set[str] = set()
    for code in readers:
        node = files.listing(code).node
        reads |= read_names(node) if node is not None else set()
    is_of_tests = of_tests(recorded)
    codes = {
        call.code.number: call.code
        for nodeid in order.before
        if nodeid in recorded.tests
        for call in recorded.tests[nodeid].calls.values()
        if call.code.kind not in BODIES and not is_of_tests(call.code)
    }
    for code in codes.values():
        node = files.listing(code).node
        written = written_names(node) if node is not None else {}
        for name, line in written.items():
            if name in reads:
                reader = ", ".join(each.name for each in readers[:1])
                reason = f"ran before and changes {name}, which {reader} reads"
                yield Finding(code, "order", 3.5, reason, line)
                break
