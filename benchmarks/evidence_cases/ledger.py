"""Bookkeeping: a journal of postings in several currencies, imports, reports."""

from __future__ import annotations

from typing import Final

from benchmarks.evidence_cases.cases import INI, Case, MadeUp
from tests.together.real_package import Breakage

FILES: Final = {
    "pytest.ini": INI,
    "ledger/__init__.py": "",
    "ledger/money.py": '''
"""Amounts in cents."""

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal


@dataclass(frozen=True)
class Money:
    cents: int
    currency: str = "EUR"

    def __add__(self, other):
        if other.currency != self.currency:
            raise ValueError(f"can't add {other.currency} to {self.currency}")
        return Money(self.cents + other.cents, self.currency)

    def __neg__(self):
        return Money(-self.cents, self.currency)

    def __str__(self):
        sign = "-" if self.cents < 0 else ""
        whole, rest = divmod(abs(self.cents), 100)
        return f"{sign}{whole}.{rest:02d} {self.currency}"


def from_text(text, currency="EUR"):
    amount = Decimal(text.replace(",", "").strip())
    return Money(int((amount * 100).to_integral_value(ROUND_HALF_EVEN)), currency)


def scaled(money, factor, currency=None):
    cents = (Decimal(money.cents) * Decimal(str(factor))).to_integral_value(ROUND_HALF_EVEN)
    return Money(int(cents), currency or money.currency)


def shares(money, weights):
    """Parts of an amount; what rounding leaves over goes to the first ones."""
    total = sum(weights)
    parts = [money.cents * weight // total for weight in weights]
    left = money.cents - sum(parts)
    for at in range(left):
        parts[at % len(parts)] += 1
    return [Money(cents, money.currency) for cents in parts]
''',
    "ledger/fx.py": '''
"""Exchange rates."""

from ledger.money import scaled


class RateTable:
    """Rates to EUR by currency and day; the newest that is not after the day counts."""

    def __init__(self, rows):
        self._rows = sorted(rows)
        self._known = {}
        self.lookups = 0

    def rate(self, currency, day):
        if currency == "EUR":
            return 1
        key = (currency, day)
        if key not in self._known:
            self._known[key] = self._search(currency, day)
        return self._known[key]

    def _search(self, currency, day):
        self.lookups += 1
        found = None
        for since, name, rate in self._rows:
            if since > day:
                break
            if name == currency:
                found = rate
        if found is None:
            raise LookupError(f"no rate of {currency} on {day}")
        return found


def to_euro(money, day, table):
    return scaled(money, table.rate(money.currency, day), "EUR")
''',
    "ledger/journal.py": '''
"""Entries and postings."""

from dataclasses import dataclass, field
from itertools import count

from ledger.money import Money, shares


@dataclass
class Posting:
    account: str
    amount: Money
    note: str = ""


@dataclass
class Entry:
    number: int
    day: str
    text: str
    postings: list = field(default_factory=list)

    def is_balanced(self):
        sums = {}
        for posting in self.postings:
            currency = posting.amount.currency
            sums[currency] = sums.get(currency, 0) + posting.amount.cents
        return not any(sums.values())


class Journal:
    def __init__(self):
        self.entries = []
        self._numbers = count(1)

    def add(self, day, text, postings):
        entry = Entry(next(self._numbers), day, text, list(postings))
        if not entry.is_balanced():
            raise ValueError(f"entry {entry.number} on {day} is not balanced: {text}")
        self.entries.append(entry)
        return entry

    def transfer(self, day, text, source, target, amount):
        return self.add(day, text, [Posting(target, amount), Posting(source, -amount)])

    def allocate(self, day, text, source, targets, amount):
        """Spread an amount over accounts by weight."""
        names = sorted(targets)
        parts = shares(amount, [targets[name] for name in names])
        postings = [Posting(name, part) for name, part in zip(names, parts)]
        return self.add(day, text, [*postings, Posting(source, -amount)])

    def by_account(self):
        found = {}
        for entry in self.entries:
            for posting in entry.postings:
                found.setdefault(posting.account, []).append((entry, posting))
        return found


class Recurring:
    """A standing order: the same postings each month, with its own notes."""

    def __init__(self, text, postings):
        self.text = text
        self._postings = list(postings)

    def occurrence(self, journal, day, note=""):
        postings = [Posting(each.account, each.amount) for each in self._postings]
        entry = journal.add(day, self.text, postings)
        for posting in entry.postings:
            posting.note = note
        return entry
''',
    "ledger/imports.py": '''
"""Statements of banks, as text."""

from dataclasses import dataclass, field

from ledger.journal import Posting
from ledger.money import from_text


@dataclass
class Statement:
    account: str = ""
    currency: str = "EUR"
    rows: list = field(default_factory=list)
    skipped: list = field(default_factory=list)


class StatementReader:
    """`account NAME [CURRENCY]` begins a section; then `DAY;TEXT;AMOUNT` lines."""

    def __init__(self):
        self.statements = []
        self._open = None

    def read(self, text):
        for number, line in enumerate(text.splitlines(), 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            if line.startswith("account "):
                self._begin(line)
            else:
                self._row(number, line)
        return self.statements

    def _begin(self, line):
        _, name, *rest = line.split()
        self._open = Statement(name)
        if rest:
            self._open.currency = checked_currency(rest[0])
        self.statements.append(self._open)

    def _row(self, number, line):
        try:
            day, text, amount = line.split(";")
            money = from_text(amount, self._open.currency)
        except (ValueError, ArithmeticError) as error:
            self._open.skipped.append((number, str(error)))
            return
        self._open.rows.append((day, text.strip(), money))


def checked_currency(text):
    code = text.upper()
    if len(code) != 3 or not code.isalpha():
        raise ValueError(f"{text!r} is no currency")
    return code


def book(journal, statements, rules):
    """Add entries for the rows; the first rule whose word stands in the text names the account."""
    booked = 0
    for statement in statements:
        for day, text, money in statement.rows:
            other = account_for(text, rules)
            postings = [Posting(statement.account, money), Posting(other, -money)]
            journal.add(day, text, postings)
            booked += 1
    return booked


def account_for(text, rules):
    lowered = text.lower()
    for word, account in rules:
        if word in lowered:
            return account
    return "unsorted"
''',
    "ledger/reports.py": '''
"""Balances, monthly totals, a statement as text."""

from collections import defaultdict

from ledger.fx import to_euro
from ledger.money import Money


def balances(journal, table):
    """Account → cents in EUR, at the rate of each entry's day."""
    totals = defaultdict(int)
    for account, found in journal.by_account().items():
        for entry, posting in found:
            totals[account] += to_euro(posting.amount, entry.day, table).cents
    return dict(totals)


def monthly(journal, account, table):
    totals = {}
    for entry, posting in journal.by_account().get(account, []):
        month = entry.day[:7]
        amount = to_euro(posting.amount, entry.day, table)
        totals[month] = totals.get(month, Money(0)) + amount
    return totals


def statement(journal, account):
    lines = []
    for entry, posting in journal.by_account().get(account, []):
        note = f" ({posting.note})" if posting.note else ""
        lines.append(f"{entry.day} {entry.text}{note}: {posting.amount}")
    return lines
''',
    "tests/test_journal.py": """
import pytest

from ledger.journal import Journal, Posting, Recurring
from ledger.money import Money, from_text, shares
from ledger.reports import statement


@pytest.fixture
def journal():
    return Journal()


def rent():
    return Recurring("rent", [Posting("flat", Money(90000)), Posting("bank", Money(-90000))])


def test_transfer(journal):
    journal.transfer("2024-01-02", "cash", "bank", "wallet", Money(5000))
    assert statement(journal, "wallet") == ["2024-01-02 cash: 50.00 EUR"]


def test_unbalanced(journal):
    with pytest.raises(ValueError, match="not balanced"):
        journal.add("2024-01-02", "x", [Posting("a", Money(1))])


def test_text():
    assert str(from_text("1,234.5")) == "1234.50 EUR"
    assert str(from_text("-0.05")) == "-0.05 EUR"


def test_shares():
    assert [each.cents for each in shares(Money(100), [1, 1])] == [50, 50]
    assert [each.cents for each in shares(Money(90), [1, 2])] == [30, 60]


def test_allocation(journal):
    weights = {"water": 3, "power": 2, "waste": 2}
    entry = journal.allocate("2024-03-01", "house", "bank", weights, Money(100_00))
    assert entry.is_balanced()
    found = {each.account: each.amount.cents for each in entry.postings}
    assert found == {"power": 2858, "waste": 2857, "water": 4285, "bank": -10000}


def test_recurring_once(journal):
    rent().occurrence(journal, "2024-01-01", "January")
    assert statement(journal, "flat") == ["2024-01-01 rent (January): 900.00 EUR"]


def test_recurring_twice(journal):
    order = rent()
    for day, note in (("2024-01-01", "January"), ("2024-02-01", "February")):
        order.occurrence(journal, day, note)
    assert statement(journal, "flat") == [
        "2024-01-01 rent (January): 900.00 EUR",
        "2024-02-01 rent (February): 900.00 EUR",
    ]
""",
    "tests/test_reports.py": '''
import pytest

from ledger.fx import RateTable, to_euro
from ledger.imports import StatementReader, book
from ledger.journal import Journal
from ledger.money import Money
from ledger.reports import balances, monthly

RATES = [("2024-01-01", "USD", "0.90"), ("2024-02-01", "USD", "0.95"), ("2024-01-01", "GBP", "1.2")]
RULES = [("rent", "flat"), ("market", "food"), ("salary", "income")]

BANK = """
account giro
2024-01-03;market;-12.30
2024-01-25;Salary January;2,500.00
# the bank writes fees like this
2024-01-31;fee;-
2024-02-01;market;-20.00
account travel usd
2024-01-10;market;-100.00
2024-02-10;market;-100.00
"""


@pytest.fixture
def table():
    return RateTable(RATES)


@pytest.fixture
def journal():
    made = Journal()
    book(made, StatementReader().read(BANK), RULES)
    return made


def test_rate(table):
    assert to_euro(Money(1000, "USD"), "2024-01-15", table) == Money(900)


def test_rate_is_kept(table):
    for _ in range(3):
        table.rate("USD", "2024-01-15")
    assert table.lookups == 1


def test_no_rate(table):
    with pytest.raises(LookupError):
        table.rate("USD", "2023-12-31")


def test_skipped():
    giro, travel = StatementReader().read(BANK)
    assert len(giro.rows) == 3
    assert [number for number, _ in giro.skipped] == [6]
    assert travel.skipped == []


def test_bad_currency():
    with pytest.raises(ValueError, match="no currency"):
        StatementReader().read("account giro euros")


def test_a_section_with_a_bad_row():
    text = "account a usd\\n2024-01-03;x;1\\nbroken\\n2024-01-04;y;2\\n"
    (found,) = StatementReader().read(text)
    assert [str(money) for _, _, money in found.rows] == ["1.00 USD", "2.00 USD"]


def test_balances(journal, table):
    found = balances(journal, table)
    assert found["giro"] == 246_770
    assert found["travel"] == -18_500


def test_monthly_food(journal, table):
    assert monthly(journal, "food", table) == {"2024-01": Money(10230), "2024-02": Money(11500)}


def test_monthly_income(journal, table):
    assert monthly(journal, "income", table) == {"2024-01": Money(-250_000)}
''',
}

