"""The lines of one call: replayed changes give the locals that the call has at its end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.together.conftest import MakeProject
from tests.together.question_rows import Recorded, record

pytestmark = pytest.mark.full

SHAPES = """
    import asyncio, contextlib, json, pathlib

    END = {}

    def note(names):
        END.update({k: repr(v) for k, v in names.items() if type(v) in (int, str, bool, float)})

    def loops(n):
        total = 0
        for i in range(n):
            if i % 2:
                continue
            total += i
            for j in "ab":
                text = j * i
        else:
            done = True
        while n:
            n -= 1
            if n == 1:
                break
        note(locals())
        return total

    def tries(n):
        try:
            step = 1
            [][n]
        except IndexError as error:
            step = 2
            message = str(error)
        else:
            step = 9
        finally:
            last = step
        with contextlib.suppress(KeyError):
            before = "x"
            {}["gone"]
            never = 1
        note(locals())
        return last

    def unpacks(n):
        first, *rest = range(n)
        a = b = first + 1
        (c, d), e = (a, b), n
        if (walrus := a + b) > 1:
            del c
        doubled = [each * 2 for each in rest]
        size = len(doubled)
        f = lambda: size
        size += f()
        note(locals())
        return size

    def matches(n):
        match {"kind": "x", "n": n}:
            case {"kind": "y"}:
                found = "y"
            case {"kind": kind, "n": value} if value > 1:
                found = kind
            case _:
                found = ""
        long = (
            n
            + 1
        )
        note(locals())
        return found

    def generates(n):
        total = 0
        while n:
            got = yield total
            total += n
            n -= 1
        note(locals())
        return total

    async def awaits(n):
        total = 0
        for i in range(n):
            await asyncio.sleep(0)
            total += i
        async with asyncio.timeout(9):
            after = total + 1
        note(locals())
        return after

    def closes(n):
        count = 0
        def up():
            nonlocal count
            count += n
        up()
        up()
        note(locals())
        return count

    def test_shapes():
        for f in (loops, tries, unpacks, matches, closes):
            END.clear()
            f(4)
            end(f)
        END.clear()
        list(generates(4))
        end(generates)
        END.clear()
        asyncio.run(awaits(4))
        end(awaits)

    def end(f):
        pathlib.Path(__file__).with_name(f.__name__ + ".json").write_text(json.dumps(END))
"""


def _replayed(recorded: Recorded) -> dict[str, str]:
    """The locals at the end, by the arguments and changes."""
    names = dict(recorded.of("call")[0][6])
    for _, name, text in recorded.of("change"):
        if text is None:
            names.pop(name, None)
        else:
            names[name] = text
    return names


@pytest.mark.sample("loops", "awaits", "generates", "tries")
@pytest.mark.parametrize(
    "function",
    [
        *("loops", "tries", "unpacks", "matches", "generates", "awaits", "closes"),
    ],
)
def test_replayed_changes_give_the_locals_at_the_end(
    make_project: MakeProject, function: str
) -> None:
    project = make_project(test_s=SHAPES)
    recorded = record(project, "test_s.py::test_shapes", function=f"test_s.{function}", call=1)
    assert recorded.status == 0, recorded.output
    expected = json.loads((project / f"{function}.json").read_text())
    replayed = _replayed(recorded)
    assert {name: replayed.get(name) for name in expected} == expected


OBJECTS = """
    from collections import deque

    STOCK = {"a": [1]}

    class Slotted:
        __slots__ = ("x",)

    class Box:
        limit = 3
        def __init__(self):
            self.items, self.names, self.inner, self.slotted = [], {}, None, Slotted()
        @property
        def size(self):
            raise SystemExit("a property ran")
        def fill(self, other):
            self.items.append(1)
            self.items += [2, 3]
            self.names["a"] = 1
            self.names["a"] += 1
            del self.names["a"]
            self.inner = Box()
            self.inner.items.append("deep")
            self.slotted.x = 5
            STOCK["a"].append(2)
            other.count = 7
            self.items[0] = "first"
            self.items.clear()
            Box.limit = 4
            for self.now in range(2):
                self.items.extend([0] * 100)
            return other

    class Other: pass

    def test_fill():
        assert Box().fill(Other()).count == 7
"""


def test_changes_of_attributes_and_items_that_a_line_names(make_project: MakeProject) -> None:
    recorded = record(
        make_project(test_o=OBJECTS), "test_o.py::test_fill", function="Box.fill", call=1
    )
    assert recorded.of("outcome")[1][2] == "passed"
    changes: dict[int, list[list[Any]]] = {}
    line = 0
    for row in recorded.of("line", "change"):
        if row[0] == "line":
            line = row[1]
        else:
            changes.setdefault(line - 17, []).append(row[1:])
    assert changes[0] == [["self.items[0]", "1"]]
    assert changes[1] == [["self.items[1]", "2"], ["self.items[2]", "3"]]
    assert changes[2] == [["self.names['a']", "1"]]
    assert changes[3] == [["self.names['a']", "2"]]
    assert changes[4] == [["self.names['a']", None]]
    assert [name for name, _ in changes[5]] == ["self.inner"]
    assert changes[6] == [["self.inner.items[0]", "'deep'"]]
    assert changes[7] == [["self.slotted.x", "5"]]
    assert changes[8] == [["STOCK['a'][1]", "2"]]
    assert changes[9] == [["other.count", "7"]]
    assert changes[10] == [["self.items[0]", "'first'"]]
    assert changes[11] == [["self.items", "[]"]]
    assert [name for name, _ in changes[14]] == ["self.items", "self.items"]
    assert "self.now" in [name for name, _ in changes[13]]


ALIVE = """
    import gc, weakref

    class Thing:
        deleted = 0
        def __del__(self):
            Thing.deleted += 1

    def uses(keep):
        thing = Thing()
        thing.name = "x"
        ref = weakref.ref(thing)
        del thing
        gone_at_once = ref() is None
        box = [Thing()]
        box.clear()
        freed = Thing.deleted
        for _ in range(3):
            other = Thing()
        other = None
        return gone_at_once, freed, Thing.deleted

    def test_uses():
        gc.disable()
        assert uses(1) == (True, 2, 5)
