"""One test that goes through many small cases.

`for_each` stands where `pytest.mark.parametrize` would make a test of each: a test costs some
milliseconds, which is most of the time of a small case. Fixtures are made once for all cases.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

Test = Callable[..., None]


def for_each(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """The test is called with each case; an error has a note that says with which.

    Args:
        names: Parameters of the test that a case is given as.
        cases: Values of the one parameter, or tuples of values.
    """
    listed = [
        {names: case} if isinstance(names, str) else dict(zip(names, case, strict=True))
        for case in cases
    ]
    assert listed, "no case"

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def with_each(**others: Any) -> None:
            for case in listed:
                try:
                    test(**others, **case)
                except BaseException as error:
                    error.add_note(f"the case: {case!r:.1000}")
                    raise

        signature = inspect.signature(test)
        left = [each for name, each in signature.parameters.items() if name not in listed[0]]
        with_each.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return with_each

    return decorate
