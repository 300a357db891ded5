"""What a test has printed and logged so far, without taking it away from pytest's report.

Reads pytest's capture where it is: a temporary file at a position of our own, or a buffer. Private
parts of pytest; what can't be found is empty.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

_MOST = 100_000
"""Bytes from the end that are looked at."""


def output_so_far(config: pytest.Config) -> tuple[str, str, str]:
    """stdout, stderr and log of the phase under way."""
    manager: Any = config.pluginmanager.getplugin("capturemanager")
    captures = [
        getattr(getattr(manager, "_global_capturing", None), "__dict__", {}),
        getattr(getattr(manager, "_capture_fixture", None), "__dict__", {}),
    ]
    fixture = captures[1].get("_capture")
    active = getattr(fixture, "__dict__", None) or captures[0]
    logging: Any = config.pluginmanager.getplugin("logging-plugin")
    stream = getattr(getattr(logging, "report_handler", None), "stream", None)
    log = "" if stream is None else stream.getvalue()
    return _peek(active.get("out")), _peek(active.get("err")), log


def _peek(capture: Any) -> str:
    file = getattr(capture, "tmpfile", None)
    if file is None:
        return ""
    if hasattr(file, "getvalue"):
        text = file.getvalue()
        return text if isinstance(text, str) else text.decode("utf-8", "replace")
    descriptor = file.fileno()
    size = os.fstat(descriptor).st_size
    # Not read and sought: the position belongs to pytest.
    data = os.pread(descriptor, _MOST, max(0, size - _MOST)) if hasattr(os, "pread") else b""
    return data.decode("utf-8", "replace")
