"""Debian's chromium without a window, driven over its pipe: what a page does in a real browser."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.together.driver import DEADLINE_S

COMMAND = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")

_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # root has none in a container
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--remote-debugging-pipe",
    "--window-size=1280,1000",
)


class Page:
    """A page of a browser.

    Attributes:
        folder: For whoever opened it.
        said: What went wrong in the eyes of the browser: errors, warnings, refused requests.
        urls: Of all that it asked for.
    """

    def __init__(self, reader: int, writer: int) -> None:
        self.folder = Path()
        self.said: list[str] = []
        self.urls: list[str] = []
        self._reader, self._writer = reader, writer
        self._unread = b""
        self._next = 0
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self._ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")

    def open(self, path: Path) -> None:
        """Load a file, to the end."""
        self._events.clear()
        self._ask("Page.navigate", url=path.as_uri())
        while not any(each["method"] == "Page.loadEventFired" for each in self._events):
            self._take(self._receive())

    def run(self, expression: str) -> Any:
        """The value of an expression of JavaScript, awaited."""
        done = self._ask(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def press(self, key: str) -> None:
        """A key, for whatever has the focus."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if len(key) == 1 and kind == "keyDown" else {}
            self._ask("Input.dispatchKeyEvent", type=kind, key=key, **text)

    def color_scheme(self, name: str) -> None:
        """What the user prefers: `light` or `dark`."""
        wanted = [{"name": "prefers-color-scheme", "value": name}]
        self._ask("Emulation.setEmulatedMedia", features=wanted)

    def screenshot(self, path: Path) -> None:
        """All of the page as a picture."""
        shot = self._ask("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._next += 1
        asked = {"id": self._next, "method": method, "params": params}
        session = {} if self._session is None else {"sessionId": self._session}
        os.write(self._writer, json.dumps(asked | session).encode() + b"\0")
        while (got := self._receive()).get("id") != self._next:
            self._take(got)
        assert "error" not in got, got
        result: dict[str, Any] = got["result"]
        return result

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + DEADLINE_S
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._reader], [], [], deadline - time.monotonic())
            assert ready, "the browser does not answer"
            more = os.read(self._reader, 1 << 20)
            assert more, "the browser has gone"
            self._unread += more
        text, _, self._unread = self._unread.partition(b"\0")
        got: dict[str, Any] = json.loads(text)
        return got

    def _take(self, event: dict[str, Any]) -> None:
        self._events.append(event)
        params = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.urls.append(params["request"]["url"])
            case "Runtime.exceptionThrown":
                self.said.append(json.dumps(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" | "Log.entryAdded":
                self.said.append(json.dumps(params))


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """A browser with a profile of its own in this folder."""
    assert COMMAND is not None
    from_us, to_us = os.pipe(), os.pipe()
    flags = [*_FLAGS, f"--user-data-dir={folder}"]
    # The shell puts the two ends where chromium looks for them: it reads 3 and writes 4.
    shell = f'exec "$@" 3<&{from_us[0]} 4>&{to_us[1]}'
    process = subprocess.Popen(
        ["bash", "-c", shell, "browser", COMMAND, *flags],
        pass_fds=(from_us[0], to_us[1]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"HOME": str(folder)},
    )
    os.close(from_us[0])
    os.close(to_us[1])
    try:
        yield Page(to_us[0], from_us[1])
    finally:
        os.close(from_us[1])  # it ends with its pipe
        os.close(to_us[0])
        try:
            process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
