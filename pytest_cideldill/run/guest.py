"""A guest's manners: a hook of ours that fails is told once and never fails the host's run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from typing import Protocol


class Warns(Protocol):
    """Whoever can tell a failure."""

    def warn(self, message: str) -> None:
        """Tell `message` once."""


def guest(hook: Callable[..., None]) -> Callable[..., None]:
    """Wrap a hook method of an object with a `host`; exceptions become one warning."""

    @functools.wraps(hook)
    def polite(self: Any, *args: Any) -> None:  # as pluggy calls it: no keywords, they cost
        try:
            hook(self, *args)
        except Exception as error:  # noqa: BLE001 - the border between us and the host's run
            self.host.warn(f"pytest-cideldill: {hook.__name__} failed: {error!r}")

    return polite
