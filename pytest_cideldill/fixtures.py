"""The fixture `cideldill`: logs to the timeline if the run is debugged or recorded."""

from __future__ import annotations

from typing import Any, Protocol

import pytest


class Log(Protocol):
    """The value of the fixture."""

    def log(self, message: str, /, **values: Any) -> None:
        """Add a message with values to the timeline of the run."""


class _Nowhere:
    def log(self, message: str, /, **values: Any) -> None:
        """Drop the message, as this run has no timeline."""


@pytest.fixture(scope="session")
def cideldill(pytestconfig: pytest.Config) -> Log:
    """Logs to the timeline of a run that is debugged or recorded, else nowhere.

    Example: cideldill.log("after checkout", total=total)
    """
    timeline: Log | None = pytestconfig.pluginmanager.get_plugin("cideldill-timeline")
    return timeline or _Nowhere()
