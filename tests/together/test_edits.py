"""Sources edited between runs: breakpoints follow their lines."""

from __future__ import annotations

from typing import Any

import pytest

from tests.together.driver import only_stop
from tests.together.workbench import Bench

full = pytest.mark.full

TILL = """\
def total(prices, rate):
    amount = 0
    for price in prices:
        amount += price * rate
    return amount
"""

TEST = """
    import pathlib
    import till

    def test_total():
        assert till.total([1, 2], 2) == 6
"""


@pytest.fixture
def till(bench: Bench) -> Bench:
    """A module and a test that calls it."""
    bench.write(**{"till.py": TILL}, test_it=TEST)
    return bench


def traced(bench: Bench, line: int = 4, file: str = "till.py", **more: Any) -> str:
    options = {"log_message": "{amount}"} | more
    id = bench.agent.call("tracepoint_set", file=file, line=line, **options)["tracepoint"]["id"]
    assert isinstance(id, str)
    return id


def lines(reply: dict[str, Any], id: str) -> list[int]:
    """Where the hits of a run were told."""
    return [hit["location"]["line"] for hit in reply["hits"] if hit["breakpoint_id"] == id]


@pytest.mark.full
def test_breakpoints_follow_lines_that_moved(till: Bench) -> None:
    """Lines were inserted above: `moved from … to …`, in the list, at hits and at stops."""
    tracepoint, above = traced(till), traced(till, 1, log_message="module")
    breakpoint = till.agent.call("breakpoint_set", file="till.py", line=5)["id"]
    till.write(**{"till.py": TILL.replace("    amount = 0", "    # from 0\n    amount = 0\n")})
    reply = till.run()
    stop = only_stop(reply)
    assert (stop["breakpoint_id"], stop["location"]["line"]) == (breakpoint, 7)
    assert lines(reply, tracepoint) == [6, 6]
    assert lines(reply, above) == [1]
    for id, old, new in ((tracepoint, 4, 6), (breakpoint, 5, 7)):
        reported = till.listed(id)
        assert (reported["line"], reported["message"]) == (new, f"moved from {old} to {new}")
        assert (reported["verified"], reported["state"]) == (True, "bound")
    assert "message" not in till.listed(above)
    assert reply["edited"] == [
        {"id": tracepoint, "file": "till.py", "line": 6, "function": "total",
         "message": "moved from 4 to 6"},
        {"id": breakpoint, "file": "till.py", "line": 7, "function": "total",
         "message": "moved from 5 to 7"},
    ]  # fmt: skip
    assert till.go_on(stop)["exit_code"] == 0


@full
def test_a_line_that_was_edited_in_place_is_reported_and_followed_from_then_on(till: Bench) -> None:
    """`line_changed`, both texts; what stands there is remembered as its line."""
    id = traced(till)
    changed = TILL.replace("price * rate", "rate * price")
    till.write(**{"till.py": changed})
    reply = till.run()
    assert lines(reply, id) == [4, 4]
    reported = till.listed(id)
    assert reported["message"] == (
        "line_changed: it was 'amount += price * rate'; line 4 is 'amount += rate * price' now"
    )
    assert (reported["line"], reported["verified"], reported["state"]) == (4, True, "bound")
    till.write(**{"till.py": "import os\n" + changed})
    assert lines(till.run(), id) == [5, 5]
    assert till.listed(id)["message"] == "moved from 4 to 5"
    assert "edited" not in till.run()  # it is told once, and stays in the list
    assert till.listed(id)["message"] == "moved from 4 to 5"


@full
def test_a_line_that_stands_twice_now_is_not_guessed(till: Bench) -> None:
    """It stays and says so, and moves as soon as there is one."""
    id = traced(till, 2, log_message="x")
    twice = TILL.replace("    amount = 0\n", "    if rate:\n        amount = 0\n    amount = 0\n")
    till.write(**{"till.py": twice})
    assert lines(till.run(), id) == [2]
    assert till.listed(id)["message"] == (
        "line_changed: it was 'amount = 0', as lines 3, 4 are now; line 2 is 'if rate:' now"
    )
    till.write(**{"till.py": twice.replace("        amount = 0", "        pass")})
    assert lines(till.run(), id) == [4]
    assert till.listed(id)["message"] == "moved from 2 to 4"


@full
def test_equal_lines_of_other_functions_are_others(till: Bench) -> None:
    """Also when one of them stands where ours was."""
    other = TILL.replace("total", "other")
    till.write(**{"till.py": other + TILL})
    id = traced(till, 9)
    till.write(**{"till.py": "\n" * 5 + other + TILL})
    assert lines(till.run(), id) == [14, 14]
    assert till.listed(id)["message"] == "moved from 9 to 14"


