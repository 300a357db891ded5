"""Nobody sits at the terminal of a run of a front end: options that wait for somebody are left out.

Projects have them in `addopts`, people in PYTEST_ADDOPTS. On the main thread, before pytest or a
plugin looks at them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_cideldill.config.options import NOT_IN_RUNS
from pytest_cideldill.hooks.guest import guest
from pytest_cideldill.hooks.host import Host


class Unattended:
    """Switches off the options of pytest that wait for somebody at the terminal.

    Args:
        host: Warns of what is left out; None: this process has none, which stderr says.
    """

    def __init__(self, host: Host | None = None) -> None:
        self.host = host

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    @guest
    def pytest_cmdline_main(self, config: pytest.Config) -> Iterator[None]:
        """All arguments are parsed; a plugin may begin to loop in this very hook."""
        for name, (option, why) in NOT_IN_RUNS.items():
            if getattr(config.option, name, False):
                setattr(config.option, name, False)
                if self.host is not None:
                    self.host.warn(f"{option} of addopts or PYTEST_ADDOPTS is left out: {why}")
        yield
