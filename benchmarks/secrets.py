"""What the hiding of secrets finds, and what it costs: `python -m benchmarks.secrets`.

The first part runs the corpus of `tests/corpus`, recorded and served, and names each secret that
was shown and each harmless value that was hidden. The second one takes the time of texts: ordinary
ones, and such as are made to be slow; of these it shows whether twice as much takes twice as long.
It stops to make them longer where one takes more than half a second. Medians; asserts nothing.
`--only texts` gives the texts of the corpus to the redactor and starts nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from benchmarks.spine import versions
from pytest_cideldill.redaction.redactor import Redactor
from tests.corpus.cases import MIXED
from tests.corpus.measured import measure, measure_texts

ROOT: Final = Path(__file__).parents[1]
SIZES: Final = (1_000, 10_000, 1_000_000)
LONG_S: Final = 0.5
"""A text that takes longer is not made longer."""

SEEN: Final = 64
"""Values that had sensitive names, which are looked for in all texts."""

UNITS: Final = {
    "calls": "password=f(",
    "indices": "token=f[",
    "attributes": "secret=a.b.",
    "assignments": "token=x ",
    "query": "a=b&",
    "query of secrets": "token=b&",
    "one word": "x",
    "one word of digits": "7",
    "one mixed word": "aB3",
    "dotted word": "a.",
    "dashed word": "a-",
    "names alone": "password ",
    "dotted names": "token.",
    "names joined": "password_token_",
    "one word of names": "key",
    "words before names": "api key: ",
    "placeholders": "token={{",
    "brackets of names": "password=([{",
    "elements": "<password>",
    "explanations": "where 'x' = ",
    "commands": "curl ",
    "options": "--token x ",
    "options alone": "--token ",
    "quotes unclosed": 'password="x ',
    "quotes": '"',
    "three quotes": 'token="""',
    "backslashes": "\\",
    "escaped quotes": 'password=\\"x',
    "brackets": "(",
    "pairs": "('password', ",
    "arrows": "token => ",
    "equal signs": "=",
    "blanks": " ",
    "lines": "\n",
    "key's heads": "-----BEGIN PRIVATE KEY-----",
    "JWT's heads": "eyJ",
    "JWTs": "eyJhbGciOi.eyJ.",
    "addresses": "://a:",
    "addresses, at": "://a:b@",
    "bearers": "Bearer ",
    "sk-": "sk-",
    "headers": "cookie: a=b; ",
    "SecretStr": "password=SecretStr(",
    "tags": "<redacted:token#a1b2c3> ",
    "beyond ASCII": "пароль: ",
}
"""Each is repeated."""


def ordinary() -> dict[str, str]:
    """A megabyte of each kind."""
    documents = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
    modules = sorted((ROOT / "pytest_cideldill").rglob("*.py"))
    chance = random.Random("texts")
    rows = [
        {"id": n, "name": f"item {n}", "price": chance.random(), "tags": ["a", "b"], "at": None}
        for n in range(20_000)
    ]
    log = "".join(
        f"2030-01-02 03:{n // 60 % 60:02}:{n % 60:02},{n % 1000:03} INFO shop.cart:{n % 97} "
        f"user=kim item={n} took={chance.random():.3f}s token refreshed\n"
        for n in range(20_000)
    )
    return {
        "prose": _megabyte("\n".join(each.read_text(encoding="utf-8") for each in documents)),
        "source": _megabyte("\n".join(each.read_text(encoding="utf-8") for each in modules)),
        "log": _megabyte(log),
        "JSON": _megabyte(json.dumps(rows)),
        "repr": _megabyte(repr(rows)),
    }


def _megabyte(text: str) -> str:
    return (text * (SIZES[-1] // len(text) + 1))[: SIZES[-1]]


def redactor() -> Redactor:
    """One that knows some values: of the environment, and such as had sensitive names."""
    made = Redactor(environ={f"SERVICE_{n}_TOKEN": _value(f"environ {n}") for n in range(5)})
    for n in range(SEEN):
        made.hide_under("password", _value(f"seen {n}"))
    return made


def _value(name: str) -> str:
    return "".join(random.Random(name).choices(MIXED, k=15))


def took(hide: Callable[[str], object], text: str, runs: int) -> float:
    """The median of the seconds; of short texts each sample is many calls."""
    calls = max(1, 20_000 // len(text))
    samples = []
    for _ in range(runs):
        began = time.perf_counter()
        for _ in range(calls):
            hide(text)
        samples.append((time.perf_counter() - began) / calls)
        if samples[-1] > LONG_S:
            break
    return statistics.median(samples)


def show_ordinary(runs: int) -> None:
    """Microseconds per 100 characters."""
    sizes = "".join(f"{size:>12,}" for size in SIZES)
    print(f"µs per 100 characters, texts of{'':5}{sizes}")
    known, fresh = redactor(), Redactor(environ={})
    for kind, text in ordinary().items():
        ways: dict[str, Callable[[str], object]] = {
            kind: fresh.redact_text,
            f"{kind}, {SEEN} values known": known.redact_text,
        }
        if kind == "source":
            ways["source, as a file"] = fresh.redact_source
        for name, hide in ways.items():
            costs = [took(hide, text[:size], runs) / size * 1e8 for size in SIZES]
            print(f"  {name:34}{''.join(f'{each:12.2f}' for each in costs)}", flush=True)


def show_hostile(runs: int, largest: int) -> None:
    """The same of texts that are made to be slow, and how it grows."""
    head = f"{'characters':>12}{'cost':>12}{'time of 2n / n':>16}"
    print(f"\n{'µs per 100 characters, repeated':36}{head}")
    known = redactor()
    ways: dict[str, Callable[[str], object]] = {
        "text": known.redact_text,
        "source": known.redact_source,
    }
    for name, hide in ways.items():
        for what, unit in UNITS.items():
            size, cost, growth = grown(hide, unit, runs, largest)
            mark = "" if growth < 3 else "  not linear"
            print(f"  {f'{what}, {name}':34}{size:12,}{cost:12.2f}{growth:16.2f}{mark}", flush=True)


def grown(
    hide: Callable[[str], object], unit: str, runs: int, largest: int
) -> tuple[int, float, float]:
    """Characters, microseconds per 100 of them, and what twice as many take in proportion."""
    for size in _doubled(2_000, largest):
        text = (unit * (size // len(unit) + 1))[:size]
        half = took(hide, text[: size // 2], runs)
        whole = took(hide, text, runs)
        if whole > LONG_S or size * 2 > largest:
            return size, whole / size * 1e8, whole / half
    raise AssertionError(f"no size up to {largest}")


def _doubled(size: int, largest: int) -> Iterator[int]:
    while size <= largest:
        yield size
        size *= 2


def main() -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser("python -m benchmarks.secrets", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="of each text")
    parser.add_argument("--largest", type=int, default=1_024_000, help="characters of a slow text")
    parser.add_argument("--only", choices=("corpus", "texts", "cost"), help="one of the parts")
    chosen = parser.parse_args()
    print(versions(), end="\n\n")
    if chosen.only == "texts":
        print(measure_texts().report())
    if chosen.only in (None, "corpus"):
        with tempfile.TemporaryDirectory(prefix="cideldill-secrets-") as temp:
            measured = measure(Path(temp))
        print(measured.report())
        seconds = ", ".join(f"{name} {took:.0f} s" for name, took in measured.seconds.items())
        print(f"processor time: {seconds}\n")
    if chosen.only in (None, "cost"):
        show_ordinary(chosen.runs)
        show_hostile(min(chosen.runs, 3), chosen.largest)


if __name__ == "__main__":
    main()