"""


def test_nothing_is_kept_alive(make_project: MakeProject) -> None:
    recorded = record(make_project(test_a=ALIVE), "test_a.py::test_uses", function="uses", call=1)
    assert recorded.of("outcome")[1][2] == "passed", recorded.output


LONG = """
    def long(n):
        total = 0
        for i in range(n):
            total = add(total, i)
        return total

    def add(total, i):
        return total + i

    def test_long():
        assert long(300_000) == sum(range(300_000))
"""


def test_of_many_lines_the_first_and_the_last_are_recorded(make_project: MakeProject) -> None:
    recorded = record(
        make_project(test_l=LONG), "test_l.py::test_long", function="long", call=1, lines=3_000
    )
    assert recorded.of("outcome")[1][2] == "passed"
    assert recorded.of("reached")[0][1] == "lines"
    gap = next(at for at, row in enumerate(recorded.rows) if row[0] == "reached")
    assert not [row for row in recorded.rows[gap:] if row[0] == "call"]
    lines = [row[1] for row in recorded.of("line")]
    assert 1_000 < len(lines) < 4_000
    assert lines[:2] == [3, 4]
    assert lines[-1] == 6
    assert recorded.of("change")[-1] == ["change", "total", str(sum(range(300_000)))]


CHOSEN = """
    import threading

    def work(n, text="a"):
        return helper(n) + 1

    def helper(n):
        return n

    def test_work():
        for n in range(5):
            work(n, "ab"[n % 2])
        threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
        [each.start() for each in threads]
        [each.join() for each in threads]
"""


@pytest.mark.parametrize(
    ("chosen", "count", "argument"),
    [({"call": 2}, 2, "1"), ({"when": "n > 2"}, 4, "3"), ({"when": "text == 'b'"}, 2, "1")],
    ids=["call", "when", "when text"],
)
def test_one_call_is_chosen(
    make_project: MakeProject, chosen: dict[str, Any], count: int, argument: str
) -> None:
    project = make_project(test_c=CHOSEN)
    recorded = record(project, "test_c.py::test_work", function="work", **chosen)
    focus = recorded.of("focus")[0]
    assert focus[2] == count
    call = next(row for row in recorded.of("call") if row[1] == focus[1])
    assert dict(call[6])["n"] == argument
    names = recorded.names
    assert sorted(names.values()) == ["helper", "work"]
    assert recorded.of("matches") == [["matches", 8]]
    assert recorded.of("caller")[0][2] in {row[1] for row in recorded.of("code")}


def test_a_condition_that_raises_is_reported(make_project: MakeProject) -> None:
    project = make_project(test_c=CHOSEN)
    recorded = record(project, "test_c.py::test_work", function="work", when="nobody > 1")
    assert not recorded.of("focus")
    assert "NameError" in recorded.of("reached")[0][2]


def test_lines_are_counted(make_project: MakeProject) -> None:
    project = make_project(test_c=CHOSEN)
    recorded = record(project, "test_c.py::test_work", function="work", counts=True)
    assert recorded.of("lines")[0][2] == [[5, 8]]
    assert len([name for name in recorded.names.values() if name == "helper"]) == 8


def test_a_function_that_is_not_called_leaves_the_names_that_were(
    make_project: MakeProject,
) -> None:
    project = make_project(test_c=CHOSEN)
    recorded = record(project, "test_c.py::test_work", function="works", call=1)
    assert "test_c.work" in recorded.of("unmatched")[0][1]


LIBRARIES = """
    import json, dataclasses

    @dataclasses.dataclass
    class Point:
        x: int

    def test_json():
        assert json.loads(json.dumps([Point(1).x])) == [1]
        assert len("a") == 1
"""


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("len", "made in C"),
        ("str.upper", "made in C"),
        ("json.loads", "function of a library"),
        ("test_j.Point", "without an __init__"),
        ("json:dumps", "function of a library"),
        ("test_j.gone", ""),
    ],
)
def test_what_can_not_be_recorded_is_refused_with_the_reason(
    make_project: MakeProject, function: str, why: str
) -> None:
    project = make_project(test_j=LIBRARIES)
    recorded = record(project, "test_j.py::test_json", function=function, call=1)
    refused = recorded.of("refused")
    assert [row[1] for row in refused] == (["invalid_parameter"] if why else [])
    assert not why or why in refused[0][2]
    assert recorded.of("unmatched")


def test_each_test_has_a_chosen_call_of_its_own(make_project: MakeProject) -> None:
    source = """
        def work(n): return n
        def test_one(): work(1), work(2)
        def test_two(): work(3)
        def test_three(): pass
    """
    recorded = record(make_project(test_c=source), "test_c.py", function="work", call=1)
    assert [dict(row[6])["n"] for row in recorded.of("call")] == ["1", "3"]
    assert recorded.of("focus") == [["focus", 1, 1], ["focus", 2, 1]]
    assert [row[1] for row in recorded.of("matches")] == [2, 1, 0]
    assert not recorded.of("unmatched")
