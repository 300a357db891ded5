"""Folders for temporary files."""

from __future__ import annotations

import os
import stat
import tempfile


class NoScratch(Exception):
    """There is no room for temporary files; the message is a sentence."""


def make_folder(prefix: str) -> str:
    """A new private folder (0700), which the caller removes.

    Raises:
        NoScratch: None can be made, or others could replace it.
    """
    try:
        made = tempfile.mkdtemp(prefix=prefix)
        around = os.stat(os.path.dirname(made))
        if around.st_mode & stat.S_IWOTH and not around.st_mode & stat.S_ISVTX:
            os.rmdir(made)
            raise NoScratch(
                f"{os.path.dirname(made)} may be written by everybody, who could take away what is "
                "in it: make it sticky (chmod +t), or set TMPDIR to another folder"
            )
        return made
    except OSError as error:
        raise NoScratch(
            f"no folder for temporary files can be made: {error.strerror or error}; set TMPDIR to "
            "one that can be written"
        ) from error
