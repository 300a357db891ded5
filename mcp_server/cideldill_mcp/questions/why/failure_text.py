"""The failure of a test in a few lines: its line, both sides, where they differ, its frames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cideldill_mcp.questions.diff.diff_text import around
from cideldill_mcp.questions.recordings.listing import SourceFiles
from cideldill_mcp.questions.recordings.recorded import Failed, RecordedTest
from cideldill_mcp.questions.texts.fitting import clipped, counted, short
from cideldill_mcp.questions.trace.call_tree import heading
from cideldill_mcp.questions.why.differing_parts import first_other_part
from cideldill_mcp.questions.why.mock_calls import first_other_argument

_VALUE: Final = 160
_SOURCE: Final = 100
_MESSAGE: Final = 8
_FRAMES: Final = 4
_LOCALS: Final = 6
_BEHIND: Final = 3
_RELATIONS: Final = {"cause": "caused by", "context": "while handling", "member": "in the group:"}


def failure_lines(test: RecordedTest, files: SourceFiles) -> list[str]:
    """The lines; the first is that of all questions."""
    lines = [heading(test)]
    failed = test.failed
    if failed is None:
        return lines
    lines += _more_of_message(failed)
    lines += _frames(failed, files)
    lines += _behind(failed)
    if failed.op:
        lines += _sides(failed)
    elif failed.locals:
        shown = [f"{name}={short(text, 60)}" for name, text in failed.locals[:_LOCALS]]
        lines.append(f"  there: {', '.join(shown)}")
    argument = None if failed.op else first_other_argument(failed.message)
    if argument is not None:
        actual, expected = around(argument.actual, argument.expected, _VALUE // 2)
        lines.append(f"  {argument.place} was {actual}, expected {expected}")
    lines += _failed_behind(test, failed.phase)
    return lines


def _more_of_message(failed: Failed) -> Iterator[str]:
    """The lines below the first one, but not those that explain a comparison: its sides do."""
    more = [line.rstrip() for line in failed.message.strip().splitlines()[1:] if line.strip()]
    if failed.op:
        explained = [at for at, line in enumerate(more) if line.startswith("assert ")]
        more = more[: explained[0]] if explained else []
    yield from (f"  {clipped(line, _VALUE)}" for line in more[:_MESSAGE])
    if len(more) > _MESSAGE:
        yield f"  … {counted(len(more) - _MESSAGE, 'more line')} of the message"


def _frames(failed: Failed, files: SourceFiles) -> Iterator[str]:
    """The lines of the user's frames, the innermost first; the way to it if it is a library's."""
    library = failed.frames[0] if failed.frames and not failed.frames[0].is_users else None
    users = [frame for frame in failed.frames if frame.is_users]
    if library is not None:
        yield f"  raised in {library.function}  {library.file}:{library.line}"
    shown = users if len(users) <= _FRAMES else [*users[: _FRAMES - 1], users[-1]]
    for frame in shown:
        lines = files.lines(frame.file)
        source = lines[frame.line - 1].strip() if 0 < frame.line <= len(lines) else ""
        yield f"  {frame.file}:{frame.line} {frame.function}  {clipped(source, _SOURCE)}".rstrip()
    if len(users) > len(shown):
        yield f"  … {len(users) - len(shown)} frames between the last two"


def _behind(failed: Failed) -> Iterator[str]:
    """The exceptions that led to it, and those of a group."""
    for each in failed.behind[:_BEHIND]:
        text = short(_spoken(each.type, each.message), _VALUE)
        place = "" if each.place is None else "  {}:{} {}".format(*each.place)
        yield f"  {_RELATIONS[each.relation]} {text}{place}"
    if len(failed.behind) > _BEHIND:
        yield f"  … {counted(len(failed.behind) - _BEHIND, 'more exception')} behind it"


def _failed_behind(test: RecordedTest, phase: str) -> Iterator[str]:
    """What failed after it: further subtests, and the teardown."""
    for where, type, message in test.failed_behind[:_BEHIND]:
        what = "another part of the test" if where == phase else f"the {where}"
        yield f"  {what} failed as well: {short(_spoken(type, message), _VALUE)}"
    if len(test.failed_behind) > _BEHIND:
        yield f"  … {counted(len(test.failed_behind) - _BEHIND, 'more failure')} behind it"


def _spoken(type: str, message: str) -> str:
    return f"{type}: {message}" if message else type


def _sides(failed: Failed) -> Iterator[str]:
    inside = first_other_part(failed)
    for name, text, expression in (
        ("left", failed.left, failed.expressions[0]),
        ("right", failed.right, failed.expressions[1]),
    ):
        if text and not (inside is not None and len(text) > _VALUE):
            of = f"{clipped(expression, 60)} = " if expression and expression != text else ""
            yield f"  {name}: {of}{short(text, _VALUE)}"
        elif expression and text:
            yield f"  {name}: {clipped(expression, 60)}, {_size(failed, name)}"
    if inside is not None:
        left, right = around(inside.left, inside.right, _VALUE // 2)
        yield f"  they differ first at {inside.path}: {left} | {right}"
    if failed.stopped_at:
        item = [f"{name}={short(text, 60)}" for name, text in failed.stopped_at.items()]
        yield f"  it stopped at {', '.join(item[:_LOCALS])}"


def _size(failed: Failed, side: str) -> str:
    """`list of 30`."""
    return next(iter(failed.insides[side].values()), "")
