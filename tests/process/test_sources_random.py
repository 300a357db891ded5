"""Random code that raises, handles and yields: the end that is told is the one that came."""

from __future__ import annotations

import contextlib
import gc
import itertools
import random
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from tests.process.sources_checks import Consumer, code_of, opened, report, run_as_script

ERRORS = {each.__name__: each for each in (KeyError, TypeError, ValueError)}
PROGRAMS = 400
DEPTH = 4

Outcome = tuple[str, object]


class Writer:
    """Writes the body of a function. `luck()` in it decides at run time."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.generates = seed % 2 == 1

    def block(self, depth: int = 0, *, handles: bool = False) -> Iterator[str]:
        for _ in range(self._random.randint(1, 3)):
            for line in self._statement(depth, handles=handles):
                yield f"    {line}"

    def _error(self) -> str:
        return self._random.choice([*ERRORS])

    def _statement(self, depth: int, *, handles: bool) -> Iterator[str]:
        kinds = ["raise", "chance", "pass", "again" if handles else "yield", "yield", "return"]
        if depth < DEPTH:
            kinds += ["finally", "except", "except", "with", "for"]
        match self._random.choice(kinds):
            case "raise":
                yield f"raise {self._error()}"
            case "chance":
                yield f"if luck() < .5: raise {self._error()}"
            case "again":
                yield "if luck() < .5: raise"
            case "yield" if self.generates:
                yield "yield"
            case "return":
                yield "if luck() < .2: return 5"
            case "finally":
                yield "try:"
                yield from self.block(depth + 1, handles=handles)
                yield "finally:"
                yield from self.block(depth + 1, handles=handles)
            case "except":
                yield "try:"
                yield from self.block(depth + 1, handles=handles)
                for name in ("", " as error")[: self._random.randint(1, 2)]:
                    yield f"except {self._error()}{name}:"
                    yield from self.block(depth + 1, handles=True)
            case "with":
                yield f"with contextlib.suppress({self._error()}):"
                yield from self.block(depth + 1, handles=handles)
            case "for":
                yield "for _ in range(2):"
                yield from self.block(depth + 1, handles=handles)
            case _:
                yield "x = 1"

    def function(self) -> Callable[[Callable[[], float]], Any]:
        lines = ["def f(luck):", *self.block(), "    yield" if self.generates else "    return 6"]
        names: dict[str, Any] = {"contextlib": contextlib}
        exec(compile("\n".join(lines), "random.py", "exec"), names)
        return names["f"]  # type: ignore[no-any-return]


def end(function: Callable[[Callable[[], float]], Any], seed: int) -> Outcome | None:
    """How a call ends, with things thrown into it if it is a generator; None: it goes on."""
    chance = random.Random(seed)
    try:
        result = function(chance.random)
        if not hasattr(result, "throw"):
            return ("returned", result)
        next(result)
        for _ in range(5):
            if chance.random() < 0.5:
                next(result)
            else:
                result.throw(ERRORS[chance.choice([*ERRORS])])
    except StopIteration as stop:
        return ("returned", stop.value)
    except (KeyError, TypeError, ValueError) as error:
        return ("raised", type(error))
    return None


def check_every_end_is_shown_as_it_came() -> None:
    consumer = Consumer()
    reported: list[Outcome] = []

    def start(frame: FrameType, _locals: object) -> object:
        return len(frame.f_locals)

    def ended(token: object, frame: FrameType, result: object, error: object) -> None:
        reported.append(("returned", result) if error is None else ("raised", type(error)))

    ends = 0
    gc.disable()  # what stays suspended ends at once, and nothing later
    with opened(consumer) as source:
        for seed, again in itertools.product(range(PROGRAMS), range(2)):
            function = Writer(seed).function()
            expected = end(function, again)
            source.record_calls(code_of(function), start, ended)
            reported.clear()
            assert end(function, again) == expected, seed
            source.stop_recording(code_of(function))
            if expected is not None:
                ends += 1
                assert reported == [expected], seed
    gc.enable()
    assert ends > PROGRAMS
    assert consumer.failures == []


@pytest.mark.full
def test_random() -> None:
    report(__file__)


if __name__ == "__main__":
    run_as_script(globals())