LEDGER: Final = MadeUp("ledger_app", FILES)

CASES: Final = (
    Case(
        "ledger-alias",
        "aliasing",
        LEDGER,
        Breakage(
            "Recurring.occurrence",
            "ledger/journal.py",
            "postings = [Posting(each.account, each.amount) for each in self._postings]",
            "postings = list(self._postings)",
        ),
        "tests/test_journal.py::test_recurring_twice",
    ),
    Case(
        "ledger-cache",
        "stale cache",
        LEDGER,
        Breakage(
            "RateTable.rate",
            "ledger/fx.py",
            "key = (currency, day)",
            "key = currency, day[:4]",
        ),
        "tests/test_reports.py::test_monthly_food",
    ),
    Case(
        "ledger-swallowed",
        "swallowed exception, state left behind",
        LEDGER,
        Breakage(
            "StatementReader._row",
            "ledger/imports.py",
            """            day, text, amount = line.split(";")
            money = from_text(amount, self._open.currency)
        except (ValueError, ArithmeticError) as error:
            self._open.skipped.append((number, str(error)))
            return
""",
            """            section, self._open = self._open, Statement()
            day, text, amount = line.split(";")
            money = from_text(amount, section.currency)
            self._open = section
        except (ValueError, ArithmeticError) as error:
            self.statements[-1].skipped.append((number, str(error)))
            return
""",
        ),
        "tests/test_reports.py::test_balances",
    ),
    Case(
        "ledger-rounding",
        "rounding",
        LEDGER,
        Breakage(
            "shares",
            "ledger/money.py",
            "parts = [money.cents * weight // total for weight in weights]",
            "parts = [round(money.cents * weight / total) for weight in weights]",
        ),
        "tests/test_journal.py::test_allocation",
    ),
)
