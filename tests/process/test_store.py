"""The store of objects: what is kept, read while it is written, put together, and survived."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import random
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from pytest_cideldill.config.limits import Limits
from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.objects import database
from pytest_cideldill.objects import store as store_module
from pytest_cideldill.objects.content_ids import Held, Objects
from pytest_cideldill.objects.object_log import BATCH_BYTES, Budget, ObjectLog, StoredObject
from pytest_cideldill.objects.pickle_reader import plain_value, strings
from pytest_cideldill.objects.store import CIDStore
from pytest_cideldill.redaction.redactor import Redactor
from tests.each_case import for_each

ROOT = Path(__file__).resolve().parents[2]

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def cid_of(data: bytes) -> str:
    return hashlib.sha512(data).hexdigest()


def reported(value: object) -> dict[str, Any]:
    return {"type": type(value).__name__, "repr": repr(value), "attributes": {}}


def filled(store: CIDStore, *values: object) -> list[str]:
    names = []
    for value in values:
        data = pickle.dumps(value, 4)
        names.append(cid_of(data))
        store.put(names[-1], reported(value), data)
    return names


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "odd #name?.db"


def damaged(path: Path, change: str, *values: object) -> None:
    connection = sqlite3.connect(path)
    connection.execute(change, values)
    connection.commit()
    connection.close()


# --- what is kept -------------------------------------------------------------------------------


def test_an_object_is_found_by_its_cid(path: Path) -> None:
    store = CIDStore(path)
    (name,) = filled(store, [1, 2])
    assert store.get(name) == pickle.dumps([1, 2], 4)
    assert store.description(name) == reported([1, 2])
    assert (store.state, len(store)) == ("open", 1)
    store.close()
    assert (store.state, store.description(name)) == ("closed", None)


@pytest.mark.parametrize("cid", ["", "xyz", "00", "0" * 128, "0" * 127, "é" * 128])
def test_what_is_not_there_is_not_found(path: Path, cid: str) -> None:
    store = CIDStore(path)
    filled(store, 1)
    assert store.get(cid) is None
    assert store.description(cid) is None
    store.close()


def test_equal_objects_are_stored_once_and_a_missing_pickle_is_added(path: Path) -> None:
    store = CIDStore(path)
    data = pickle.dumps(5, 4)
    store.put(cid_of(data), reported(5))
    assert store.get(cid_of(data)) is None
    filled(store, 5)
    assert store.get(cid_of(data)) == data
    filled(store, 5)
    store.put(cid_of(data), reported(6))
    assert (len(store), store.description(cid_of(data))) == (1, reported(5))
    store.close()


def test_a_file_is_made_when_it_is_needed_and_for_its_owner_only(path: Path) -> None:
    CIDStore(path).close()
    assert not path.exists()
    store = CIDStore(path)
    filled(store, 1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    store.close()


def test_what_was_stored_before_counts_and_stays(path: Path) -> None:
    first = CIDStore(path)
    (name,) = filled(first, "x" * 600)
    first.close()
    second = CIDStore(path, max_bytes=2_000)
    filled(second, "y" * 600)
    assert second.description(name) is not None
    assert second.counts.dropped == 1
    second.close()


def test_beyond_its_size_objects_are_counted_and_not_stored(path: Path) -> None:
    store = CIDStore(path, max_bytes=10_000)
    names = filled(store, *("x" * 400 + str(number) for number in range(50)))
    assert store.counts.stored == len(store) < 15
    assert store.counts.dropped == 50 - len(store)
    assert store.description(names[0]) is not None
    assert store.description(names[-1]) is None
    store.close()


def test_a_pickle_that_is_too_large_is_left_out(path: Path) -> None:
    store = CIDStore(path, max_object_bytes=1_000)
    (name,) = filled(store, "x" * 2_000)
    assert store.get(name) is None
    assert store.description(name) is not None
    assert store.counts.oversized == 1
    store.close()


# --- what is damaged ----------------------------------------------------------------------------


def unreadable(error: str) -> dict[str, Any]:
    return {
        "type": "unknown",
        "repr": f"<deserialization failed: {error}>",
        "attributes": {},
        "error": "deserialization_failed",
    }


@pytest.mark.parametrize(
    ("change", "value", "error"),
    [
        ("description = ?", b"{'type':", "JSONDecodeError"),
        ("description = ?", b"\xff\xfe\xff", "UnicodeDecodeError"),
        ("description = ?", b"[1]", "CorruptObject"),
        ("description = ?", 5, "TypeError"),
        ("data = ?", b"garbage", "CorruptObject"),
        ("data = ?", "text", "CorruptObject"),
    ],
)
def test_a_damaged_object_is_answered_with_a_placeholder(
    path: Path, change: str, value: object, error: str
) -> None:
    store = CIDStore(path)
    name, other = filled(store, [1], [2])
    damaged(path, f"UPDATE objects SET {change} WHERE cid = ?", value, bytes.fromhex(name))
    assert store.description(name) == unreadable(error)
    assert store.description(other) == reported([2])
    if change == "data = ?":
        assert store.get(name) is None
    store.close()


def test_a_damaged_file_answers_without_raising(path: Path) -> None:
    store = CIDStore(path)
    names = filled(store, *("x" * 900 + str(number) for number in range(200)))
    store.close()
    content = bytearray(path.read_bytes())
    content[5_000:] = random.Random(1).randbytes(len(content) - 5_000)
    path.write_bytes(content)
    reader = CIDStore(path, is_reader=True)
    for name in names:
        found = reader.description(name)
        assert found is None or "error" in found
        assert reader.get(name) is None
    reader.close()
    merged = CIDStore(path.with_name("merged.db"))
    assert merged.merge(path).problem
    merged.close()


@pytest.mark.parametrize("content", [b"no database" * 100, b""])
def test_what_is_no_store_finds_nothing(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    reader = CIDStore(path, is_reader=True)
    assert reader.description("00") is None
    assert (reader.state == "failed") is bool(content)
    reader.close()


def test_a_newer_file_is_left_alone(path: Path) -> None:
    damaged(path, "PRAGMA user_version = 99")
    store = CIDStore(path)
    filled(store, 1)
    assert store.state == "failed"
    assert "newer" in str(store.problem)
    assert store.counts.lost == 1


class Bomb:
    def __reduce__(self) -> Any:
        return (exec, ("raise SystemExit('unpickled')",))


def test_nothing_is_unpickled(path: Path) -> None:
    data = pickle.dumps(Bomb(), 4)
    store = CIDStore(path)
    store.put(cid_of(data), reported("a bomb"), data)
    assert store.description(cid_of(data)) == reported("a bomb")
    assert store.get(cid_of(data)) == data
    store.close()
    merged = CIDStore(path.with_name("merged.db"))
    assert merged.merge(path).objects == 1
    merged.close()


# --- what fails ---------------------------------------------------------------------------------


def test_a_missing_folder_is_counted_and_never_raised(tmp_path: Path) -> None:
    store = CIDStore(tmp_path / "missing" / "objects.db")
    filled(store, 1, 2)
    assert (store.state, store.counts.lost) == ("failed", 2)
    assert "No such file" in str(store.problem)
    assert store.description("00") is None
    store.close()


def test_a_full_disk_is_counted_and_what_was_stored_stays(path: Path) -> None:
    store = CIDStore(path)
    (name,) = filled(store, "before")
    assert store._connection is not None
    pages = database.number(store._connection, "PRAGMA page_count")
    store._connection.execute(f"PRAGMA max_page_count = {pages + 1}")
    filled(store, "x" * 100_000)
    assert (store.state, store.counts.lost) == ("open", 1)
    filled(store, *("x" * 100_000 + str(number) for number in range(5)))
    assert store.state == "failed"
    assert "full" in str(store.problem)
    assert store.counts.lost == 6
    store.close()
    reader = CIDStore(path, is_reader=True)
    assert reader.description(name) == reported("before")
    reader.close()


def test_a_python_without_sqlite_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "sqlite3", None)
    store = CIDStore(path)
    filled(store, 1)
    assert (store.state, store.counts.lost, len(store)) == ("unavailable", 1, 0)
    assert "sqlite3" in str(store.problem)
    assert store.description("00") is None
    assert store.merge(path).problem
    store.close()


def test_the_module_can_be_imported_without_sqlite() -> None:
    script = """
        import sys
        sys.modules["sqlite3"] = None
        from pytest_cideldill.objects.store import CIDStore
        assert CIDStore("x").state == "unavailable"
    """
    run(script)


# --- merging ------------------------------------------------------------------------------------


def test_the_files_of_a_run_are_put_together(tmp_path: Path) -> None:
    names = []
    for number, values in enumerate((["a", "b"], ["b", "c"], ["d"])):
        store = CIDStore(tmp_path / f"{number}.db")
        names += filled(store, *values)
        store.close()
    merged = CIDStore(tmp_path / "all.db")
    assert [merged.merge(tmp_path / f"{number}.db").objects for number in range(3)] == [2, 1, 1]
    assert merged.merge(tmp_path / "0.db") == store_module.Merged(0)
    assert merged.merge(tmp_path / "0.db").is_complete
    assert all(merged.get(name) for name in names)
    missing = merged.merge(tmp_path / "missing.db")
    assert (missing.objects, missing.is_complete) == (0, False)
    assert not (tmp_path / "missing.db").exists()
    merged.close()


def test_merging_obeys_the_size_and_skips_damaged_rows(tmp_path: Path) -> None:
    store = CIDStore(tmp_path / "one.db")
    names = filled(store, *("x" * 400 + str(number) for number in range(50)))
    store.close()
    change = "UPDATE objects SET description = 7 WHERE cid = ?"
    damaged(tmp_path / "one.db", change, bytes.fromhex(names[0]))
    merged = CIDStore(tmp_path / "all.db", max_bytes=10_000)
    found = merged.merge(tmp_path / "one.db")
    assert found.problem is None
    assert 0 < found.objects == len(merged) < 15
    assert merged.counts.lost == 1
    assert not found.is_complete
    assert found.missing == 50 - found.objects
    merged.close()


@pytest.mark.full
def test_merging_can_be_stopped_after_some_megabytes(tmp_path: Path) -> None:
    store = CIDStore(tmp_path / "one.db", max_object_bytes=BATCH_BYTES)
    filled(store, *("x" * (BATCH_BYTES // 4) + str(number) for number in range(12)))
    store.close()
    merged = CIDStore(tmp_path / "all.db", max_object_bytes=BATCH_BYTES)
    answers = iter([True, False])
    found = merged.merge(tmp_path / "one.db", lambda: next(answers))
    assert 0 < found.objects == len(merged) < 12
    assert "not all" in str(found.problem)
    assert merged.merge(tmp_path / "one.db").is_complete
    assert len(merged) == 12
    merged.close()


# --- other processes ----------------------------------------------------------------------------


def run(script: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script), *map(str, arguments)]
    done = subprocess.run(
        command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=50, **options
    )
    assert done.stderr == ""
    return done


def test_a_file_that_is_written_is_alone_and_read_when_it_is_closed(path: Path) -> None:
    """Some file systems refuse the files that a write-ahead log needs."""
    reader = CIDStore(path, is_reader=True)
    assert reader.description("00" * 64) is None
    assert reader.state == "idle"
    assert not path.exists()
    store = CIDStore(path)
    names = filled(store, *range(50))
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    store.close()
    assert all(reader.description(each) for each in names)
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    reader.close()


@needs_fork
def test_a_forked_child_leaves_the_file_alone(path: Path) -> None:
    script = """
        import gc, os, sys
        from pytest_cideldill.objects.store import CIDStore
        def put(store, number):
            store.put(f"{number:0128x}", {"repr": str(number)})
        store = CIDStore(sys.argv[1])
        put(store, 1)
        before = os.stat(sys.argv[1])
        pid = os.fork()
        if pid == 0:
            put(store, 2)
            assert store.description(f"{1:0128x}") is None
            assert store.state == "closed", store.state
            store.close()
            del store
            gc.collect()
            sys.exit(7)  # an end with everything that Python does then
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        after = os.stat(sys.argv[1])
        assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
        put(store, 3)
        assert len(store) == 2
        assert store.description(f"{1:0128x}") == {"repr": "1"}
        store.close()
    """
    run(script, path)


def test_it_may_be_written_on_another_thread_each_time(path: Path) -> None:
    store = CIDStore(path)
    for number in range(3):
        thread = threading.Thread(target=filled, args=(store, number))
        thread.start()
        thread.join()
    assert (len(store), store.counts.lost) == (3, 0)
    store.close()


# --- secrets ------------------------------------------------------------------------------------

SECRET = "tr0ub4dor&3"


class Login:
    def __init__(self, password: str) -> None:
        self.password = password


class Terse(Login):
    def __reduce__(self) -> Any:
        return (Terse, (self.password,))


def test_no_secret_is_in_the_file(path: Path) -> None:
    log = ObjectLog()
    objects = Objects(log, Redactor(environ={}), b"key", EvaluationGuard())
    deep: object = {"api_key": SECRET}
    for _ in range(12):
        deep = [deep]
    holders = [deep, Login(SECRET), [[[[[Terse(SECRET)]]]]], {"url": f"redis://:{SECRET}@cache/0"}]
    names = []
    for value in holders:
        names += [objects.take({}, value), objects.identify(objects.freeze(value))]
    names.append(objects.take({}, SECRET, "password"))
    names.append(objects.take({}, ["no secret", 12345678]))
    store = CIDStore(path)
    log.write(store.put_many)
    content = path.read_bytes()
    assert b"no secret" in content
    assert SECRET.encode() not in content
    plain = hashlib.sha512(SECRET.encode()).digest()
    dumped = hashlib.sha512(pickle.dumps(SECRET, 4)).digest()
    assert plain not in content
    assert dumped not in content
    for each in names:
        assert store.description(each.cid) is not None
    store.close()


# --- on the way to the store --------------------------------------------------------------------


def test_objects_are_handed_over_once_in_batches() -> None:
    log = ObjectLog()
    size = BATCH_BYTES // 4
    for number in range(10):
        log.add(f"{number:0128x}", "{}", bytes(size))
        log.add(f"{number:0128x}", "{}", bytes(size))
    batches: list[list[StoredObject]] = []
    log.write(lambda rows: batches.append(list(rows)))
    assert [len(batch) for batch in batches] == [4, 4, 2]
    log.write(lambda rows: batches.append(list(rows)))
    assert len(batches) == 3


def test_too_much_that_waits_is_dropped_and_may_come_again() -> None:
    log = ObjectLog(max_waiting_bytes=1_000)
    for number in range(5):
        log.add(f"{number:0128x}", "x" * 300, None)
    assert log.dropped == 2
    assert not log.has(f"{4:0128x}")
    rows: list[StoredObject] = []
    log.write(rows.extend)
    log.add(f"{4:0128x}", "x" * 300, None)
    log.write(rows.extend)
    assert len(rows) == 4


def test_only_the_newest_objects_are_remembered() -> None:
    log = ObjectLog(remembered=10)
    for number in range(100):
        log.add(f"{number:0128x}", "{}", None)
    assert log.has(f"{99:0128x}")
    assert log.has(f"{90:0128x}")
    assert not log.has(f"{5:0128x}")


def test_a_forked_child_forgets_what_waits() -> None:
    log = ObjectLog()
    log.add("00" * 64, "{}", None)
    log.forget()
    log.write(lambda _rows: pytest.fail("the parent writes it"))


def test_bytes_are_counted_over_threads() -> None:
    budget = Budget(10**9)

    def work() -> None:
        for _ in range(2_000):
            assert budget.take(7)
            budget.give_back(7)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert budget.take(10**9)
    assert not budget.take(1)


# --- pickles, read ------------------------------------------------------------------------------


@for_each(
    ("value", "names"),
    [
        ({"a": 1, "b": "c"}, {"a", "b"}),
        (["a", {"b": None}], {"b"}),
        ({"a": "b"}, {"a"}),
        (("a", "b"), set()),
        ("a", set()),
        (Login, set()),
        (Login("x"), {"password"}),
        ([b"a", "x" * 300, "x" * 70_000, 2**99, -1, 1.5, {1}, frozenset({2}), 1000, 10**6], None),
    ],
)
def test_strings_in_pickles_and_those_that_may_be_names(value: Any, names: set[str] | None) -> None:
    found = list(strings(pickle.dumps(value, 4)))
    if names is None:
        assert {"a", "x" * 300, "x" * 70_000} <= {text for text, _ in found}
    else:
        likely = {text for text, may_be_name in found if may_be_name}
        assert names <= likely
        assert not {"c", "Login", __name__} & likely


@for_each("data", [b"", b"\x80\x04\x8c\x50abc", b"\x80\x04I5\n.", b"\x80\x04cabc"])
def test_what_is_no_pickle_of_ours_is_refused(data: bytes) -> None:
    if data:
        with pytest.raises(ValueError):  # noqa: PT011 - each says something else
            list(strings(data))
    else:
        assert list(strings(data)) == []


def test_only_built_in_values_are_made() -> None:
    value = [1, "a", {"b": (2.5, None)}, {3}]
    assert plain_value(pickle.dumps(value, 4)) == value
    for other in (Bomb(), Login("x"), Login):
        with pytest.raises(pickle.UnpicklingError, match="no built-in value"):
            plain_value(pickle.dumps(other, 4))


def test_what_is_stored_of_an_object_comes_back(path: Path) -> None:
    log = ObjectLog()
    limits = Limits(max_object_bytes=2_000, capture_ms=20_000)
    objects = Objects(log, Redactor(environ={}), b"key", EvaluationGuard(), limits)
    values: list[Any] = [5, "text", {"a": [1, 2]}, Login, print, "x" * 5_000]
    held: dict[str, Held] = {}
    names = [objects.take(held, value).cid for value in values]
    description = objects.unchanged(held[names[4]])
    assert description is not None
    objects.copy(names[4], held[names[4]], description)  # of a builtin, by dill
    store = CIDStore(path, max_object_bytes=limits.max_object_bytes)
    log.write(store.put_many)
    assert json.dumps(store.description(names[2]))
    assert [store.get(name) is not None for name in names] == [True] * 5 + [False]
    assert store.counts.stored == len(values) + 1
    store.close()
