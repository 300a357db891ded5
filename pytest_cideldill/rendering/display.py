"""The `Lens`: renders values, texts and places within limits, without secrets, with project paths.

Everything that leaves the process as text passes through it. It may be used on any thread; it takes
no lock and runs no user code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Final

from pytest_cideldill.config.limits import DEFAULTS, Limits
from pytest_cideldill.project import Project
from pytest_cideldill.redaction.by_name import gives_secret
from pytest_cideldill.redaction.hidden_nodeids import NodeIds
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering.layout import LARGE, NUMBERS
from pytest_cideldill.rendering.one_line import Detail, render
from pytest_cideldill.rendering.source_text import Text, Texts, source_lines

SHORT = Detail(depth=2, items=10, attributes=10, string=200, text=300, milliseconds=5)
"""How much of a value is shown in a list of locals or arguments. Lower limits of the user lower it;
a higher limit of strings raises it, and so does a tenth of a higher limit of time."""

NOTICED = Detail(depth=3, items=10, attributes=10, string=200, text=600, milliseconds=5)
"""The part of a value that is searched for secrets, whatever the user's limits are."""

MESSAGE: Final = 500
"""Characters of an exception's text."""

MAX_SOURCE = 200
"""Characters of a source line."""


Kept = str | int | float | None | tuple[str]
"""A value that is rendered later. Numbers and strings can't change meanwhile, so they are kept as
they are; any other value is rendered at once, and its text is kept in a tuple."""

LONGEST_KEPT: Final = 2_000
"""Characters of a string that is kept as it is."""

_MARGIN: Final = 100_000
"""Characters before the wanted end of a text that are searched for the beginning of a secret."""

_MOST_LINES = 2_000
"""Lines of a function whose literals are looked at together."""

_MOST_BLOCKS = 30
"""Functions whose hidden source is kept."""

_MOST_SHOWN: Final = 4_096
"""Strings whose renderings are kept."""

_INTEGERS: Final = {int}
_STRINGS: Final = {str}


