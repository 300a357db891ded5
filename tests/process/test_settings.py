"""Command line and ini file → `Settings` (contract, section 9)."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import pytest

from pytest_cideldill import settings
from pytest_cideldill.settings import Settings


def test_without_options_everything_has_the_default_of_the_contract(
    pytester: pytest.Pytester,
) -> None:
    """Contract, section 9."""
    assert settings.read(pytester.parseconfig()) == Settings("manual", "full", 1800.0)


def test_the_command_line_beats_the_ini_file(pytester: pytest.Pytester) -> None:
    """Contract, section 9: "the command line beats ini"."""
    pytester.makeini("[pytest]\ncideldill_lease = 7\ncideldill_tools = plan\n")
    config = pytester.parseconfig("--cideldill-lease=60", "--cideldill-start=run")
    assert settings.read(config) == Settings("run", "plan", 60.0)


def test_a_malformed_ini_value_is_named_as_written_there(pytester: pytest.Pytester) -> None:
    """Style, rule 6: an error names the thing."""
    pytester.makeini("[pytest]\ncideldill_lease = soon\n")
    with pytest.raises(ValueError, match=r"^cideldill_lease: 'soon' is not a number of seconds$"):
        settings.read(pytester.parseconfig())


@pytest.mark.parametrize("lease", ["0", "-1", "nan", "inf", "1e9", "", "1,5"])
def test_a_lease_is_a_positive_number_of_seconds(pytester: pytest.Pytester, lease: str) -> None:
    """Waits take finite numbers; a pause that ends at once would be none."""
    with pytest.raises(ValueError, match=r"^--cideldill-lease: "):
        settings.read(pytester.parseconfig(f"--cideldill-lease={lease}"))


def test_our_options_are_taken_out_of_pytests_arguments() -> None:
    """The runs get the other arguments, in their order, whatever they look like."""
    given = ["-k", "a b", "--cideldill-mcp", "--cideldill-lease", "60", "x.py", "--tb=no"]
    chosen, rest = settings.split([*given, "--cideldill-start=run"])
    assert chosen == Settings("run", "full", 60.0)
    assert rest == ["-k", "a b", "x.py", "--tb=no"]


@pytest.mark.parametrize("option", settings.OPTIONS, ids=lambda option: option.name)
def test_an_option_without_a_value_is_named(option: settings.Option) -> None:
    """Where no pytest parses the arguments, nobody else would tell."""
    with pytest.raises(ValueError, match=f"^{option.flag}: ''"):
        settings.split([option.flag])


def test_every_field_has_an_option_and_crosses_to_the_front_end_as_plain_data() -> None:
    """One table per closed set: a field that is left out would be lost at the hand-over."""
    fields = {field.name for field in dataclasses.fields(Settings)}
    assert {option.field for option in settings.OPTIONS} == fields
    chosen = Settings("run", "plan", 12.5)
    assert Settings.from_plain(json.loads(json.dumps(chosen.to_plain()))) == chosen


def test_a_conflict_is_told_as_it_is_written_on_the_command_line() -> None:
    """Style, rule 6; plugins that are not installed have no such attribute."""
    known = SimpleNamespace(usepdb=False, trace=True)
    told = settings.conflict(known, settings.NOT_IN_RUNS)
    assert told == "--trace can't be used with --cideldill-mcp: it reads the terminal"
    assert settings.conflict(SimpleNamespace(), settings.NOT_IN_RUNS) is None
