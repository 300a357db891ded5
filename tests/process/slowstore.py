"""A store whose pages lead to each other so that it takes years to read; it has a few kilobytes."""

from __future__ import annotations

from pathlib import Path

from pytest_cideldill.objects.database import connect

_PAGE = 512
_WIDE = 60
"""Children of a page; all are the same page."""

_DEEP = 12


def slow_store(path: Path) -> None:
    """One with our table, whose schema tells the same index again and again."""
    made = connect(path, is_reader=False)
    assert made is not None
    made.execute("PRAGMA page_size = 512")
    made.execute("VACUUM")
    made.close()
    pages = bytearray(path.read_bytes())
    count = len(pages) // _PAGE
    first = count + 1
    # The schema as it was, on a page of its own; below it the index only, again and again.
    leaf = bytearray(_PAGE)
    leaf[:8], cells = pages[100:108], int.from_bytes(pages[103:105], "big")
    leaf[8 : 8 + 2 * cells] = pages[108 : 108 + 2 * cells]
    start = int.from_bytes(pages[105:107], "big")
    leaf[start:] = pages[start:_PAGE]
    again = bytearray(leaf)
    again[3:5] = (1).to_bytes(2, "big")
    again[8:10] = leaf[10:12]
    added = [bytes(leaf), bytes(again)]
    added += [_inner([first + number + 1] * _WIDE) for number in range(_DEEP)]
    pages[100:_PAGE] = _inner([first, first + 1 + _DEEP], start=100)[100:]
    pages[28:32] = (count + len(added)).to_bytes(4, "big")
    path.write_bytes(bytes(pages) + b"".join(added))


def _inner(children: list[int], start: int = 0) -> bytes:
    """A page of a table that only names others."""
    page = bytearray(_PAGE)
    cells, at = children[:-1], _PAGE
    head = start + 12
    for number, child in enumerate(cells):
        at -= 5
        page[at : at + 5] = child.to_bytes(4, "big") + b"\x7f"
        page[head + 2 * number : head + 2 * number + 2] = at.to_bytes(2, "big")
    page[start : start + 12] = (
        b"\x05\x00\x00"
        + len(cells).to_bytes(2, "big")
        + at.to_bytes(2, "big")
        + b"\x00"
        + children[-1].to_bytes(4, "big")
    )
    return bytes(page)
