"""JSON of events, as fast as what is installed allows.

`pydantic_core` comes with the server's libraries. A command that runs without them has the standard
library, at less than half of the speed; both give the same.
"""

from __future__ import annotations

import json
from typing import Any

from pytest_cideldill.protocol.framing import decode_text

try:
    import pydantic_core
except ImportError:
    pydantic_core = None  # type: ignore[assignment]

encode_ascii = json.JSONEncoder(separators=(",", ":"), default=str).encode


def decode_fast(text: bytes) -> Any:
    """The value of a frame, as `decode_text` gives it; hits arrive by the ten thousands.

    Raises:
        ValueError: It is no JSON.
    """
    if pydantic_core is not None and text.isascii():  # else it is no frame of ours
        try:
            return pydantic_core.from_json(text)
        except ValueError:  # it knows neither lone surrogates nor deep nesting
            pass
    return decode_text(text)


def encode_fast(value: object) -> bytes:
    """The text of a value, in one line; what JSON does not know becomes its `str`."""
    if pydantic_core is not None:
        try:
            return pydantic_core.to_json(value, inf_nan_mode="constants", fallback=str)
        except ValueError:  # a lone surrogate: a fourth of the speed
            pass
    return encode_ascii(value).encode("ascii")
