"""Node ids that clients give: relative to the rootdir, and what is under a name. Pure."""

from __future__ import annotations

import os


def relative(nodeid: str, rootdir: str | None) -> str:
    """A node id with its path relative to the rootdir, as pytest writes it.

    A path may also be relative to the directory in which the server was started, as on pytest's
    command line.
    """
    path, separator, rest = nodeid.partition("::")
    if rootdir is not None and path:
        here = os.path.abspath(path)
        is_missing = os.path.isdir(rootdir) and not os.path.exists(os.path.join(rootdir, path))
        if os.path.isabs(path) or (is_missing and os.path.exists(here)):
            path = os.path.relpath(here, rootdir)
    clean = path.replace(os.sep, "/").removeprefix("./").rstrip("/")
    return clean + separator + rest


def is_under(nodeid: str, name: str) -> bool:
    """Whether a test has this name, or is in the class, file or folder with it."""
    ends = ("::", "[", "/")
    return name in (nodeid, ".") or any(nodeid.startswith(name + end) for end in ends)
