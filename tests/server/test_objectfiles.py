"""The files of objects: found while they are put together, one per run afterwards, nothing lost."""

from __future__ import annotations

import hashlib
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cideldill_mcp.objects.object_files import ObjectFiles
from pytest_cideldill.objects.store import CIDStore
from tests.server.processes import DEADLINE_S


@pytest.fixture
def files(tmp_path: Path) -> Iterator[ObjectFiles]:
    made = ObjectFiles(tmp_path)
    yield made
    made.close()


def kept(folder: Path, name: str, *values: str) -> list[str]:
    """Objects of the process `name`; their cids."""
    store, cids = CIDStore(folder / f"{name}.objects"), []
    for value in values:
        data = pickle.dumps(value, 4)
        cids.append(hashlib.sha512(data).hexdigest())
        store.put(cids[-1], {"type": "str", "repr": value, "attributes": {}}, data)
    store.close()
    return cids


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def put_together(files: ObjectFiles, run_id: str = "r1") -> None:
    """And wait for it."""
    files.run_is_over(run_id)
    (thread,) = files._threads
    thread.join(DEADLINE_S)


def found(files: ObjectFiles, cid: str) -> tuple[str, str] | None:
    reported = files.find(cid)
    return None if reported is None else (reported[0], reported[1]["repr"])


def test_the_files_of_a_run_become_one(files: ObjectFiles, tmp_path: Path) -> None:
    """Those of other runs stay as they are; so does a file that is alone already."""
    (a, b), (_, c) = kept(tmp_path, "r1.gw0.7", "a", "b"), kept(tmp_path, "r1.gw1.8", "b", "c")
    (d,) = kept(tmp_path, "r10.gw0.9", "d")
    assert found(files, a) == ("r1.gw0", "a")
    put_together(files)
    assert names(tmp_path) == ["r1.objects", "r10.gw0.9.objects"]
    assert [found(files, cid) for cid in (a, b, c)] == [("r1", "a"), ("r1", "b"), ("r1", "c")]
    assert found(files, d) == ("r10.gw0", "d")
    assert found(files, "00" * 64) is None
    put_together(files, "r10")
    assert found(files, d) == ("r10.gw0", "d")


def test_what_was_being_put_together_when_the_server_was_killed_is_done_anew(
    files: ObjectFiles, tmp_path: Path
) -> None:
    """A file that is not whole has no name of its own yet, and goes."""
    (a,), (b,) = kept(tmp_path, "r1.gw0.7", "a"), kept(tmp_path, "r1.gw1.8", "b")
    (tmp_path / "r1.objects.0123.tmp").write_bytes(b"half")
    assert found(files, a) == ("r1.gw0", "a")
    put_together(files)
    assert names(tmp_path) == ["r1.objects"]
    assert [found(files, cid) for cid in (a, b)] == [("r1", "a"), ("r1", "b")]


def test_a_damaged_file_stays_and_the_one_with_an_intact_object_answers(
    files: ObjectFiles, tmp_path: Path
) -> None:
    """The reply for an object that can't be read anywhere is a placeholder."""
    a, b = kept(tmp_path, "r1.gw0.7", "a", "b")
    kept(tmp_path, "r1.gw1.8", "b")
    (tmp_path / "r1.gw2.9.objects").write_bytes(b"no database" * 100)
    store = CIDStore(tmp_path / "r1.gw0.7.objects")
    assert store._opened() is not None
    assert store._connection is not None
    store._connection.execute("UPDATE objects SET data = x'00'")
    store.close()
    for _ in range(2):
        assert found(files, a) == ("r1.gw0", "<deserialization failed: CorruptObject>")
        reported = found(files, b)
        assert reported is not None
        assert reported[1] == "b"
        put_together(files)
    assert names(tmp_path) == ["r1.gw0.7.objects", "r1.gw2.9.objects", "r1.objects"]


def test_objects_are_found_at_every_moment(files: ObjectFiles, tmp_path: Path) -> None:
    """While their files are put together, by several threads."""
    cids = [
        cid
        for number in range(4)
        for cid in kept(tmp_path, f"r1.gw{number}.7", *(f"{number} {n}" for n in range(40)))
    ]
    missing: list[str] = []
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set():
            missing.extend(cid for cid in cids[::7] if files.find(cid) is None)

    readers = [threading.Thread(target=look) for _ in range(2)]
    for each in readers:
        each.start()
    put_together(files)
    is_over.set()
    for each in readers:
        each.join(DEADLINE_S)
    assert missing == []
    assert names(tmp_path) == ["r1.objects"]


def test_closing_stops_it_and_loses_nothing(tmp_path: Path) -> None:
    files = ObjectFiles(tmp_path)
    (a,), (b,) = kept(tmp_path, "r1.gw0.7", "a"), kept(tmp_path, "r1.gw1.8", "b")
    files.close()
    put_together(files)
    files._put_together(tmp_path / "r1.objects", sorted(tmp_path.glob("r1.*.objects")))
    assert {"r1.gw0.7.objects", "r1.gw1.8.objects"} <= set(names(tmp_path))
    assert (found(files, a), found(files, b)) == (("r1.gw0", "a"), ("r1.gw1", "b"))
