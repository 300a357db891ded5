"""The file of objects of a process that runs: written, read meanwhile, closed by its program."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from hashlib import sha512
from pathlib import Path

import pytest

from pytest_cideldill.objects import object_file
from pytest_cideldill.objects.object_file import CorruptObject, ObjectFile
from pytest_cideldill.objects.object_log import StoredObject, sealed
from pytest_cideldill.objects.store import CIDStore


def stored(value: object, *, is_copied: bool = True, size: int = 0) -> StoredObject:
    data = pickle.dumps(value, 4)
    description = '{"type":"x","repr":"' + "r" * size + '"}'
    return StoredObject(sha512(data).hexdigest(), description, data if is_copied else None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "main-1.part.objects"


@pytest.fixture
def file(path: Path) -> Iterator[ObjectFile]:
    made = ObjectFile(path, max_bytes=1_000_000, max_object_bytes=10_000)
    yield made
    made.close()


def _full() -> int:
    raise OSError(28, "No space left on device")


def seen(path: Path, each: StoredObject) -> tuple[bool, bytes | None]:
    """As another process reads it."""
    reader = CIDStore(path, is_reader=True)
    found = reader.description(each.cid) is not None, reader.get(each.cid)
    reader.close()
    return found


def test_objects_are_read_while_more_are_written(file: ObjectFile, path: Path) -> None:
    rows = [stored([number], size=7_000 * (number % 3)) for number in range(60)]
    for each in rows:
        file.put_many([each])
        assert file.intact(each.cid) == each.data
        assert seen(path, each) == (True, each.data)
    assert all(seen(path, each) == (True, each.data) for each in rows)
    assert seen(path, stored("other")) == (False, None)
    assert (file.counts.stored, path.stat().st_mode & 0o777) == (60, 0o600)


def test_equal_objects_are_written_once_and_a_missing_pickle_is_added(
    file: ObjectFile, path: Path
) -> None:
    late, whole = stored("late", is_copied=False), stored("late")
    file.put_many([late, late, stored(1), stored(1)])
    size = path.stat().st_size
    file.put_many([late, stored(1)])
    assert path.stat().st_size == size
    assert seen(path, late) == (True, None)
    file.put_many([whole._replace(data=sealed(b"copy"))])
    assert file.intact(late.cid) == b"copy"
    assert seen(path, late) == (True, b"copy")


def test_limits_are_obeyed_and_counted(path: Path) -> None:
    file = ObjectFile(path, max_bytes=2_000, max_object_bytes=100)
    file.put_many([stored("x" * 500), *(stored(number, size=200) for number in range(20))])
    assert file.counts.oversized == 1
    assert 0 < file.counts.dropped < 20
    assert file.counts.stored + file.counts.dropped == 21
    assert path.stat().st_size <= 2_000
    file.close()


def test_a_file_without_objects_goes(file: ObjectFile, path: Path) -> None:
    file.open()
    assert path.exists()
    file.close()
    assert not path.exists()
    file.put_many([stored(1)])
    assert (file.counts.lost, path.exists()) == (1, False)


def test_what_is_there_is_left_alone(path: Path) -> None:
    path.write_text("theirs", encoding="utf-8")
    file = ObjectFile(path)
    file.put_many([stored(1)])
    file.close()
    assert (file.counts.lost, "exists" in str(file.problem)) == (1, True)
    assert path.read_text(encoding="utf-8") == "theirs"


def test_a_file_that_the_program_closed_goes_on(file: ObjectFile, path: Path) -> None:
    file.put_many([stored(1)])
    assert file._file is not None
    os.close(file._file.number)
    away = path.with_suffix(".away")
    path.rename(away)
    file.put_many([stored(2)])  # must wait
    away.rename(path)
    assert file.intact(stored(1).cid) is not None
    file.put_many([stored(3)])
    assert all(seen(path, stored(number))[0] for number in (1, 2, 3))
    assert file.counts.lost == 0


def test_what_waits_has_an_end(
    file: ObjectFile, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_file, "MOST_WAITING", 500)
    file.put_many([stored(1)])
    assert file._file is not None
    os.close(file._file.number)
    path.unlink()
    for number in range(9):
        file.put_many([stored(number, size=100)])
    assert 0 < file.counts.lost < 9
    assert file.problem is not None


def test_a_full_disk_leaves_whole_rows(
    file: ObjectFile, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.put_many([stored(1)])
    write = os.write
    room = [50]

    def takes_some(number: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        taken = write(number, data[: room[0]])
        room[0] = 0
        return taken

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", takes_some)
        file.put_many([stored(2), stored(3)])
        assert [seen(path, stored(number))[0] for number in (1, 2, 3)] == [True, False, False]
        file.settle(0)
        assert (file.counts.lost, file.counts.stored) == (2, 1)
    monkeypatch.setattr(object_file, "AGAIN_S", 0.0)
    file._again_at = 0.0
    file.put_many([stored(4), stored(5)])
    assert [seen(path, stored(number))[0] for number in (1, 2, 4, 5)] == [True, False, True, True]


def test_what_a_disk_did_not_take_is_written_when_it_takes_it(
    file: ObjectFile, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda *_: _full())
        file.put_many([stored(1)])
        file.put_many([stored(2)])
    assert not seen(path, stored(1))[0]
    file.settle()
    assert all(seen(path, stored(number))[0] for number in (1, 2))
    assert (file.counts.lost, file.counts.stored) == (0, 2)


def test_a_folder_that_comes_later_is_found(tmp_path: Path) -> None:
    path = tmp_path / "later" / "main-1.part.objects"
    file = ObjectFile(path)
    file.put_many([stored(1)])
    path.parent.mkdir()
    file.put_many([stored(2)])
    assert all(seen(path, stored(number))[0] for number in (1, 2))
    file.close()
    assert file.counts.lost == 0


def test_a_row_that_is_cut_off_or_damaged_is_reported(file: ObjectFile, path: Path) -> None:
    file.put_many([stored("first"), stored("last", size=100)])
    data = path.read_bytes()
    path.write_bytes(data[:-30])
    assert seen(path, stored("first"))[0]
    assert not seen(path, stored("last"))[0]
    path.write_bytes(data.replace(b"first", b"other"))
    with pytest.raises(CorruptObject):
        file.intact(stored("first").cid)
    path.write_bytes(data[:30] + b"?" + data[31:])
    reader = CIDStore(path, is_reader=True)
    assert reader.get(stored("last").cid) is None or reader.description(stored("last").cid)
    reader.close()


def test_files_are_put_together(tmp_path: Path) -> None:
    whole = CIDStore(tmp_path / "all.sqlite")
    for name in ("a", "b"):
        file = ObjectFile(tmp_path / name)
        file.put_many([stored(name), stored("both")])
        file.close()
        merged = whole.merge(tmp_path / name)
        assert merged.is_complete
    assert len(whole) == 3
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes() + b"garbage" * 50)
    assert "no row" in str(whole.merge(tmp_path / "a").problem)
    whole.close()
