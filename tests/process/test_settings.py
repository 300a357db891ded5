"""Command line and ini file → `Settings`."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import pytest

from pytest_cideldill.config import options, settings
from pytest_cideldill.config.limits import BOUNDS, Limits
from pytest_cideldill.config.settings import Settings
from tests.each_case import for_each


@pytest.fixture(autouse=True)
def no_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are installed take longer to load than all else."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_cideldill.plugin")


def test_without_options_everything_has_its_default(
    pytester: pytest.Pytester,
) -> None:
    assert settings.read(pytester.parseconfig()) == Settings("manual", "full", 1800.0)


def test_the_command_line_beats_the_ini_file(pytester: pytest.Pytester) -> None:
    """The command line beats the ini file."""
    pytester.makeini("[pytest]\ncideldill_lease = 7\ncideldill_tools = plan\n")
    config = pytester.parseconfig("--cideldill-lease=60", "--cideldill-start=run")
    assert settings.read(config) == Settings("run", "plan", 60.0)


def test_a_malformed_ini_value_is_named_as_written_there(pytester: pytest.Pytester) -> None:
    """An error names the thing."""
    pytester.makeini("[pytest]\ncideldill_lease = soon\n")
    with pytest.raises(ValueError, match=r"^cideldill_lease: 'soon' is not a number of seconds$"):
        settings.read(pytester.parseconfig())


@pytest.mark.full
@pytest.mark.quick("0", "nan", "1,5")
@pytest.mark.parametrize("lease", ["0", "-1", "nan", "inf", "1e9", "", "1,5"])
def test_a_lease_is_a_positive_number_of_seconds(pytester: pytest.Pytester, lease: str) -> None:
    """Waits take finite numbers; a pause that ends at once would be none."""
    with pytest.raises(ValueError, match=r"^--cideldill-lease: "):
        settings.read(pytester.parseconfig(f"--cideldill-lease={lease}"))


def test_the_time_of_fixtures_may_be_none_but_not_less() -> None:
    """Half a minute, if nothing is said."""
    assert Settings().grace_s == 30
    assert settings.split(["--cideldill-grace=0"])[0].grace_s == 0
    assert settings.split(["-o", "cideldill_grace=2.5"])[0].grace_s == 2.5
    for given in ("-1", "nan", "inf", "1m", ""):
        with pytest.raises(ValueError, match=r"^--cideldill-grace: "):
            settings.split([f"--cideldill-grace={given}"])


@for_each(
    ("given", "reported"),
    [
        ("192.0.2.7", "192.0.2.7:0"),
        ("192.0.2.7:7007", "192.0.2.7:7007"),
        ("build-7.example", "build-7.example:0"),
        ("localhost:7007", "localhost:7007"),
        ("::1", "[::1]:0"),
        ("[2001:db8::7]:7007", "[2001:db8::7]:7007"),
    ],
)
def test_an_address_for_other_machines_has_a_port_or_gets_any(given: str, reported: str) -> None:
    """`--cideldill-bind=HOST`; a tunnel needs to know the port."""
    assert settings.split([f"--cideldill-bind={given}"])[0].bind == reported


@for_each(
    "given", ["", "*", "0.0.0.0", "::", "[::]:7", "a b", "h:", "h:x", "h:65536", ":7", "[h", "a/b"]
)
def test_what_is_no_address_that_could_be_given_to_others_is_refused(given: str) -> None:
    """A worker must know where to dial in: "all addresses" is none."""
    with pytest.raises(ValueError, match=r"^--cideldill-bind: "):
        settings.split([f"--cideldill-bind={given}"])


def test_our_options_are_taken_out_of_pytests_arguments() -> None:
    """The runs get the other arguments, in their order, whatever they look like."""
    given = ["-k", "a b", "--cideldill-mcp", "--cideldill-lease", "60", "x.py", "--tb=no"]
    chosen, rest = settings.split([*given, "--cideldill-no-redact", "--cideldill-start=run"])
    assert chosen == Settings("run", "full", 60.0, no_redact=True, stdio=True)
    assert rest == ["-k", "a b", "x.py", "--tb=no"]


@for_each(
    ("address", "meant"),
    [
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("localhost:8080", "127.0.0.1:8080"),
        ("127.8.9.1:65535", "127.8.9.1:65535"),
        ("[::1]:80", "[::1]:80"),
        ("::1:80", "[::1]:80"),
    ],
)
def test_an_address_is_one_of_this_machine_alone(address: str, meant: str) -> None:
    """Loopback only. An address alone switches serving on."""
    chosen, rest = settings.split([f"--cideldill-http-address={address}"])
    assert (chosen, rest) == (Settings(http=True, http_address=meant), [])


@for_each(
    "address",
    ["0.0.0.0:80", "[::]:80", "10.0.0.1:80", "example.org:80", "localhost.example.org:80", ":80"],
)
def test_an_address_that_others_reach_is_refused_with_the_way_out(address: str) -> None:
    """Other machines come through a tunnel."""
    with pytest.raises(ValueError, match=r"this machine alone, as 127\.0\.0\.1:PORT.*tunnel: ssh"):
        settings.split(["--cideldill-http-address", address])


@for_each(
    "address", ["", "8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "[::1]"]
)
def test_an_address_has_a_host_and_a_port(address: str) -> None:
    with pytest.raises(ValueError, match=r"^--cideldill-http-address: .* is not HOST:PORT, as"):
        settings.split(["--cideldill-http-address", address])


VALUED = [
    each for each in options.OPTIONS if each.metavar and not each.bare and each.place != "ini file"
]


@for_each("option", VALUED)
def test_an_option_without_a_value_is_named(option: options.Option) -> None:
    """Where no pytest parses the arguments, nobody else would tell."""
    with pytest.raises(ValueError, match=f"^{option.flag}: ''"):
        settings.split([option.flag])


def test_every_field_has_an_option_and_crosses_to_the_front_end_as_plain_data() -> None:
    """One table per closed set: a field that is left out would be lost at the hand-over."""
    fields = [field.name for kind in (Settings, Limits) for field in dataclasses.fields(kind)]
    given = [option.field for option in options.OPTIONS]
    assert sorted([*given, "limits"]) == sorted(fields)
    lists = ("a.py:1=x",), ("a.*",), ("b",), ("c",), ("d",)
    chosen = Settings("run", "plan", 12.5, "rec", "sum.md", *lists, True, ("../l",), bind="h:1")
    chosen = dataclasses.replace(chosen, limits=Limits(max_items=7))
    assert Settings.from_plain(json.loads(json.dumps(chosen.to_plain()))) == chosen


def test_what_is_hidden_and_cut_is_read_from_the_ini_file(pytester: pytest.Pytester) -> None:
    """Names, patterns with blanks in them, numbers."""
    pytester.makeini(
        r"""
        [pytest]
        cideldill_redact_names = customer_id "tax number"
            iban
        cideldill_redact_patterns =
            order \d+, \w+
            CUST-\d{6}
        cideldill_no_redact = yes
        cideldill_max_items = 5
        """
    )
    assert settings.read(pytester.parseconfig()) == Settings(
        redact_names=("customer_id", "tax number", "iban"),
        redact_patterns=(r"order \d+, \w+", r"CUST-\d{6}"),
        no_redact=True,
        limits=Limits(max_items=5),
    )


@pytest.mark.parametrize("table", ["tool.pytest.ini_options", "tool.pytest"])
def test_pyproject_holds_numbers_truths_and_lists_as_they_are(
    pytester: pytest.Pytester, table: str
) -> None:
    """pytest 9 knows native values in `[tool.pytest]`; before 9.2 plugins can't ask for them."""
    if table == "tool.pytest" and pytest.version_tuple < (9, 2):
        pytest.skip("unknown to this pytest")
    pytester.makepyprojecttoml(
        f"""
        [{table}]
        cideldill_lease = 60
        cideldill_no_redact = true
        cideldill_max_items = 5
        cideldill_redact_names = ["customer_id"]
        cideldill_redact_patterns = ['CUST-\\d+']
        """
    )
    chosen = settings.read(pytester.parseconfig())
    assert (chosen.lease_s, chosen.no_redact, chosen.limits.max_items) == (60.0, True, 5)
    assert (chosen.redact_names, chosen.redact_patterns) == (("customer_id",), (r"CUST-\d+",))


