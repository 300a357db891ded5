"""Values of libraries are shown as an engineer would read them; no code of the program runs.

The libraries are an extra of their own: where one is missing its values are skipped.
"""

from __future__ import annotations

import enum
import sys
from collections import OrderedDict
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import pytest

from pytest_cideldill.objects.pickles import GivenUp, dilled, fast_digest
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering.instances import Unfit, reduction
from pytest_cideldill.rendering.one_line import render
from pytest_cideldill.rendering.parts import DICT, items_of
from pytest_cideldill.rendering.tree import describe

ROOT = Path(__file__).parents[2]

OF_NUMPY = {
    "np.array([1, 2, 3])": "<ndarray (3,) int64 [1, 2, 3]>",
    "np.array(2.5)": "<ndarray () float64 2.5>",
    "np.zeros((2, 2), 'f4')": "<ndarray (2, 2) float32 [[0.0, 0.0], [0.0, 0.0]]>",
    "np.arange(1000)": "<ndarray (1000,) int64 0 … 999>",
    "np.array(['2024-03-01', 'NaT'], 'M8[D]')": "<ndarray (2,) <M8[D] ['2024-03-01', 'NaT']>",
    "np.array([1, 2], 'M8[ns]')": (
        "<ndarray (2,) <M8[ns] ['1970-01-01T00:00:00.000000001', '1970-01-01T00:00:00.000000002']>"
    ),
    "np.arange(100).astype('m8[h]')": "<ndarray (100,) <m8[h] '0 hours' … '99 hours'>",
    "np.arange(12).reshape(3, 4)": "<ndarray (3, 4) int64 0 … 11>",
    "np.array([])": "<ndarray (0,) float64>",
    "np.timedelta64(7, 'ns')": "timedelta64(7,'ns')",
    "np.datetime64('2024-03-01T10:00')": "datetime64('2024-03-01T10:00')",
    "np.datetime64('NaT', 's')": "datetime64('NaT','s')",
}
OF_PANDAS = {
    "pd.Timestamp('2024-03-01 10:00:00.000001005')": "Timestamp('2024-03-01 10:00:00.000001005')",
    "pd.NaT": "NaT",
    "pd.Timedelta(7, 'ns')": "Timedelta('0 days 00:00:00.000000007')",
    "pd.Period('2024-01', 'M')": "Period('2024-01', 'M')",
    "pd.Interval(0, 1)": "Interval(0, 1, closed='right')",
    "pd.Categorical(['a', 'b'])": "<Categorical (2,) ['a', 'b']>",
    "pd.Series([1, 2])": "<Series (2,) [1, 2]>",
    "pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})": (
        "<DataFrame (2, 2) {'a': [1, 2], 'b': ['x', 'y']}>"
    ),
    "pd.Series([1, None], dtype='Int64')": "<Series (2,) [1, None]>",
    "pd.Series([True, None], dtype='boolean')": "<Series (2,) [True, None]>",
    "pd.Series(pd.to_datetime(['2024-03-01']).astype('M8[s]'))": (
        "<Series (1,) ['2024-03-01T00:00:00']>"
    ),
    "pd.Series(pd.to_datetime(['2024-03-01']).tz_localize('UTC'))": "<Series (1,)>",
    "pd.DataFrame({'a': pd.Series([1, None], dtype='Int64')})": (
        "<DataFrame (2, 1) {'a': [1, None]}>"
    ),
    "pd.DataFrame({'a': range(100)})": "<DataFrame (100, 1)>",
}
OF_POLARS = {
    "pl.DataFrame({'a': [1, 2]})": "<DataFrame (2, 1) {'a': [1, 2]}>",
    "pl.Series([1, 2])": "<Series (2,) [1, 2]>",
}


@pytest.mark.parametrize(
    ("library", "name", "values"),
    [("numpy", "np", OF_NUMPY), ("pandas", "pd", OF_PANDAS), ("polars", "pl", OF_POLARS)],
)
def test_values_of_libraries_are_shown(library: str, name: str, values: dict[str, str]) -> None:
    names = {name: pytest.importorskip(library)}
    shown = {text: render(eval(text, names)).removeprefix("np.") for text in values}
    assert shown == values


