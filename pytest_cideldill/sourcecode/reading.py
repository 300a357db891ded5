"""Reads source files: regular ones that are not too large, in encodings that are quick to decode.

Files are not trusted: a file that can't be read raises an error that says why, reading never waits
(for the other end of a pipe, say), and memory is bounded by `MAX_BYTES`. Both processes use it.
"""

from __future__ import annotations

import codecs
import os
from io import BytesIO, TextIOWrapper
from tokenize import detect_encoding
from typing import Final

from pytest_cideldill.interpreter.untrusted_files import open_regular

MAX_BYTES: Final = 4_000_000
"""Of a file that is read as a whole; compiling a larger one takes a minute, and gigabytes."""

_SLOW: Final = frozenset({"idna", "punycode"})
"""Codecs whose time grows with the square of the size; they are made for host names."""


class Unreadable(ValueError):
    """A file that is no Python source; the text says why."""


def source_bytes(file: str) -> bytes:
    """The bytes of a source file.

    Raises:
        OSError: It can't be read.
        Unreadable: It is larger than `MAX_BYTES`.
    """
    with open_regular(file) as stream:
        size = os.fstat(stream.fileno()).st_size
        data = stream.read(MAX_BYTES + 1) if size <= MAX_BYTES else b""
        size = max(size, len(data))
    if size > MAX_BYTES:
        raise Unreadable(
            f"it has {size:,} bytes, and files of more than {MAX_BYTES:,} are not read; "
            "move the code in question into a smaller file"
        )
    return data


def encoding_of(data: bytes) -> str:
    """The encoding that a source declares (PEP 263), by its cookie or byte order mark.

    Raises:
        Unreadable: There is no such encoding, or decoding it takes too long.
    """
    try:
        encoding, _ = detect_encoding(BytesIO(data).readline)
    except SyntaxError as error:
        raise Unreadable(error.msg) from error
    if codecs.lookup(encoding).name in _SLOW:
        raise Unreadable(f"it declares the encoding {encoding}, which takes too long to decode")
    return encoding


def text_in(data: bytes) -> str:
    """The text of a source in the encoding that it declares; line feeds end its lines.

    Raises:
        Unreadable: The bytes are not in that encoding, or it is no encoding of texts.
    """
    encoding = encoding_of(data)
    try:
        return TextIOWrapper(BytesIO(data), encoding).read()
    except LookupError as error:
        raise Unreadable(f"it declares the encoding {encoding}, which is none of texts") from error
    except UnicodeError as error:
        raise Unreadable(str(error)) from error
