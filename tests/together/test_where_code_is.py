"""Where code is: its file, its line and its text, when these are not what the code itself says.

Each test fails in a part of a project that lies elsewhere, was edited or moved, or is no Python.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.together.conftest import MakeProject
from tests.together.driver import connected, locals_of, only_stop, server, source_of
from tests.together.frontend import clean_environment, module_command

CART = """\
def total(prices):
    out = sum(prices)
    return out


def wrong(prices):
    assert total(prices) == 0, prices


def changed(prices):
    raise ValueError(len(prices))
"""

TEST = """\
from shop import changed, total, wrong

def test_first():
    assert total([1]) == 2

def test_second():
    wrong([1, 2])

def test_third():
    assert total([3]) == 4

def test_fourth():
    changed([])
"""


@pytest.mark.full
def test_a_file_that_is_edited_while_a_run_is_paused_is_shown_as_it_ran(
    make_project: MakeProject,
) -> None:
    """The line of the text that was compiled, that text, its operands; and that it was edited."""
    project = make_project(shop=CART, test_it=TEST)
    with connected(server(project)) as agent:
        stop = agent.call("test_run")["stops"][-1]
        for name in ("shop.py", "test_it.py"):
            text = (project / name).read_text(encoding="utf-8").replace("len(prices)", "prices")
            (project / name).write_text("# 1\n# 2\n# 3\n# 4\n# 5\n" + text, encoding="utf-8")
        reply = agent.call("breakpoint_set", file="shop.py", line=12)
        assert "the file was edited after this run began" in reply["message"]

        def next_stop() -> dict[str, Any]:
            reply = agent.call("breakpoint_continue", pause_id=stop["pause_id"], wait=True)
            return only_stop({"stops": reply["stops"][-1:]})

        stop = next_stop()
        assert stop["location"]["line"] == 7
        assert source_of(stop) == "assert total(prices) == 0, prices"
        assert stop["location"]["note"] == (
            "the file was edited since this process loaded it; this is line 12 now"
        )
        context = agent.call("exception_get_context", pause_id=stop["pause_id"])
        assert context["frames"][1]["source"] == "wrong([1, 2])"
        stop = next_stop()
        context = agent.call("exception_get_context", pause_id=stop["pause_id"])
        assert context["assertion"]["leftExpression"] == "total([3])"
        stop = next_stop()
        assert (stop["location"]["line"], source_of(stop)) == (11, "")
        assert stop["location"]["note"] == "the file was edited since this process loaded it"
        (project / "test_it.py").write_text("\n", encoding="utf-8")
        frames = agent.call("stacktrace_get", pause_id=stop["pause_id"])["frames"]
        assert [each["source"] for each in frames[:2]] == ["", "changed([])"]
        assert frames[1]["note"] == "the file was edited since this process loaded it"


PAGE = "".join(
    ["<p>line</p>\n"] * 7 + ["{{ price|euro }}\n"] + [f"<p>footer {n}</p>\n" for n in range(40)]
)

FILTER = """\
import jinja2

def euro(price):
    if price < 0:
        raise ValueError(price)
    return f"{price} EUR"

def render(price):
    there = jinja2.Environment(loader=jinja2.FileSystemLoader("pages"))
    there.filters["euro"] = euro
    return there.get_template("invoice.html").render(price=price)
"""

RULES = """\
def run(path):
    names = {}
    lines = open(path).read().split()
    text = "".join(f"\\n\\ndef {each}(): raise KeyError('{each}')\\n" for each in lines)
    exec(compile(text, path, "exec"), names)
    return names[lines[0]]()
"""


@pytest.mark.full
def test_templates_have_the_lines_of_their_pages(make_project: MakeProject) -> None:
    """A stop in a filter, an exception in it; code of another language is told as what it is."""
    files = {"pages/invoice.html": PAGE, "rules/first.dsl": "one two three four\n"}
    test = """\
        from invoices import render
        from rules import run
        def test_right(): assert render(1).startswith("<p>")
        def test_wrong(): render(-1)
        def test_rule(): run("rules/first.dsl")
        """
    project = make_project(test_it=test, invoices=FILTER, rules=RULES, **files)
    with connected(server(project)) as agent:
        agent.call("breakpoint_add", function_name="euro", behavior="stop")
        agent.call("breakpoint_set_exception", exception_type="ValueError")
        stop = agent.call("test_run", pause_on="never")["stops"][-1]
        place = {"file": "pages/invoice.html", "line": 8}
        assert stop["call_data"]["call_site"] == place
        frames = agent.call("stacktrace_get", pause_id=stop["pause_id"])["frames"]
        page = next(each for each in frames if each["location"]["file"].endswith(".html"))
        assert (page["location"], page["source"]) == (place, "{{ price|euro }}")
        stops = [stop]
        while stops:
            done = agent.call("breakpoint_continue", pause_id=stops[-1]["pause_id"], wait=True)
            if stops := done["stops"]:
                stop = stops[-1]
        context = agent.call("exception_get_context", nodeid="test_it.py::test_wrong")
        pages = [each for each in context["frames"] if each["location"]["file"].endswith(".html")]
        assert [(each["location"], each["source"]) for each in pages] == [
            (place, "{{ price|euro }}")
        ]
        context = agent.call("exception_get_context", nodeid="test_it.py::test_rule")
        assert context["frames"][0]["source"] == ""
        assert context["frames"][0]["location"] == {
            "file": "<compiled from rules/first.dsl>", "line": 3,
        }  # fmt: skip


LINKED = """\
def total(prices):
    out = sum(prices)
    return out + "" if out > 2 else out
