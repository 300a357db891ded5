"""`docs/record_format.md` is true: its tables are made from the code, its commands are run.

`CIDELDILL_WRITE_DOCS=1 pytest tests/test_record_format.py` writes the types of lines and the schema
anew. Real records are held against them.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import textwrap
from typing import Any

import jsonschema
import pytest

from pytest_cideldill.config.limits import DEFAULTS
from pytest_cideldill.records.format import ROW_TYPES
from pytest_cideldill.records.quota import MAX_ROWS, MAX_ROWS_PER_S
from tests.record_schema import ROWS, keys_by_type, whole_schema, written
from tests.test_docs import ROOT
from tests.test_docs import written as as_written
from tests.together.records import Recorded, recorded

PAGE = ROOT / "docs" / "record_format.md"
SCHEMA = ROOT / "docs" / "record_format.schema.json"
BEGIN = "<!-- types: made by tests/test_record_format.py -->\n"
END = "<!-- end of types -->"

TILL = """
def total(prices):
    amount = 0
    for price in prices:
        amount += price
    return amount
"""

TEST = """
import logging, warnings
import pytest
from till import total

@pytest.mark.parametrize("count", [1, 2])
def test_total(count):
    assert total([2] * count) == 2 * count

def test_wrong():
    print("out")
    logging.getLogger("till").error("log")
    assert total([1, 2]) == 4

def test_raises():
    with pytest.raises(TypeError):
        total(["x"])

@pytest.fixture
def broken():
    raise OSError("no till")

def test_error(broken): pass

def test_later():
    pytest.skip("later")

@pytest.mark.xfail
def test_expected():
    assert total([]) == 1
"""

OPTIONS = (
    "--cideldill-trace=till.py:5 if price > 1 => price={price} amount={amount}",
    "--cideldill-trace=till.py:6=amount={amount}",
    "--cideldill-trace=till.py:3 if nobody => x",
    "--cideldill-record-calls=till.*",
)


def types_reported() -> str:
    """The section of the page: a table of keys for each type."""
    classes, parts = written(), []
    for type, keys in keys_by_type().items():
        text = ROWS[type][0] if type in ROWS else _first_sentence(classes[type])
        rows = [f"| `{name}` | {_words(schema)} |" for name, schema in keys.items()]
        table = ["| key | JSON |", "|---|---|", *rows]
        parts.append("\n".join([f"### `{type}`", "", text, *(["", *table] if rows else [])]))
    return "\n\n".join(parts) + "\n\n"


def _first_sentence(cls: type[Any]) -> str:
    paragraph = (cls.__doc__ or "").split("\n\n")[0]
    return re.sub(r"(`(?:ts|kind)`:[^.]*\.)", "", " ".join(paragraph.split())).strip()


def _words(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(map(_words, schema["anyOf"]))
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " or ".join(f"`{json.dumps(each)}`" for each in values)
    kind = schema.get("type", "any")
    if kind == "array":
        return f"array of {_words(schema['items'])}"
    if kind == "object" and (names := schema.get("properties")):
        return f"object: {', '.join(f'`{name}`' for name in names)}"
    if kind == "object" and schema.get("additionalProperties"):
        return f"object of {_words(schema['additionalProperties'])}"
    return str(kind)


def test_the_types_of_lines_on_the_page_are_those_that_are_written() -> None:
    """With their keys."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    page = f"{before}{BEGIN}\n{types_reported()}{END}{after}"
    assert as_written(PAGE, page) == page, __doc__


def test_the_schema_is_that_of_what_is_written() -> None:
    """It allows for keys and types of later versions."""
    schema = whole_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    text = json.dumps(schema, indent=1) + "\n"
    assert as_written(SCHEMA, text) == text, __doc__


def test_the_limits_on_the_page_are_those_that_hold() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert f"{MAX_ROWS:,} lines" in page
    assert f"{MAX_ROWS_PER_S:,} in any second" in page
    assert f"{DEFAULTS.max_log_bytes >> 20} MiB" in page


