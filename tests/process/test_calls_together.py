"""Recorded calls of a batch, handled together: each says what it says by itself."""

from __future__ import annotations

import json
import random
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from pytest_cideldill.protocol import Event, Recorded, from_plain, to_plain
from pytest_cideldill.protocol.rows import Batch
from tests.process import called
from tests.process.called import COUNTS, FUNCTIONS, Item
from tests.process.debuggee import Debuggee
from tests.process.parts import Part

SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
"""By its shape."""

KNOWN = "x9-Kq7-zzT-41"
"""By a name that it had before."""

TEXTS = ["", "a", "lamp", "é", "\ud800", "a\nb", 'a "b"', "\\", "x" * 199, "x" * 300, "x" * 2_500]
ATOMS = [0, 1, True, False, None, 1.0, 0.0, -0.0, float("nan"), float("inf"), 10**18, -(10**40)]
OTHERS: list[Any] = [b"bytes", [1, 2], (), {"a": 1}, {1}, object, 1j, ..., Path("x")]


def call(function: Callable[..., Any], *values: Any) -> None:
    try:
        made = function(*values[: COUNTS.get(function, 1)])
        if function is called.yielding:
            list(made)
    except ValueError:
        return


@pytest.fixture
def process() -> Iterator[Debuggee]:
    yield from recording(keeps_objects=True)


@pytest.fixture
def without_ids() -> Iterator[Debuggee]:
    yield from recording(keeps_objects=False)


def recording(*, keeps_objects: bool) -> Iterator[Debuggee]:
    made = Debuggee(keeps_objects=keeps_objects)
    made.add(f"{called.__name__}.*", "go")
    yield made
    made.manager.release("stop")


def batches(process: Debuggee) -> list[Batch]:
    taken: list[Batch | Event] = list(process.rows.batches(process))
    return [each for each in taken if isinstance(each, Batch)]


def alone(batch: Batch) -> list[dict[str, Any]]:
    """The events of rows, each made by itself."""
    return [batch.formats.get(row[0], row[0])(row) for row in batch.rows]


def arrived(batch: Batch) -> list[dict[str, Any]]:
    """The rows that a front end gets."""
    message = from_plain(json.loads(json.dumps(to_plain(batch.event()))))
    assert isinstance(message, Recorded)
    return message.in_order()


def values(random_: random.Random) -> list[Any]:
    kinds: list[list[Any]] = [
        TEXTS,
        ATOMS,
        TEXTS + ATOMS,
        OTHERS + TEXTS + ATOMS,
        [SECRET, "lamp", KNOWN, 3],
    ]
    return random_.choices(random_.choice(kinds), k=3)


def assert_same(batch: Batch, folder: Path) -> None:
    """What a batch says is what its rows say, on the wire and in a file."""
    expected = alone(batch)
    assert arrived(batch) == expected
    part = Part(folder)
    part.writer.write(part.writer.lines(9.0, Batch(batch.rows, {}, batch.formats)))
    lines = part.lines
    part.writer.close()
    assert [line.pop("n") for line in lines] == list(range(1, len(lines) + 1))
    assert lines == [{"worker": "main", **json.loads(json.dumps(each))} for each in expected]
    part.path.unlink()


@pytest.mark.full
@pytest.mark.quick("process-3")
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", ["process", "without_ids"])
def test_calls_say_together_what_they_say_alone(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, seed: int
) -> None:
    """Of any functions, in any order, with any values, beside hits of other kinds."""
    process: Debuggee = request.getfixturevalue(kind)
    generator = random.Random(seed)
    chosen = generator.sample(FUNCTIONS, generator.randint(1, len(FUNCTIONS)))
    for _ in range(generator.choice([1, 3, 60, 300])):
        function, given = generator.choice(chosen), values(generator)
        if generator.random() < 0.3:
            call(function, *given)  # from another place
        else:
            call(function, *given)
    if seed % 3 == 0:
        thread = threading.Thread(target=call, args=(called.one, 1))
        thread.start()
        thread.join()
    taken = batches(process)
    for batch in taken:
        assert_same(batch, tmp_path)
    if sys.version_info >= (3, 12) and not set(chosen) <= {called.failing, called.named}:
        assert any(batch.calls for batch in taken)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there each call is passed on by itself")
def test_calls_of_a_kind_share_what_they_have_in_common(process: Debuggee) -> None:
    for number in range(100):
        called.one(number)
    (batch,) = batches(process)
    (calls,) = batch.calls
    assert (len(calls.at), calls.args) == (100, [list(map(str, range(100)))])


def test_secrets_are_hidden_in_calls_that_are_handled_together(
    process: Debuggee, tmp_path: Path
) -> None:
    """By their shape, by the name in a text, by the name of the argument, and when they are known
    from one of these.
    """
    called.login("eve", KNOWN)
    functions: list[Callable[..., Any]] = [
        called.one,
        called.two,
        called.login,
        called.get_token,
        called.many,
    ]
    for function, secret in product(functions, [SECRET, f"password={KNOWN}", KNOWN]):
        for number in range(40):
            call(function, *[secret if number % 7 == 3 else f"item {number}"] * 3)
        for batch in batches(process):
            written = json.dumps(arrived(batch))
            assert SECRET not in written
            assert KNOWN not in written
            part = Part(tmp_path)
            part.add(*batch.rows)
            part.writer.close()
            text = part.path.read_text()
            assert SECRET not in text
            assert KNOWN not in text
            part.path.unlink()


@pytest.mark.full
def test_what_a_sensitive_name_holds_is_hidden_whatever_it_is(process: Debuggee) -> None:
    """Also a number, which is hidden nowhere else."""
    for _ in range(20):
        called.login("eve", 48151623)
    (batch,) = batches(process)
    rows = arrived(batch)
    assert {row["pretty_args"][0] for row in rows} == {"'eve'"}
    assert not any("48151623" in row["pretty_args"][1] for row in rows)


@pytest.mark.full
def test_names_may_become_sensitive_in_the_middle(process: Debuggee) -> None:
    called.two("lamp", "secret-lamp-7")
    process.lens.redactor.extend(names=["right"])
    called.two("lamp", "secret-lamp-7")
    (batch,) = batches(process)
    first, second = (row["pretty_args"] for row in arrived(batch))
    assert first[0] == second[0] == "'lamp'"
    assert first[1] == "'secret-lamp-7'" or "redacted" in first[1]
    assert "redacted" in second[1]


@pytest.mark.full
def test_one_row_of_a_kind_is_enough(process: Debuggee, tmp_path: Path) -> None:
    called.one(Item(3))
    (batch,) = batches(process)
    assert_same(batch, tmp_path)