"""


@pytest.mark.full
def test_what_is_linked_into_the_project_is_the_user_s_by_the_link_s_name(
    make_project: MakeProject, tmp_path: Path
) -> None:
    """Places, locals, the catalog, names of every form, lines by both spellings."""
    test = "from shop.cart import total\n\ndef test_total():\n    assert total([1, 2]) == 3\n"
    project = make_project(test_it=test, **{"pytest.ini": "[pytest]\npythonpath = src\n"})
    store = tmp_path / "store" / "shop"
    store.mkdir(parents=True)
    (store / "cart.py").write_text(LINKED, encoding="utf-8")
    (store / "__init__.py").touch()
    (project / "src").mkdir()
    (project / "src" / "shop").symlink_to("../../store/shop")
    with connected(server(project)) as agent:
        listed = agent.call("breakpoint_list_functions", pattern="total")
        assert listed["metadata"]["shop.cart.total"]["file"] == "src/shop/cart.py"
        names = ("total", "src/shop/cart.py::total")
        for name in names:
            reply = agent.call("breakpoint_add", function_name=name, behavior="stop")
            assert reply["verified"], reply
        lines = [
            agent.call("breakpoint_set", file=str(file), line=2)
            for file in ("src/shop/cart.py", project / "src/shop/cart.py", store / "cart.py")
        ]
        assert [each["location"]["file"] for each in lines[:2]] == ["src/shop/cart.py"] * 2
        stop = agent.call("test_run")["stops"][-1]
        assert stop["call_data"]["qualified_name"] == "shop.cart.total"
        assert agent.call("breakpoint_list")["breakpoints"][1]["state"] == "bound"
        stop = agent.call("breakpoint_continue", pause_id=stop["pause_id"], wait=True)["stops"][-1]
        place = {"file": "src/shop/cart.py", "line": 2, "function": "total"}
        assert {name: stop["location"][name] for name in place} == place
        for each in agent.call("breakpoint_list")["breakpoints"]:
            if each["type"] == "blocking":
                assert each["state"] == "bound", each
                agent.call("breakpoint_enable", id=each["id"], enabled=False)
        while stop["reason"] != "test_failure":
            stop = agent.call("breakpoint_continue", pause_id=stop["pause_id"], wait=True)["stops"][
                -1
            ]
        assert stop["location"]["file"] == "src/shop/cart.py"
        assert locals_of(stop) == {"prices": "[1, 2]", "out": "3"}
        frames = agent.call("exception_get_context", pause_id=stop["pause_id"])["frames"]
        assert not frames[0]["isExternal"]


BESIDE = "def total(prices):\n    return {}[len(prices)]\n"


@pytest.mark.full
def test_code_beside_the_rootdir_is_named(make_project: MakeProject) -> None:
    """The ini file is in `tests`; the server was started one folder above, as were the tests."""
    test = """\
        import sys
        sys.path.insert(0, ".")
        from app.cart import total
        def test_total(): total([1])
        """
    files = {"app/__init__.py": "", "app/cart.py": BESIDE, "tests/pytest.ini": "[pytest]\n"}
    project = make_project(**files, **{"tests/test_cart.py": test})
    (project / "pytest.ini").unlink()
    hint = "beside the rootdir: cideldill_user_paths = ../app makes it user code"
    with connected(server(project, "tests")) as agent:
        listed = agent.call("breakpoint_list_functions", pattern="total")
        assert "cideldill_user_paths adds folders beside it" in listed["message"]
        reply = agent.call("breakpoint_add", function_name="total", behavior="stop")
        assert reply["message"].endswith(f"app/cart.py has one, {hint}")
        line = agent.call("breakpoint_set", file="app/cart.py", line=2)
        assert line["success"]
        agent.call("breakpoint_enable", id=line["id"], enabled=False)
        reply = agent.call("test_run", nodeids=["tests/test_cart.py::test_total"])
        assert f"a failure passed code {hint}" in reply["warnings"]
        stop = only_stop(reply)
        frames = agent.call("exception_get_context", pause_id=stop["pause_id"])["frames"]
        assert frames[0]["hint"] == hint
        reply = agent.call("breakpoint_continue", pause_id=stop["pause_id"], wait=True)
        whys = {each["id"]: each["whyNotHit"] for each in reply["neverHit"]}
        assert hint in whys["fn-1"]


@pytest.mark.full
def test_an_installed_copy_is_named_where_its_source_was_meant(
    make_project: MakeProject, tmp_path: Path
) -> None:
    """By the path of a line, of a function, and in a record."""
    test = "from shop.cart import total\n\ndef test_total():\n    total(['1', 2])\n"
    project = make_project(test_it=test, **{"src/shop/cart.py": CART})
    copy = tmp_path / "site-packages" / "shop"
    shutil.copytree(project / "src" / "shop", copy)
    there = {"PYTHONPATH": str(copy.parent)}
    why = f"never_imported (shop.cart came from {copy / 'cart.py'})"
    with connected(server(project, env=there)) as agent:
        agent.call("breakpoint_set", file="src/shop/cart.py", line=2)
        agent.call("breakpoint_add", function_name="src/shop/cart.py::total", behavior="stop")
        reply = agent.call("test_run", pause_on="never")
        assert [each["whyNotHit"] for each in reply["neverHit"]] == [why, why]
        came = f"shop.cart came from {copy / 'cart.py'}"
        assert reply["warnings"] == [f"{came}: edits of src/shop/cart.py have no effect"]
    options = ["--cideldill-record=rec", "--cideldill-trace=src/shop/cart.py:2={prices}"]
    environment = clean_environment(**there)
    subprocess.run(module_command() + options, cwd=project, env=environment, check=False)
    command = [sys.executable, "-m", "pytest_cideldill", "show", "rec"]
    shown = subprocess.run(command, cwd=project, env=environment, capture_output=True, check=True)
    assert f"src/shop/cart.py:2 0 hits: {why}" in shown.stdout.decode()


SHIM = """\
SHIM = "def add(x, y, z=1):\\n    return None\\n"

