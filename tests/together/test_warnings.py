"""A run counts, records and raises the warnings of the program, and none that come from us."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.together.conftest import MakeProject
from tests.together.driver import DEADLINE_S, only_stop
from tests.together.records import Recorded, command, recorded
from tests.together.workbench import Bench

SHOP = r"""
    import re

    def quiet(text):
        try:
            raise KeyError(re.sub("\s", "", text))
        except KeyError:
            return None

    def shown(text):
        return f"\{text}", 1or text
"""

COUNTS = r"""
    import warnings
    import pytest
    import shop

    def test_expected():
        with pytest.warns(UserWarning) as caught:
            warnings.warn("mine")
            shop.quiet("a b")
            shop.shown("a")
        assert [str(each.message) for each in caught] == ["mine"]

    def test_recorded():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            shop.quiet("a b")
            shop.shown("a")
        assert caught == []

    def test_raised():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            shop.quiet("a b")
            shop.shown("a")
"""

FAILS = r"""
    import re

    def test_one():
        found = re.sub("\s", "", "a b")
        assert found == "a b"

    def test_two():
        number = 1or 2
        assert number == len("\d\d\d")
"""


STRANGE = (
    r'text != "\d"',
    "1and text",
    "text is not 1",
    r'f"\{text}" and text',
    "[text][0] is not 'x' and ~False",
)
"""What a compiler warns about, as conditions and in messages."""

EXPRESSIONS = (r'"\d"', "text is 1", "1and text", "x = text is 1", '"a" ["b"] if 0 else 1')


@pytest.fixture
def shop(bench: Bench) -> Bench:
    """Tests that hold if nothing warns; the module was compiled before, as a cached one was."""
    bench.write(shop=SHOP, test_it=COUNTS, conftest=CONFTEST)
    return bench


CONFTEST = """
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import shop
"""


def until_the_end(bench: Bench, reply: dict[str, Any]) -> list[dict[str, Any]]:
    """Go on at each stop; all of them."""
    stops = []
    while reply.get("stops"):
        stops.append(only_stop(reply))
        reply = bench.go_on(stops[-1])
    return stops


def all_passed(bench: Bench) -> bool:
    results = bench.results(state="all")
    return {each["outcome"] for each in results.values()} == {"passed"} and len(results) == 3


@pytest.mark.full
def test_a_stop_on_a_raise_adds_no_warning(shop: Bench) -> None:
    """The autopsy of each reads the source, which has escapes that are none."""
    shop.agent.call("breakpoint_set_exception", exception_type="KeyError")
    stops = until_the_end(shop, shop.run(["test_it.py"]))
    assert [each["location"]["function"] for each in stops] == ["quiet"] * 3
    assert all_passed(shop)


@pytest.mark.full
@pytest.mark.sample("1and text", "*and ~False*")
@pytest.mark.parametrize("condition", STRANGE)
def test_a_condition_that_is_set_at_a_pause_adds_no_warning(shop: Bench, condition: str) -> None:
    """Compiled on the thread that hit, within the filters of the test."""
    shop.breakpoint("shop.quiet")
    stops = []
    reply = shop.run(["test_it.py"])
    while reply.get("stops"):
        stop = only_stop(reply)
        stops.append(stop["location"]["function"])
        if stop["location"]["function"] == "quiet" and len(stops) == 1:
            shop.agent.call("breakpoint_set", file="shop.py", line=11, condition=condition)
            shop.breakpoint("shop.shown", condition=condition)
        reply = shop.go_on(stop)
    assert stops.count("quiet") == 3
    assert len(stops) == 9
    assert all_passed(shop)


@pytest.mark.full
@pytest.mark.sample("text is not 1", "f*and text")
@pytest.mark.parametrize("condition", STRANGE)
def test_a_message_that_is_set_at_a_pause_adds_no_warning(shop: Bench, condition: str) -> None:
    shop.breakpoint("shop.quiet")
    stop = only_stop(shop.run(["test_it.py"]))
    shop.agent.call("tracepoint_set", file="shop.py", line=11, log_message=f"is {{({condition})}}")
    until_the_end(shop, {"stops": [stop]})
    assert len(shop.events("hit")) == 3
    assert all_passed(shop)


@pytest.mark.full
@pytest.mark.sample("*\\d*", "x = text is 1")
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_evaluation_adds_no_warning(shop: Bench, expression: str) -> None:
    shop.breakpoint("shop.quiet")
    reply = shop.run(["test_it.py"])
    while reply.get("stops"):
        stop = only_stop(reply)
        assert "Error" not in shop.eval(stop, expression)
        reply = shop.go_on(stop)
    assert all_passed(shop)


@pytest.mark.full
def test_a_result_that_is_evaluated_adds_no_warning(shop: Bench) -> None:
    shop.breakpoint("shop.quiet")
    reply = shop.run(["test_it.py"])
    while reply.get("stops"):
        value = {"$eval": r'None if "\d" is 1 else 1and None'}
        reply = shop.go_on(only_stop(reply), action="skip", fake_result=value)
    assert all_passed(shop)


@pytest.mark.full
def test_with_every_warning_an_error_failures_have_their_operands(bench: Bench) -> None:
    """Also of files that were compiled before, whose own warnings are past."""
    bench.write(
        test_it=FAILS,
        **{"pytest.ini": "[pytest]\nfilterwarnings =\n    error\n    ignore::SyntaxWarning:ast\n"},
    )
    bench.write(conftest=COMPILED_BEFORE)
    stop = only_stop(bench.run(["test_it.py"]))
    assertion = stop["autopsy"]["assertion"]
    assert (assertion["left"], assertion["right"]) == ("'ab'", "'a b'")
    stop = only_stop(bench.go_on(stop))
    assertion = stop["autopsy"]["assertion"]
    assert (assertion["left"], assertion["right"]) == ("1", "6")
    bench.go_on(stop)
    bench.write(**{"pytest.ini": ""})


COMPILED_BEFORE = """
    import warnings

    import pytest

    @pytest.hookimpl(wrapper=True)
    def pytest_pycollect_makemodule():
        with warnings.catch_warnings():
            module = yield
            warnings.simplefilter("ignore")
            module.obj
        return module
