"""Folders for temporary files."""

from __future__ import annotations

import tempfile


class NoScratch(Exception):
    """There is no room for temporary files; the message is a sentence."""


def make_folder(prefix: str) -> str:
    """A new private folder (0700), which the caller removes.

    Raises:
        NoScratch: None can be made.
    """
    try:
        return tempfile.mkdtemp(prefix=prefix)
    except OSError as error:
        raise NoScratch(
            f"no folder for temporary files can be made: {error.strerror or error}; set TMPDIR to "
            "one that can be written"
        ) from error
