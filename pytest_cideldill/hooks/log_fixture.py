"""What tests log themselves, by the fixture `cideldill`: a line of the run's timeline.

Values are shown by the rules of all values: cut, without secrets, and no code of theirs runs.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable
from typing import Any

from pytest_cideldill.evaluation.messages import MAX_TEXT
from pytest_cideldill.hooks.guest import Warns, guest
from pytest_cideldill.interpreter import clock
from pytest_cideldill.protocol.current_test_file import Position
from pytest_cideldill.protocol.rows import Row
from pytest_cideldill.rendering.display import Lens


class Timeline:
    """The fixture `cideldill`: adds what tests log to the timeline of the run."""

    def __init__(
        self, lens: Lens, position: Position, add: Callable[[Row], None], host: Warns
    ) -> None:
        self.host = host
        self._lens = lens
        self._position = position
        self._add = add

    def log(self, message: str, /, **values: Any) -> None:
        """Log a message with values; from any thread."""
        self._log(message, values)

    @guest
    def _log(self, message: str, values: dict[str, Any]) -> None:
        self._lens.look_again()
        kept = {name: self._lens.keep(value, name) for name, value in values.items()}
        where = (clock.monotonic(), self._position.nodeid, get_ident())
        text = message if type(message) is str else self._lens.show(message)
        self._add((self._event_of, *where, 0, (text, kept)))

    def _event_of(self, row: Row) -> dict[str, Any]:
        _, moment, nodeid, thread, _, (text, kept) = row
        return {
            "type": "log",
            "ts": clock.wall_at(moment),
            "nodeid": nodeid,
            "thread": thread,
            "message": self._lens.text(text, MAX_TEXT),
            "values": {name: self._lens.render_kept(each) for name, each in kept.items()},
        }
