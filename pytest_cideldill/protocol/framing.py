"""Bytes to messages and back: the token, then frames of a four-byte length and JSON text.

Knows nothing of what the messages mean (`commands.py`, `events.py`) or of sockets (`link/`, the
front end's listener).
The decoder is bound here at import: a test that patches `json` must not reach our frames.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from json import JSONDecoder
from struct import Struct
from typing import Any

from pytest_cideldill.protocol.encoding import encoded

TOKEN_BYTES = 32
"""Raw bytes that open every connection; nothing is parsed before they are right."""

MAX_FRAME = 64 * 1024 * 1024
"""Bytes of one frame's JSON text. A larger one closes the connection: our bug, or an attack."""

_LENGTH = Struct(">I")
_decode = JSONDecoder().decode


class FrameError(Exception):
    """The peer sent bytes that are no frame of ours; the connection can't be trusted any more."""


def new_token() -> bytes:
    """A fresh secret of `TOKEN_BYTES` bytes for one server."""
    return secrets.token_bytes(TOKEN_BYTES)


def token_matches(received: bytes, expected: bytes) -> bool:
    """Compare two tokens in constant time."""
    return hmac.compare_digest(received, expected)


def encode_frame(message: dict[str, Any]) -> bytes:
    """The frame of one message.

    Raises:
        FrameError: The text has more than `MAX_FRAME` bytes.
        TypeError, ValueError, RecursionError: It is no plain data.
    """
    return frame_of(encoded(message).encode("ascii"))


def frame_of(text: bytes) -> bytes:
    """The frame of a message that is encoded already. Raises FrameError: as `encode_frame`."""
    if len(text) > MAX_FRAME:
        raise FrameError(f"a message of {len(text)} bytes exceeds the cap of {MAX_FRAME}")
    return _LENGTH.pack(len(text)) + text


def decode_text(text: bytes) -> Any:
    """What the text of a frame says.

    Raises:
        ValueError, RecursionError: It is no JSON, or nested too deeply.
    """
    return _decode(text.decode("ascii"))


class FrameDecoder:
    """Collects received bytes and hands out the complete messages among them.

    Args:
        max_frame: Bytes that the text of one may have.
        decode: From the text of a message to its value; raises ValueError.

    Attributes:
        received: How many bytes it was given.
    """

    def __init__(
        self, max_frame: int = MAX_FRAME, decode: Callable[[bytes], Any] = decode_text
    ) -> None:
        self.received = 0
        self._buffer = bytearray()
        self._max_frame = max_frame
        self._decode = decode

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Add `data`, return the messages that are complete now, oldest first.

        Raises:
            FrameError: A length above the cap, or text that is not a JSON object.
        """
        self.received += len(data)
        self._buffer += data
        messages = []
        while (text := self._next_text()) is not None:
            messages.append(self._parse(text))
        return messages

    def _parse(self, text: bytes) -> dict[str, Any]:
        try:
            message = self._decode(text)
        except (ValueError, RecursionError) as error:
            raise FrameError(f"a frame that is not JSON: {error}") from error
        if not isinstance(message, dict):
            raise FrameError(f"a frame that is not a JSON object but {type(message).__name__}")
        return message

    def _next_text(self) -> bytes | None:
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > self._max_frame:
            raise FrameError(f"a frame of {length} bytes exceeds the cap of {self._max_frame}")
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        text = bytes(self._buffer[_LENGTH.size : end])
        del self._buffer[:end]
        return text