@full
def test_a_line_without_code_is_waited_for(till: Bench) -> None:
    """Pending, unverified and told how; it comes back with its text."""
    id = traced(till)
    stopping = till.agent.call("breakpoint_set", file="till.py", line=4)["id"]
    till.write(
        **{"till.py": TILL.replace("        amount += price * rate", "        # +\n        pass")}
    )
    reply = till.run(pause_on="never")
    assert (reply["hits"], reply["stops"], reply["state"]) == ([], [], "finished")
    for each in (id, stopping):
        reported = till.listed(each)
        assert (reported["line"], reported["verified"], reported["state"]) == (4, False, "pending")
        assert reported["message"] == (
            "line_changed: it was 'amount += price * rate'; "
            "line 4 of till.py has no code: use line 5"
        )
    # Nothing that a client does meanwhile makes it bound.
    till.agent.call("breakpoint_enable", id=id, enabled=False)
    enabled = till.agent.call("breakpoint_enable", id=id)["breakpoint"]
    assert (enabled["state"], enabled["verified"]) == ("pending", False)
    till.agent.call("breakpoint_remove", id=stopping)
    till.write(**{"till.py": "import os\n" + TILL})
    reply = till.run()
    assert lines(reply, id) == [5, 5]
    assert till.listed(id)["message"] == "moved from 4 to 5"


@full
def test_a_file_that_is_gone_or_broken_is_reported(till: Bench) -> None:
    """The run starts all the same; a file that is back is as good as before."""
    id = traced(till)
    (till.root / "till.py").unlink()
    till.write(test_it="def test_it(): pass")
    assert till.run()["exit_code"] == 0
    reported = till.listed(id)
    assert (reported["verified"], reported["state"]) == (False, "pending")
    assert reported["message"] == (
        "line_changed: it was 'amount += price * rate'; "
        "till.py can't be read: No such file or directory"
    )
    assert "edited" not in till.run()  # as before
    assert till.listed(id) == reported
    till.write(**{"till.py": TILL + "total(\n"})
    till.run()
    assert "till.py:6 can't be compiled" in till.listed(id)["message"]
    till.write(**{"till.py": TILL}, test_it=TEST)
    assert lines(till.run(), id) == [4, 4]
    assert "message" not in till.listed(id)


NESTED = """\
def total(prices, rate):
    amount = 0
    add = lambda price: price * rate
    amount = sum(map(add, prices))
    return amount
"""


@full
def test_the_code_object_is_found_anew(till: Bench) -> None:
    """Its name, first line or shape changed: of a method now, of a lambda that was edited."""
    till.write(**{"till.py": NESTED})
    amount, made = traced(till, 4), traced(till, 3, column=25, log_message="{price}")
    till.write(**{"till.py": NESTED.replace("price * rate", "rate * price")})
    reply = till.run()
    assert (lines(reply, amount), lines(reply, made)) == ([4], [3, 3])
    assert till.listed(made)["message"].startswith("line_changed")
    assert [hit["message"] for hit in reply["hits"] if hit["breakpoint_id"] == made] == ["1", "2"]
    method = "class Till:\n" + "".join(f"    {line}\n" for line in NESTED.splitlines())
    method = method.replace("    def", "    @staticmethod\n    def") + "total = Till.total\n"
    till.write(**{"till.py": method.replace("price * rate", "rate * price")})
    reply = till.run()
    assert (lines(reply, amount), lines(reply, made)) == ([6], [5, 5])
    assert till.listed(made)["message"] == "moved from 3 to 5"
    (hit, *_) = (hit for hit in reply["hits"] if hit["breakpoint_id"] == made)
    assert hit["location"] == {
        "file": "till.py",
        "line": 5,
        "function": "Till.total.<locals>.<lambda>",
    }


@full
def test_workers_have_it_where_it_is_now(till: Bench) -> None:
    """And a disabled one moves as well."""
    id, off = traced(till), traced(till, 5)
    till.agent.call("breakpoint_enable", id=off, enabled=False)
    till.write(**{"till.py": "import os\n" + TILL})
    reply = till.run(workers=2)
    assert lines(reply, id) == [5, 5]
    reported = till.listed(off)
    assert (reported["line"], reported["state"], reported["message"]) == (
        6,
        "disabled",
        reported["message"],
    )
    assert reported["message"].startswith("moved from 5 to 6")