@pytest.mark.full
@pytest.mark.quick("redact_names = _*", "redact_patterns*", "max_items = many*")
@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ("redact_names = iban,name", "'iban,name' is no name as customer_id"),
        ("redact_names = _", "'_' is no name: it has no letter and no digit"),
        ("redact_names = it's", "No closing quotation"),
        ("redact_patterns = a(b", "'a(b' is no regular expression: missing )"),
        ("no_redact = maybe", "'maybe' is neither true nor false"),
        ("max_items = many", "'many' is not a whole number from 1 to 10000"),
        ("max_items = 0", "'0' is not a whole number from 1 to 10000"),
        ("max_depth = -1", "'-1' is not a whole number from 1 to 20"),
        ("capture_ms = 1.5", "'1.5' is not a whole number from 1 to 60000"),
        ("max_log_bytes = 1", "'1' is not a whole number from 65536 to"),
    ],
)
def test_a_malformed_option_is_named_with_what_is_right(
    pytester: pytest.Pytester, line: str, reported: str
) -> None:
    pytester.makeini(f"[pytest]\ncideldill_{line}\n")
    with pytest.raises(ValueError, match=r"^cideldill_") as raised:
        settings.read(pytester.parseconfig())
    name = line.partition(" ")[0]
    assert str(raised.value).startswith(f"cideldill_{name}: {reported}")