def test_tables_are_read_without_the_code_of_their_libraries() -> None:
    """It may have breakpoints; but for the shape, which is a property."""
    tables = {
        "pandas": "[x.Series([1]), x.DataFrame({'a': [1]}), x.Categorical(['a'])]",
        "polars": "[x.Series([1]), x.DataFrame({'a': [1]})]",
    }
    called: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and any(f"/{each}/" in frame.f_code.co_filename for each in tables):
            called.add(frame.f_code.co_name)

    for library, text in tables.items():
        for value in eval(text, {"x": pytest.importorskip(library)}):
            sys.setprofile(note)
            try:
                render(value)
            finally:
                sys.setprofile(None)
    assert called <= {"shape", "_values", "internal_values", "_block", "__len__"}


def test_an_ordered_dictionary_has_its_own_order() -> None:
    class Own(OrderedDict[str, int]):
        pass

    for cls in (OrderedDict, Own):
        held = cls(a=97, b=98, c=99)
        held.move_to_end("a")
        assert render(held) == f"{cls.__name__}({{'b': 98, 'c': 99, 'a': 97}})"
        held.move_to_end("c", last=False)
        assert [key for key, _ in items_of(held, DICT)] == ["c", "b", "a"]
        assert list(describe(held)["attributes"]) == ["['c']", "['b']", "['a']"]


def test_keys_of_the_program_are_not_hashed_to_find_their_order() -> None:
    """Nor to copy them; keys that C code hashes tell it, in tuples as well."""
    hashed = []

    class Key:
        def __hash__(self) -> int:
            hashed.append(self)
            return 1

        __eq__ = object.__eq__

    class Color(enum.Enum):
        RED = 1

    deep = ((((("a",),),),),)
    for odd in (Key(), Color.RED, (1, (Key(),)), deep):
        held: OrderedDict[Any, int] = OrderedDict({odd: 1, "b": 2})
        held.move_to_end(odd)
        hashed.clear()
        assert render(held).endswith("'b': 2} in unknown order)")
        assert [value for _, value in items_of(held, DICT)] == [1, 2]
        with pytest.raises(Unfit):
            reduction(held)
        assert hashed == []
    held = OrderedDict({(1, ("a",)): 1, object: 2, "b": 3})
    held.move_to_end((1, ("a",)))
    assert render(held) == "OrderedDict({<class 'object'>: 2, 'b': 3, (1, ('a',)): 1})"
    del held[object]
    assert fast_digest(held, 100_000, 60_000)


def work(a: int) -> None: ...


def test_calls_of_mocks_are_shown_as_they_show_themselves() -> None:
    mocked = mock.MagicMock()
    mocked.get("a", n=1)
    mocked("x")
    mocked.get().more(2)
    for value in (mocked.mock_calls[0], mocked.mock_calls[1], mocked.mock_calls[-1]):
        assert render(value) == repr(value)
    assert render(mock.call.get("a")) == "call.get('a')"
    assert render(mock.call) == "call"
    assert render(mock.create_autospec(work)) == f"<function {work.__name__} (mocked)>"


def test_what_a_library_keeps_in_each_object_comes_last() -> None:
    class Row:
        def __init__(self) -> None:
            self._sa_instance_state = object()
            self.id, self.session_id, self.password = 3, 42, 1234

    redactor = Redactor(environ={})
    shown = render(Row(), redactor=redactor)
    assert "Row(id=3, session_id=42, password=<redacted:" in shown
    assert shown.endswith(", _sa_instance_state=<object object>)")
    assert list(describe(Row(), redactor=redactor)["attributes"])[-1] == "_sa_instance_state"
    assert redactor.redact_text(shown) == shown
    assert "3f9a" not in redactor.redact_text("sessionid=3f9a8b7c6d5e4f3a")
    assert "1234567890" not in redactor.redact_text("sessionid=1234567890123")


def test_a_block_of_memory_that_is_too_large_is_not_pickled() -> None:
    for value in ("x" * 100, b"x" * 100):
        with pytest.raises(GivenUp):
            fast_digest(value, 99, 1_000)
        assert fast_digest(value, 200, 1_000).data


def test_a_large_array_is_not_pickled_wherever_it_is() -> None:
    array = pytest.importorskip("numpy").ones(1_000)
    for value in (array, [array], {"held": array}):
        with pytest.raises(GivenUp):
            dilled(value, 7_999, 1_000, lambda code: code)
    assert dilled([array], 9_000, 1_000, lambda code: code).data
