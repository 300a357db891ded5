"""Programs that count, close, replace and use up descriptors: as without us, and nothing is lost.

Each way is a test of one project, so that one process meets them one after the other.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_cideldill.objects.store import CIDStore
from tests.together.driver import DEADLINE_S, only_stop
from tests.together.records import QUIET, Recorded, recorded
from tests.together.workbench import Bench, workbench

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's /proc")

TILL = """\
class Item:
    def __init__(self, price):
        self.price = price

    def __repr__(self):
        return f"Item({self.price})"

def total(items):
    return sum(item.price for item in items)
"""

OPEN = """
    import os, socket

    def numbers():
        found = {}
        for name in os.listdir("/proc/self/fd"):
            try:
                found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
            except OSError:  # that of the list itself
                pass
        return found

    def shut_down(how):
        for number, what in numbers().items():
            if what.startswith("socket:"):
                with socket.socket(fileno=os.dup(number)) as each:
                    each.shutdown(how)
"""

COUNTED = {
    "till": TILL,
    "fds": OPEN,
    "conftest": """
        import os
        import pytest
        from fds import numbers

        @pytest.fixture(autouse=True)
        def nothing_is_left_open():
            before = numbers()
            yield
            assert numbers() == before
    """,
    "test_it": """
        import pytest
        from till import Item, total

        @pytest.mark.parametrize("number", range(4))
        def test_total(number):
            assert total([Item(number)]) == number

        def test_other():
            with pytest.raises(TypeError):
                total([Item(None)])

        def test_fails():
            assert total([Item(1)]) == 2
    """,
}

LONG = {
    **COUNTED,
    "test_it": """
        import time
        from till import Item, total

        def test_that_takes_long():
            # What is kept on disk comes while it runs.
            for number in range(200):
                assert total([Item(number)]) == number
                time.sleep(0.01)
    """,
}

WAYS = {
    "test_it": """
        import os, resource, socket, tempfile, time
        import pytest
        from fds import numbers, shut_down
        from till import Item, total

        SOFT, HARD = resource.getrlimit(resource.RLIMIT_NOFILE)
        SOFT = min(SOFT, 1 << 20)

        def each(wanted):
            for number in wanted:
                try:
                    os.close(number)
                except OSError:
                    pass

        WAYS = {
            "range": lambda: os.closerange(3, 256),
            "all": lambda: os.closerange(3, 1 << 20),
            "to the limit": lambda: each(range(3, SOFT)),
            "listed": lambda: each([number for number in numbers() if number > 2]),
            "again": lambda: os.closerange(3, 1 << 20),
        }

        class Files:
            '''Files of the program at all numbers that others had.'''

            def __init__(self, wanted, opened):
                self.opened = opened
                self.held = {}
                for number in wanted:
                    file = opened()
                    if file != number:
                        os.dup2(file, number)
                        os.close(file)
                    self.held[number] = os.fstat(number).st_ino

            def check(self):
                for number, inode in self.held.items():
                    assert os.fstat(number).st_ino == inode, number
                    assert os.fstat(number).st_size == 0, number
                for number in self.held:
                    os.close(number)

        def file():
            number, path = tempfile.mkstemp()
            os.unlink(path)
            return number

        def work():
            for number in range(20):
                assert total([Item(number)]) == number
                time.sleep(0.001)

        def high():
            return sorted(number for number in numbers() if 2 < number < SOFT)

        @pytest.mark.parametrize("way", WAYS)
        def test_closed(way):
            work()
            wanted = high()
            WAYS[way]()
            files = Files(wanted, file)
            work()
            files.check()
            work()

        @pytest.mark.parametrize("at", range(8))
        def test_replaced(at):
            work()
            files = Files(high()[at : at + 1], file)
            work()
            files.check()
            work()

        def test_all_are_replaced():
            work()
            files = Files(high(), file)
            work()
            files.check()
            work()

        @pytest.mark.parametrize("at", range(8))
        def test_replaced_by_a_socket(at):
            wanted = high()[at : at + 1]
            pairs = []
            for number in wanted:
                mine, theirs = socket.socketpair()
                os.dup2(theirs.fileno(), number)
                pairs.append((mine, theirs, number))
            work()
            for mine, theirs, number in pairs:
                mine.setblocking(False)
                with pytest.raises(BlockingIOError):
                    mine.recv(100)
                os.close(number)
                mine.close()
                theirs.close()

        @pytest.mark.parametrize("how", [socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR])
        def test_shut_down(how):
            for _ in range(3):
                work()
                shut_down(how)
            work()

        @pytest.mark.parametrize("is_closed", [False, True])
        def test_used_up(is_closed):
            if is_closed:
                os.closerange(3, 1 << 20)
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(SOFT, 128), HARD))
            taken = []
            with pytest.raises(OSError):
                while True:
                    taken.append(file())
            work()
            assert all(os.fstat(each).st_size == 0 for each in taken)
            for each in taken:
                os.close(each)
            resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT, HARD))
            work()

        def test_fails():
            work()
            assert total([Item(1)]) == 2
    """,
    "till": TILL,
    "fds": OPEN,
}

TRICKY = ("-s", "-p", "no:logging", "-p", "no:faulthandler", "-p", "no:xdist")
"""pytest itself can do with 0 to 2 then."""

HITS = ("--cideldill-trace=till.py:9={len(items)}", "--cideldill-record-calls=till.total")


def project(root: Path, files: dict[str, str]) -> Path:
    bench = Bench(None, root)  # type: ignore[arg-type]
    root.mkdir()
    (root / "pytest.ini").touch()
    bench.write(**files)
    return root


def plain(root: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", *QUIET, *arguments],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S * 2,
        check=False,
        **options,
    )


def printed(out: str) -> str:
    """Without what is different each time, and our one line."""
    text = re.sub(r"in \d+\.\d+s", "in S", out)
    return "".join(each for each in text.splitlines(True) if not each.startswith("cideldill: "))


def soft(most: int) -> Callable[[], None]:
    """Lowers the limit of a process that is about to start."""
    _, hardest = resource.getrlimit(resource.RLIMIT_NOFILE)
    return partial(resource.setrlimit, resource.RLIMIT_NOFILE, (most, hardest))


def hard(most: int) -> Callable[[], None]:
    return partial(resource.setrlimit, resource.RLIMIT_NOFILE, (most, most))


def recorded_within(limit: Callable[[], None] | None, root: Path, *arguments: str) -> Recorded:
    done = plain(root, "--cideldill-record=rec", *arguments, preexec_fn=limit)
    return Recorded(root / "rec", done.returncode, done.stdout, done.stderr)


def outcomes(found: Recorded) -> dict[str, int]:
    tests: dict[str, int] = {}
    for each in found.of("test_outcome"):
        tests[each["nodeid"]] = tests.get(each["nodeid"], 0) + 1
    return tests


# --- counted ------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("arguments", [(), HITS], ids=["bare", "hits and calls"])
def test_a_recorded_test_finds_the_descriptors_that_it_found_before(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    root = project(tmp_path / "project", COUNTED)
    found = recorded(root, *arguments)
    assert "1 failed, 5 passed in" in found.out, found.out
    assert len(found.of("hit")) == (6 if arguments else 0)


@pytest.mark.full
def test_a_recorded_test_that_takes_long_finds_the_descriptors_that_it_found_before(
    tmp_path: Path,
) -> None:
    root = project(tmp_path / "project", LONG)
    found = recorded(root, *HITS)
    assert found.exit_code == 0, found.out
    assert len(found.of("hit")) == len(found.of("call")) == 200


@pytest.mark.full
def test_a_served_test_finds_the_descriptors_that_it_found_before(tmp_path: Path) -> None:
    """At calls that go on, at pauses, when objects are looked into and expressions evaluated."""
    with workbench(tmp_path / "project") as bench:
        bench.write(**COUNTED)
        for behavior in ("go", "stop"):
            known = bench.breakpoint("till.total", behavior=behavior)
            reply, stops = bench.run(), 0
            while reply["state"] == "paused":
                stop = only_stop(reply)
                if stop["reason"] != "test_failure":
                    stops += 1
                    bench.eval(stop, "items[0].__class__")
                    reported = bench.agent.call(
                        "variables_get", pause_id=stop["pause_id"], names=["items"]
                    )
                    cid = reported["variables"][0]["cid"]
                    looked = bench.agent.call("breakpoint_inspect_object", cid=cid)
                    assert looked["type"] == "list"
                reply = bench.go_on(stop)
            assert reply["outcomes"] == {"passed": 5, "failed": 1}, reply
            assert stops == (6 if behavior == "stop" else 0)
            bench.agent.call("breakpoint_remove", id=known["id"])


# --- closed, replaced, used up ------------------------------------------------------------------


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """The run that meets all of them, without us."""
    done = plain(project(tmp_path_factory.mktemp("plain") / "project", WAYS), *TRICKY)
    assert "1 failed, 27 passed" in done.stdout, done.stdout
    return done


@pytest.mark.full
@pytest.mark.sample("1024", "64 at most")
@pytest.mark.parametrize(
    ("arguments", "limit"),
    [(HITS, None), (HITS, soft(1024)), (HITS, hard(64)), ((), hard(64))],
    ids=["any limit", "1024", "64 at most", "bare, 64 at most"],
)
def test_a_record_is_whole_whatever_a_program_does_to_descriptors(
    tmp_path: Path,
    without: subprocess.CompletedProcess[str],
    arguments: tuple[str, ...],
    limit: Callable[[], None] | None,
) -> None:
    root = project(tmp_path / "project", WAYS)
    found = recorded_within(limit, root, *TRICKY, *arguments)
    assert found.exit_code == without.returncode == 1
    assert printed(found.out) == printed(without.stdout)
    assert found.err == without.stderr
    assert "not complete" not in found.out
    assert "1 failure" in found.out
    assert set(outcomes(found).values()) == {1}
    assert len(outcomes(found)) == 28
    if arguments:
        works = 3 * (5 + 8 + 1) + 8 + 3 * 4 + 2 * 2 + 1
        calls = found.of("call")
        assert (len(found.of("hit")), len(calls)) == (20 * works + 1,) * 2
        store = CIDStore(found.run / "objects.sqlite", is_reader=True)
        cids = set(re.findall(r"\b[0-9a-f]{128}\b", json.dumps(calls)))
        assert len(cids) > 20
        assert all(store.description(each) for each in cids)
        store.close()
        numbers = [each["n"] for each in found.events]
        assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.full
def test_a_record_is_whole_when_all_descriptors_are_closed(tmp_path: Path) -> None:
    """The quick one of the test above."""
    root = project(tmp_path / "project", WAYS)
    chosen = ("-k", "(closed and all) or fails")
    found = recorded(root, *TRICKY, *HITS, *chosen)
    assert "1 failed, 1 passed" in found.out, found.out
    assert "not complete" not in found.out
    assert len(found.of("hit")) == 20 * 4 + 1


@pytest.mark.full
def test_nothing_of_ours_arrives_at_a_socket_at_3(tmp_path: Path) -> None:
    """As services are started that get their sockets from others; pytest captures."""
    text = """
        import os, socket, time
        from till import Item, total

        def test_it():
            mine, theirs = socket.socketpair()
            os.dup2(theirs.fileno(), 3)
            for number in range(30):
                total([Item(number)])
                time.sleep(0.003)
            mine.setblocking(False)
            try:
                assert mine.recv(100) == b""
            except BlockingIOError:
                pass
    """
    root = project(tmp_path / "project", {"test_it": text, "till": TILL})
    found = recorded(root, *HITS)
    assert found.exit_code == 0, found.out
    assert len(found.of("hit")) == 30
    assert "not complete" not in found.out


@pytest.mark.full
@pytest.mark.sample("hits", "record")
@pytest.mark.parametrize("mode", ["idle", "hits", "record"])
def test_a_served_run_is_whole_whatever_a_program_does_to_descriptors(
    tmp_path: Path, mode: str
) -> None:
    calls = ("--cideldill-record=rec", "--cideldill-record-calls=till.total")
    with workbench(tmp_path / "project", *TRICKY, *(calls if mode == "record" else ())) as bench:
        bench.write(**WAYS)
        asked = {"file": "till.py", "line": 9, "log_message": "{len(items)}"}
        known = bench.agent.call("breakpoint_set", **asked) if mode == "hits" else {}
        reply = bench.run(pause_on="never")
        assert reply["state"] == "finished", reply
        assert reply["outcomes"] == {"passed": 27, "failed": 1}, reply
        assert reply["exit_code"] == 1
        assert len(bench.results()) == 28
        assert "warnings" not in reply
        if known:
            assert bench.listed(known["id"])["hit_count"] == 20 * 67 + 1
    if mode == "record":
        (events,) = (tmp_path / "project" / "rec").glob("run-*/events.jsonl")
        lines = [json.loads(each) for each in events.read_text().splitlines()]
        assert sum(each["type"] == "call" for each in lines) == 20 * 67 + 1


@pytest.mark.full
@pytest.mark.sample("all", "replaced", "SHUT_*")
@pytest.mark.parametrize(
    "way", ["all", "range", "listed", "replaced", "SHUT_RD", "SHUT_WR", "SHUT_RDWR"]
)
def test_a_stop_arrives_after_all_descriptors_were_closed(tmp_path: Path, way: str) -> None:
    """And an expression is answered, objects are found, the rest of the run is told."""
    closing = {
        "all": "os.closerange(3, 1 << 20)",
        "range": "os.closerange(3, 256)",
        "listed": "for each in [n for n in numbers() if n > 2]:\n    each > 2 and close(each)",
        "replaced": "for each in [n for n in numbers() if n > 9]:\n    os.dup2(1, each)",
    }.get(way, f"shut_down(socket.{way})").replace("\n", "\n            ")
    text = f"""
        import os, socket
        from fds import numbers, shut_down
        from till import Item, total

        def close(number):
            try:
                os.close(number)
            except OSError:
                pass

        def test_it():
            total([Item(1)])
            {closing}
            total([Item(2)])
            {closing}
            assert total([Item(3)]) == 4

        def test_other():
            pass
    """
    with workbench(tmp_path / "project", *TRICKY) as bench:
        bench.write(test_it=text, till=TILL, fds=OPEN)
        bench.breakpoint("till.total")
        reply = bench.run()
        for number in (1, 2, 3):
            stop = only_stop(reply)
            assert bench.eval(stop, "items[0].price") == str(number)
            reported = bench.agent.call("variables_get", pause_id=stop["pause_id"], names=["items"])
            cid = reported["variables"][0]["cid"]
            assert bench.agent.call("breakpoint_inspect_object", cid=cid)["type"] == "list"
            reply = bench.go_on(stop)
        assert only_stop(reply)["reason"] == "test_failure"
        reply = bench.go_on(only_stop(reply))
        assert reply["outcomes"] == {"passed": 1, "failed": 1}, reply
        assert reply["end"]["kind"] == "finished"


# --- limits -------------------------------------------------------------------------------------


@pytest.mark.full
def test_a_program_has_as_many_descriptors_as_without_us(tmp_path: Path) -> None:
    """Ours lie beyond its limit, which is as it was."""
    text = """
        import os, resource

        def test_it():
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 100
            taken = []
            try:
                while True:
                    taken.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                print(f"{len(taken)} of them")
            for each in taken:
                os.close(each)
            os.closerange(3, 100)
    """
    root = project(tmp_path / "project", {"test_it": text, "till": TILL})
    without = plain(root, *TRICKY, preexec_fn=soft(100))
    found = recorded_within(soft(100), root, *TRICKY, *HITS)
    assert re.findall(r"\d+ of them", found.out) == re.findall(r"\d+ of them", without.stdout)
    assert found.exit_code == without.returncode == 0
    assert "not complete" not in found.out


@pytest.mark.full
@pytest.mark.sample("40")
@pytest.mark.parametrize("most", [64, 40])
def test_a_run_within_few_descriptors_is_served(
    tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is set before pytest starts, and lowered in the middle of a test."""
    text = f"""
        import resource
        from till import Item, total

        def test_it():
            assert total([Item(1)]) == 1
            resource.setrlimit(resource.RLIMIT_NOFILE, ({most // 2}, {most}))
            assert total([Item(2)]) == 2

        def test_other():
            assert total([Item(3)]) == 4
    """
    limits = f"import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, ({most}, {most}))\n"
    early = tmp_path / "early"
    early.mkdir()
    (early / "few.py").write_text(limits)
    environment = {"PYTHONPATH": str(early)}
    with workbench(tmp_path / "project", "-p", "few", env=environment) as bench:
        bench.write(test_it=text, till=TILL)
        bench.breakpoint("till.total")
        reply = bench.run()
        for number in (1, 2, 3):
            stop = only_stop(reply)
            assert bench.eval(stop, "items[0].price") == str(number)
            reply = bench.go_on(stop)
        reply = bench.go_on(only_stop(reply))
        assert reply["outcomes"] == {"passed": 1, "failed": 1}, reply
