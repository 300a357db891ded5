"""Proposals for a node id that no test has: the nearest functions, or files, that exist.

Compares names and lists folders; on the event loop.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

MOST = 3
"""How many are proposed for one name."""


def nearest(
    missing: Iterable[str], beside: Sequence[str], rootdir: str | None
) -> dict[str, list[str]]:
    """Proposals for each name that has any, the best first.

    Args:
        missing: Names as they were asked for.
        beside: Ids of the functions in those of their files that exist.
        rootdir: What paths are relative to; None: not known.
    """
    found = {name: _like(name, beside) or _files_like(name, rootdir) for name in missing}
    return {name: proposed for name, proposed in found.items() if proposed}


def _like(name: str, beside: Sequence[str]) -> list[str]:
    path, separator, rest = name.partition("::")
    bare = rest.partition("[")[0]
    if path + separator + bare in beside:
        return [path + separator + bare]
    inside = {each.partition("::")[2]: each for each in beside if each.startswith(f"{path}::")}
    close = get_close_matches(bare, inside, MOST)
    moved = [each for each in inside if each.rpartition("::")[2] == bare.rpartition("::")[2]]
    return [inside[each] for each in dict.fromkeys([*moved, *close])][:MOST]


def _files_like(name: str, rootdir: str | None) -> list[str]:
    path = name.partition("::")[0]
    if rootdir is None or not path or os.path.exists(os.path.join(rootdir, path)):
        return []
    parts = path.split("/")
    for start in range(1, len(parts)):  # as it is called from a folder above the rootdir
        shorter = "/".join(parts[start:])
        if os.path.isfile(os.path.join(rootdir, shorter)):
            return [shorter + name[len(path) :]]
    folder = os.path.dirname(path)
    try:
        names = os.listdir(os.path.join(rootdir, folder))
    except OSError:
        return []
    tests = [each for each in names if each.endswith(".py")]
    return [f"{folder}/{each}".lstrip("/") for each in get_close_matches(parts[-1], tests, MOST)]