"""


CACHED = {"PYTHONDONTWRITEBYTECODE": ""}


def summary(out: str) -> str:
    """The last line of pytest, without its seconds."""
    (found,) = re.findall(r"^(\d+ failed.*) in [\d.]+s", out, re.M)
    return str(found)


def plain(project: Path, *arguments: str) -> Recorded:
    """The same run without us."""
    done = subprocess.run(
        command("-p", "no:asyncio", *arguments),
        cwd=project,
        env={**os.environ, **CACHED},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=DEADLINE_S,
        check=False,
    )
    return Recorded(project, done.returncode, done.stdout, done.stderr)


def kept(project: Path, *arguments: str, record: str = "rec") -> Recorded:
    """The same run, recorded."""
    return recorded(project, "-p", "no:asyncio", *arguments, record=record, environment=CACHED)


WATCHED = (
    "--cideldill-trace=test_it.py:5=found {found}",
    r'--cideldill-trace=test_it.py:10 if number != "\d" => number {"\d"}',
    "--cideldill-record-calls=test_it.*",
)


@pytest.mark.full
@pytest.mark.sample("lenient-bare", "strict-watched")
@pytest.mark.parametrize("watched", [(), WATCHED], ids=["bare", "watched"])
@pytest.mark.parametrize("strict", [(), ("-Werror",)], ids=["lenient", "strict"])
def test_a_recorded_run_has_the_warnings_of_a_plain_one(
    make_project: MakeProject, watched: tuple[str, ...], strict: tuple[str, ...]
) -> None:
    """Compiled in the run, and from the cache, where the compiler has nothing to say."""
    project = make_project(test_it=FAILS)
    fresh = summary(plain(project).out)
    assert "warning" in fresh
    clear_caches(project)
    run = kept(project, *watched)
    assert (summary(run.out), run.err) == (fresh, "")
    assert summary(plain(project, *strict).out) == "2 failed"
    run = kept(project, *strict, *watched, record="again")
    assert (summary(run.out), run.err) == ("2 failed", "")
    failed = [each for each in run.of("test_phase") if each["category"] == "failed"]
    failures = [each["autopsy"]["assertion"] for each in failed]
    assert [(each["left"], each["right"]) for each in failures] == [("'ab'", "'a b'"), ("1", "6")]
    assert len(run.of("hit")) == (2 if watched else 0)


def clear_caches(project: Path) -> None:
    for file in project.rglob("*.pyc"):
        file.unlink()


@pytest.mark.full
@pytest.mark.skipif(sys.version_info < (3, 12), reason="only a tokenizer in C warns")
def test_reading_the_lines_of_a_statement_adds_no_warning(make_project: MakeProject) -> None:
    r"""A line of several events, whose file has an f-string with `\{`, is looked up when armed."""
    project = make_project(
        test_it=r"""
        def total(prices):
            return sum(
                price for price in prices
            ), f"\{prices}"

        def test_it():
            assert total([1, 2]) == 0
        """
    )
    plain(project)
    run = kept(project, "-Werror", "--cideldill-trace=test_it.py:3=prices {prices}")
    assert summary(run.out) == "1 failed"
    assert [each["message"] for each in run.of("hit")] == ["prices [1, 2]"]