class Lens:
    """Renders what leaves the process.

    Args:
        project: Says which code is the user's, and gives paths relative to the rootdir.
    """

    def __init__(
        self,
        project: Project,
        redactor: Redactor,
        limits: Limits = DEFAULTS,
        texts: Texts | None = None,
    ) -> None:
        self.project = project
        self.texts = texts or Texts()
        self.limits = limits
        self.redactor = redactor
        self.nodeids = NodeIds(redactor)
        # (source of a function, `Redactor.learned` at that time) → its lines without secrets.
        self._blocks: dict[tuple[str, int], list[str]] = {}
        # `Redactor.learned`, and strings → how they were shown then.
        self._shown_strings: tuple[int, dict[str, str]] = (-1, {})
        self._short = Detail(
            depth=min(SHORT.depth, limits.max_depth),
            items=min(SHORT.items, limits.max_items),
            attributes=min(SHORT.attributes, limits.max_attributes),
            string=limits.max_string,
            text=max(SHORT.text, limits.max_string + 100),
            milliseconds=min(max(SHORT.milliseconds, limits.capture_ms / 10), limits.capture_ms),
        )
        self._in_message = Detail(
            depth=limits.max_depth,
            items=limits.max_items,
            attributes=self._short.attributes,
            string=max(MESSAGE, limits.max_string),
            text=2 * max(MESSAGE, limits.max_string),
            milliseconds=self._short.milliseconds,
        )

    def show(self, value: object, name: str = "") -> str:
        """A short rendering of a value that has a name."""
        # The most frequent types first, rendered as `render` does: this is a hot path.
        kind = type(value)
        shown = ""
        if kind is int:
            if -LARGE < value < LARGE:  # type: ignore[operator]
                shown = repr(value)
        elif kind is str:
            shown = self._plain(value)  # type: ignore[arg-type]
        elif value is None or kind is float or kind is bool:
            shown = repr(value)
        if shown and not (name and self.redactor.name_is_sensitive(name)):
            return shown
        return render(value, self._short, self.redactor, name)

    def in_message(self, value: object) -> str:
        """A value inside the text of an exception, rendered like `repr`, within wider limits."""
        return render(value, self._in_message, self.redactor)

    def _plain(self, text: str) -> str:
        """The rendering of a string that is shown whole; empty for longer ones and other texts."""
        if len(text) > self._short.string:
            return ""
        shown = repr(self.redactor.redact_text(text))
        return shown if shown.isascii() and len(shown) <= self._short.text else ""

    def keep(self, value: object, name: str = "") -> Kept:
        """Keep a value for `render_kept`, which makes the text of `show` from it.

        That may happen at any time and on any thread.
        """
        kind = type(value)
        if name and self.redactor.name_is_sensitive(name):
            return (self.show(value, name),)
        if kind is int:
            return value  # type: ignore[return-value]
        if len(value) < LONGEST_KEPT if kind is str else id(kind) in NUMBERS:  # type: ignore[arg-type]
            return value  # type: ignore[return-value]
        return (self.show(value, name),)

    def render_kept(self, kept: Kept) -> str:
        """The text of a value that was kept."""
        return kept[0] if type(kept) is tuple else self.show(kept)

    def render_all_kept(self, column: Sequence[Kept]) -> list[str]:
        """The texts of many values that were kept, as `render_kept` gives them."""
        kinds = set(map(type, column))  # all of them built in
        if kinds == _INTEGERS and min(column) > -LARGE and max(column) < LARGE:  # type: ignore[type-var,operator]
            return list(map(repr, column))
        if kinds == _STRINGS:
            return self._strings(column)  # type: ignore[arg-type]
        return list(map(self.render_kept, column))

    def _strings(self, texts: Sequence[str]) -> list[str]:
        """The same of strings; those that were shown lately are known."""
        learned, shown = self._shown_strings
        if learned != self.redactor.learned or len(shown) > _MOST_SHOWN:
            learned, shown = self.redactor.learned, {}
            self._shown_strings = learned, shown
        found = list(map(shown.get, texts))
        if None not in found:
            return found  # type: ignore[return-value]
        new = {text for text, one in zip(texts, found, strict=True) if one is None}
        # A quick look over all of them; each by itself only if there may be a secret.
        show = self._without_secrets if self.redactor.is_plain("\n".join(new)) else self.show
        fresh = {text: show(text) for text in new}
        shown |= {text: one for text, one in fresh.items() if len(text) <= self._short.string}
        return [one or fresh[text] for text, one in zip(texts, found, strict=True)]

    def _without_secrets(self, text: str) -> str:
        """`show` of a string that holds no secret."""
        if len(text) <= self._short.string:
            shown = repr(text)
            if shown.isascii() and len(shown) <= self._short.text:
                return shown
        return render(text, self._short, self.redactor)

    def notice(self, value: object, name: str) -> None:
        """Learn the secrets in a value, as later texts may hold them without their names."""
        kind = type(value)
        if value is None or kind is bool or not self.redactor.enabled:
            return
        if (kind is not int and kind is not float) or self.redactor.name_is_sensitive(name):
            render(value, NOTICED, self.redactor, name)

    def look_again(self) -> None:
        """Learn the secrets that the program has put into its environment by now."""
        self.redactor.look_again()

    def result_name(self, function: str) -> str:
        """The name for results of a function that returns a secret (`get_token`); else empty."""
        gives = self.redactor.name_is_sensitive(function) and gives_secret(function)
        return function if gives else ""

    def is_sensitive(self, name: str) -> bool:
        """Whether the value of this name is never shown."""
        return self.redactor.name_is_sensitive(name)

    def text(self, text: str, limit: int | None = None) -> str:
        """The start of a text that pytest or the program made (reports, output)."""
        return self.redactor.redact_text(text, limit)

    def end_of(self, text: str, limit: int) -> str:
        """The end of a text, with a note of how many characters were left out."""
        return _end_of(text, limit, self.redactor.redact_text)

    def end_of_report(self, text: str, limit: int) -> str:
        """The end of a report of pytest, in which there is source."""
        return _end_of(text, limit, self.redactor.redact_report)

    def source(self, frame: FrameType, line: int) -> dict[str, str]:
        """`{source, note}` of a line in a frame.

        `source`: the stripped text of the line, empty when it is unknown. `note`: only where the
        file has another text now.
        """
        text, note = self.texts.source(frame, line)
        shown = self._hidden_in_block(frame, line, text) or self.redactor.redact_source(text)
        fields = {"source": shown[:MAX_SOURCE]}
        return fields if note is None else fields | {"note": note}

    def _hidden_in_block(self, frame: FrameType, line: int, shown: str) -> str:
        """A line redacted as part of its function, where a literal's name may be on another line.

        Empty when the line is to be redacted alone.
        """
        if not ('"' in shown or "'" in shown):
            return ""
        text, code = self.texts.of(frame), frame.f_code
        last = max((end or 0 for _, end, _, _ in code.co_positions()), default=0) + text.shift
        first = max(code.co_firstlineno + text.shift, 1)
        at = line + text.shift - first
        lines = text.lines[first - 1 : last]
        if not 0 <= at < len(lines) <= _MOST_LINES or lines[at].strip() != shown:
            return ""
        block = "".join(lines)
        if self.redactor.is_plain(block):
            return shown
        key = block, self.redactor.learned
        if key not in self._blocks:
            if len(self._blocks) >= _MOST_BLOCKS:
                self._blocks.clear()
            self._blocks[key] = self.redactor.redact_source(block).split("\n")
        hidden = self._blocks[key]
        return hidden[at].strip() if at < len(hidden) else ""

    def line_of(self, file: str, line: int) -> str:
        """The stripped text of a line of a file as it was first read; empty when it is unknown."""
        text = Text(source_lines(file)).line(line)
        return self.redactor.redact_source(text)[:MAX_SOURCE]

    def place(self, frame: FrameType, line: int) -> dict[str, object]:
        """`{file, line}` of a place in a frame."""
        return self._shown(*self.texts.place(frame, line))

    def site(self, code: CodeType, line: int) -> dict[str, object]:
        """`{file, line}` of a line of code that has no frame."""
        return self._shown(*self.texts.site(code, line))

    def _shown(self, file: str, line: int, is_of_file: bool) -> dict[str, object]:
        shown = self.project.relative(file)
        return {"file": shown if is_of_file else f"<compiled from {shown}>", "line": line}


def _end_of(text: str, limit: int, redact: Callable[[str], str]) -> str:
    # Text far before the end is not shown, so it need not be searched.
    before = max(len(text) - limit - _MARGIN, 0)
    text = redact(text[before:])
    if len(text) <= limit and not before:
        return text
    return f"[{before + max(len(text) - limit, 0)} earlier characters]…{text[-limit:]}"