def delay(function, *args):
    names = {"__name__": function.__module__}
    exec(SHIM, names)
    names["add"](*args)
    return function(*args)
"""


@pytest.mark.full
def test_code_that_is_made_in_the_name_of_a_function_is_not_that_function(
    make_project: MakeProject,
) -> None:
    """Celery makes such functions to check arguments; a name means that of the module's file."""
    tasks = "def add(x, y):\n    return x + y\n"
    test = """\
        import tasks
        from shim import delay
        def test_add():
            assert delay(tasks.add, 1, 2) == 3
            assert delay(tasks.add, 3, 4) == 7
        """
    project = make_project(tasks=tasks, shim=SHIM, test_it=test)
    with connected(server(project)) as agent:
        agent.call("breakpoint_add", function_name="tasks.add", behavior="stop")
        reply = agent.call("test_run")
        seen = []
        while reply["stops"]:
            stop = reply["stops"][-1]
            seen.append(stop["call_data"].get("pretty_args"))
            reply = agent.call("breakpoint_continue", pause_id=stop["pause_id"], wait=True)
        assert seen == [["1", "2"], ["3", "4"]]
        assert reply["outcomes"]["passed"] == 1


MOVED = """\
import pytest

def total(prices):
    return sum(prices)

class TestCart:
    def test_total(self):
        least = 4
        assert total([1, 2]) == least

def test_nested():
    def inner(price):
        return {}[price]
    run = lambda price: inner(price)
    run(3)
"""


@pytest.mark.full
@pytest.mark.sample("True")
@pytest.mark.parametrize("is_kept", [False, True])
def test_caches_that_were_moved_with_their_project_name_no_other_folder(
    make_project: MakeProject, tmp_path: Path, *, is_kept: bool
) -> None:
    """pytest up to 9.0.3 keeps the old names in its caches; the folder may be there or not."""
    first = make_project(**{"tests/test_calc.py": MOVED})
    command = [*module_command(), "-q"]
    subprocess.run(command, cwd=first, env=clean_environment(), check=False, capture_output=True)
    second = tmp_path / "second"
    shutil.copytree(first, second)
    if is_kept:
        text = "other = 1\n" * 30
        (first / "tests" / "test_calc.py").write_text(text, encoding="utf-8")
    else:
        shutil.rmtree(first)
    with connected(server(second)) as agent:
        agent.call("breakpoint_set_exception", exception_type="KeyError")
        agent.call("breakpoint_add", function_name="total", behavior="stop")
        stop = agent.call("test_run")["stops"][-1]
        place = {"file": "tests/test_calc.py", "line": 9}
        assert stop["call_data"]["call_site"] == place
        stop = agent.call("breakpoint_continue", pause_id=stop["pause_id"], wait=True)["stops"][-1]
        assert {name: stop["location"][name] for name in place} == place
        assert source_of(stop) == "assert total([1, 2]) == least"
        context = agent.call("exception_get_context", pause_id=stop["pause_id"])
        assert context["assertion"]["left"] == "3"
        assert not context["frames"][0]["isExternal"]
        stop = agent.call("breakpoint_continue", pause_id=stop["pause_id"], wait=True)["stops"][-1]
        assert (stop["reason"], stop["location"]["line"]) == ("exception", 13)
        frames = agent.call("stacktrace_get", pause_id=stop["pause_id"])["frames"][:3]
        assert [each["location"] for each in frames] == [
            {"file": "tests/test_calc.py", "line": line} for line in (13, 14, 15)
        ]
        assert [each["isExternal"] for each in frames] == [False] * 3