@pytest.fixture(scope="module", params=[(), ("-n2",)], ids=["alone", "n2"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A run with lines of many types."""
    project = tmp_path_factory.mktemp("shop")
    for name, text in {"till.py": TILL, "test_till.py": TEST, "conftest.py": ""}.items():
        (project / name).write_text(textwrap.dedent(text))
    return recorded(project, *OPTIONS, *request.param)


@pytest.mark.full
def test_the_lines_of_real_records_are_valid(run: Recorded) -> None:
    """Of the strict schema: no key and no type is left untold."""
    validator = jsonschema.Draft202012Validator(whole_schema(strict=True))
    for line in run.events:
        assert [each.message for each in validator.iter_errors(line)] == [], line
        assert list(line)[:4] == ["n", "ts", "type", "worker"]
    types = {each["type"] for each in run.events}
    reported = (
        "worker_up collected test_started test_phase test_outcome hit call add_line run_finished"
    )
    assert types >= {*reported.split(), "worker_down"}


@pytest.mark.full
def test_the_numbers_of_each_process_have_no_gap(run: Recorded) -> None:
    """Where nothing was dropped."""
    for worker in {each["worker"] for each in run.events}:
        numbers = [each["n"] for each in run.events if each["worker"] == worker]
        assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.full
def test_a_line_that_is_none_is_not_valid(run: Recorded) -> None:
    """The schema can tell."""
    validator = jsonschema.Draft202012Validator(whole_schema())
    hit = run.of("hit")[0]
    assert validator.is_valid(hit | {"of_a_later_version": 1})
    assert validator.is_valid(hit | {"type": "of_a_later_version"})
    damages: list[dict[str, Any]] = [
        {"n": 0},
        {"ts": "now"},
        {"location": {}},
        {"thread": None},
        {"type": 1},
    ]
    for broken in damages:
        assert not validator.is_valid(hit | broken)
    assert not validator.is_valid({name: each for name, each in hit.items() if name != "message"})


@pytest.mark.full
def test_the_manifest_reports_what_is_in_the_record(run: Recorded) -> None:
    """And `run.json` the same of its run."""
    manifest = json.loads((run.record / "manifest.json").read_text())
    assert manifest["format"] == 1
    (reported,) = manifest["runs"]
    assert reported == json.loads((run.run / "run.json").read_text())
    assert reported["hits"] == len(run.of("hit"))
    assert reported["calls"] == len(run.of("call"))
    assert reported["events"] == len(run.events)
    assert (reported["dropped"], reported["cut_off"], reported["exit_code"]) == (0, [], 1)
    assert reported["outcomes"] == {
        "error": 1,
        "failed": 1,
        "passed": 3,
        "skipped": 1,
        "xfailed": 1,
    }


(COMMANDS,) = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.full
@pytest.mark.parametrize(
    ("command", "found"),
    list(
        zip(
            COMMANDS.splitlines(),
            [
                r'"message":"price=2 amount=0"',
                r"test_till\.py::test_wrong",
                r"price=2 amount=0\nprice=2 amount=",
                r'"dropped": 0',
            ],
            strict=True,
        )
    ),
)
def test_the_commands_of_the_page_find_something(run: Recorded, command: str, found: str) -> None:
    """With grep and jq."""
    tool = command.split()[0]
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    done = subprocess.run(
        ["sh", "-c", command.replace("DIR", "rec")],
        cwd=run.record.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search(found, done.stdout), done.stdout


def test_rows_are_checked_for_what_the_schema_says_of_them() -> None:
    """Of each key whether it is needed; the two say the same types in their own words."""
    for type, checked in ROW_TYPES.items():
        _, reported = ROWS[type]
        assert {key.rstrip("?") for key in checked} <= {key.rstrip("?") for key in reported}
        needed = {key for key in checked if not key.endswith("?")}
        assert needed <= {key for key in reported if not key.endswith("?")}, type
