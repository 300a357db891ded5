"""Exceptions on their way: where they were raised, what they left, where they were caught.

Plain data of `caught`, which follows them. Exceptions and frames stand here by their ids alone.
"""

from __future__ import annotations

from dataclasses import field

from pytest_cideldill.calltraces.left_behind import Left
from pytest_cideldill.calltraces.user_code import CodeFacts
from pytest_cideldill.interpreter.values import dataclass
from pytest_cideldill.rendering import layout


class Source:
    """Exceptions of one class from one place."""

    __slots__ = ("facts", "kind", "library", "line", "looks", "text", "texts")

    def __init__(self, kind: type, facts: CodeFacts, line: int, library: str) -> None:
        self.kind = kind  # kept, so that its id stays taken
        self.facts, self.line, self.library = facts, line, library
        self.text = layout.class_name(kind)
        self.texts = 0
        self.looks: dict[int, int] = {}


@dataclass(slots=True, eq=False)
class Place:
    """Where an exception is caught, or may be."""

    frame: int
    key: tuple[int, int]
    facts: CodeFacts | None = None
    line: int = 0
    call: int = 0
    library: str = ""
    how: str = ""
    is_silent: bool = False
    is_left_out: bool = False


@dataclass(slots=True, eq=False)
class Flight:
    """An exception that is on its way, or was caught.

    Attributes:
        error: Its id.
        source: Its class, and where it was raised.
        text: `Type: message`.
        handlers: The frames that handle it now, as far as is known; the last one is the innermost.
        behind: Where it went when it left user code.
        places: Id of a frame of user code that it is in → offset and line at which it came up.
        unwound: Frames of user code that it left: code and line.
        more: How many further ones.
        moment: When something of it was seen last, among all exceptions.
        left: What they left behind.
        anchor: Id of the frame at whose next event that is looked at again.
        of: The exception from which it was made in a handler.
    """

    error: int
    source: Source
    text: str
    handlers: list[Place] = field(default_factory=list)
    behind: Place | None = None
    places: dict[int, tuple[int, int]] = field(default_factory=dict)
    unwound: list[tuple[CodeFacts, int]] = field(default_factory=list)
    more: int = 0
    moment: int = 0
    left: list[tuple[CodeFacts, Left]] = field(default_factory=list)
    anchor: int = 0
    of: str = ""

    def is_in(self, frame: int) -> bool:
        """Whether a frame handles it."""
        return any(place.frame == frame for place in self.handlers)

    def is_at(self, frame: int, key: tuple[int, int]) -> bool:
        """Whether a frame is known to handle it with the handler of a key."""
        place = self.handlers[-1] if self.handlers else None
        return place is not None and place.frame == frame and place.key == key

    def leaves(self, frame: int) -> None:
        """It is not handled in a frame any more, nor in frames that this one has called."""
        for at, place in enumerate(self.handlers):
            if place.frame == frame:
                del self.handlers[at:]
                return

    @property
    def catcher(self) -> Place | None:
        """Where it was caught: by user code, as far as that handled it."""
        for place in reversed(self.handlers):
            if not place.library:
                return place
        return self.handlers[-1] if self.handlers else self.behind


class Group:
    """Exceptions of one class, raised at one place, caught at one place."""

    __slots__ = ("calls", "count", "first", "last", "place")

    def __init__(self, first: Flight, place: Place) -> None:
        self.first, self.place = first, place
        self.count = self.last = 0
        self.calls = (place.call, place.call)