def test_every_limit_has_bounds_that_hold_its_default() -> None:
    """The defaults."""
    defaults = dataclasses.asdict(Limits())
    assert list(defaults.values()) == [3, 100, 100, 200, 10, 40, 50, 2**20, 256 * 2**20]
    assert defaults.keys() == BOUNDS.keys()
    assert all(BOUNDS[name][0] <= value <= BOUNDS[name][1] for name, value in defaults.items())


def test_a_conftest_may_have_our_hook_where_nothing_is_debugged(pytester: pytest.Pytester) -> None:
    """pytest refuses unknown hooks at collection; ours is known, and not called."""
    pytester.makeconftest("def pytest_cideldill_redact(config): raise LookupError\n")
    pytester.makepyfile("def test_it(): pass\n")
    result = pytester.runpytest_inprocess("-p", "no:asyncio")
    result.assert_outcomes(passed=1)


def test_a_conflict_is_shown_as_it_is_written_on_the_command_line() -> None:
    """Plugins that are not installed have no such attribute."""
    known = SimpleNamespace(usepdb=False, trace=True)
    reported = options.conflict(known, options.NOT_IN_RUNS)
    assert reported == "--trace can't be used with --cideldill-mcp: it reads the terminal"
    assert options.conflict(SimpleNamespace(), options.NOT_IN_RUNS) is None


@for_each(
    "given",
    [
        ["-o", "cideldill_max_log_bytes=70000"],
        ["-ocideldill_max_log_bytes=70000"],
        ["--override-ini=cideldill_max_log_bytes=70000"],
        ["-o", "cideldill_max_log_bytes=80000", "--override-ini", "cideldill_max_log_bytes=70000"],
    ],
)
def test_ini_options_of_the_command_line_count_without_pytest_and_stay(given: list[str]) -> None:
    """`cideldill-mcp … -- -o NAME=VALUE`: there is no other way to say it there."""
    others = ["-o", "addopts=-x", "cideldill_max_log_bytes=90000"]  # the last one is a file
    chosen, rest = settings.split([*given, *others])
    assert chosen.limits.max_log_bytes == 70_000
    assert rest == [*given, *others]


def test_what_an_ini_option_of_the_command_line_says_is_checked_and_comes_second() -> None:
    """Several values as in a file; the option itself counts first."""
    lists = ["-o", "cideldill_redact_names='loyalty card' iban", "-o", "cideldill_start=run"]
    chosen, _ = settings.split([*lists, "--cideldill-start=manual"])
    assert chosen.redact_names == ("loyalty card", "iban")
    assert chosen.start == "manual"
    with pytest.raises(ValueError, match="cideldill_max_log_bytes: '5' is not a whole number"):
        settings.split(["-o", "cideldill_max_log_bytes=5"])
