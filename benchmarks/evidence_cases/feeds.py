"""A reader of news: entries are parsed, distinguished, ranked, rendered as a digest."""

from __future__ import annotations

from typing import Final

from benchmarks.evidence_cases.cases import INI, Case, MadeUp
from tests.together.real_package import Breakage

FILES: Final = {
    "pytest.ini": INI,
    "feeds/__init__.py": "",
    "feeds/entries.py": '''
"""Entries, as the formats of feeds give them."""

from dataclasses import dataclass, field
from datetime import datetime, timezone

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Entry:
    title: str
    link: str
    body: bytes
    at: datetime
    tags: tuple = ()
    version: str = "1"
    meta: dict = field(default_factory=dict, compare=False)


def when(text):
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def from_atom(raw):
    return Entry(
        raw["title"].strip(),
        raw["link"],
        raw.get("content", "").encode("utf-8"),
        when(raw["updated"]) if "updated" in raw else EPOCH,
        tuple(raw.get("category", ())),
        raw.get("version", "1"),
    )


def from_json_feed(raw):
    return Entry(
        raw["title"].strip(),
        raw["url"],
        raw.get("content_text", "").encode("utf-8"),
        when(raw["date_published"]) if "date_published" in raw else EPOCH,
        tuple(raw.get("tags", ())),
        raw.get("version", "1"),
    )


READERS = {"atom": from_atom, "json": from_json_feed}


def parsed(kind, rows):
    reader = READERS[kind]
    for raw in rows:
        yield reader(raw)
''',
    "feeds/identity.py": '''
"""Which entries are the same text."""

import hashlib


def squeezed(body):
    return b" ".join(body.split()).lower()


def fingerprint(body):
    if isinstance(body, str):
        body = body.encode("utf-8")
    return hashlib.sha256(squeezed(body)).hexdigest()[:16]


class Seen:
    """What was read before, as fingerprints."""

    def __init__(self, known=()):
        self._known = set(known)

    def is_new(self, body):
        mark = fingerprint(body)
        if mark in self._known:
            return False
        self._known.add(mark)
        return True

    def exported(self):
        return sorted(self._known)
''',
    "feeds/days.py": '''
"""Days of the reader, who lives in some time zone."""

from datetime import timedelta, timezone


def zone(hours):
    return timezone(timedelta(hours=hours))


def day_of(at, tz):
    return at.astimezone(tz).date().isoformat()


def by_day(entries, tz):
    days = {}
    for entry in entries:
        days.setdefault(day_of(entry.at, tz), []).append(entry)
    return days
''',
    "feeds/rank.py": '''
"""What is worth reading first."""

import re
from collections import Counter

WORD = re.compile(r"[a-z]{3,}")
STOP = frozenset({"the", "and", "for", "with", "from", "that"})


def words(text):
    return (word for word in WORD.findall(text.lower()) if word not in STOP)


def profile(texts):
    """Word → share among all words of the texts that the reader liked."""
    counts = Counter()
    for text in texts:
        counts.update(words(text))
    total = sum(counts.values())
    return {word: count / total for word, count in counts.items()}


def score(entry, liked):
    found = list(words(entry.title))
    if not found:
        return 0.0
    weight = sum(liked.get(word, 0.0) for word in found)
    return round(weight / len(found), 6)


def ranked(entries, liked):
    scored = [(score(entry, liked), entry) for entry in entries]
    return [entry for _, entry in sorted(scored, key=lambda each: (-each[0], each[1].title))]


def version_key(text):
    return tuple(int(part) for part in text.split("."))


def newest_versions(entries):
    """Of each link the entry with the highest version."""
    best = {}
    for entry in entries:
        other = best.get(entry.link)
        if other is None or version_key(entry.version) > version_key(other.version):
            best[entry.link] = entry
    return list(best.values())
''',
    "feeds/digest.py": '''
"""The digest of a day."""

from feeds.days import by_day
from feeds.entries import parsed
from feeds.identity import Seen
from feeds.rank import newest_versions, profile, ranked


class Reader:
    def __init__(self, tz, liked=(), known=()):
        self.tz = tz
        self.seen = Seen(known)
        self.liked = profile(liked)
        self.entries = []

    def load(self, kind, rows):
        """Take in a feed; how many entries were new."""
        fresh = [entry for entry in parsed(kind, rows) if self.seen.is_new(entry.body)]
        self.entries += fresh
        return len(fresh)

    def digest(self, day):
        todays = by_day(newest_versions(self.entries), self.tz).get(day, [])
        lines = [f"{entry.title} <{entry.link}>" for entry in ranked(todays, self.liked)]
        return "\\n".join([f"{day}: {len(todays)} entries", *lines])


def tagged(entries, tag):
    return (entry for entry in entries if tag in entry.tags)


def tag_report(entries, tags):
    """Tag → how many, and the titles."""
    report = {}
    for tag in tags:
        found = list(tagged(entries, tag))
        report[tag] = (len(found), [entry.title for entry in found])
    return report
''',
    "tests/conftest.py": """
import pytest


@pytest.fixture
def atom():
    return [
        {
            "title": "Python profiling with care ",
            "link": "a/1",
            "content": "How to profile",
            "updated": "2024-05-01T21:30:00+00:00",
            "category": ["python", "speed"],
        },
        {
            "title": "The garden in May",
            "link": "a/2",
            "content": "Tomatoes",
            "updated": "2024-05-01T08:00:00+00:00",
            "category": ["garden"],
        },
        {
            "title": "Profiling memory",
            "link": "a/3",
            "content": "Heaps",
            "updated": "2024-05-01T23:30:00+02:00",
            "category": ["python"],
        },
    ]


@pytest.fixture
def json_feed():
    return [
        {
            "title": "Garden tools",
            "url": "j/1",
            "content_text": "Spades",
            "date_published": "2024-05-02T09:00:00",
            "version": "1.9",
        },
        {
            "title": "Garden tools, revised",
            "url": "j/1",
            "content_text": "Spades and rakes",
            "date_published": "2024-05-02T10:00:00",
            "version": "1.10",
        },
        {"title": "Undated", "url": "j/2", "content_text": "?"},
    ]
""",
    "tests/test_digest.py": """
from feeds.days import zone
from feeds.digest import Reader, tag_report
from feeds.entries import parsed

LIKED = ["profiling python", "profiling everything"]


def reader(hours=2, **more):
    return Reader(zone(hours), LIKED, **more)


def test_all_are_new(atom):
    assert reader().load("atom", atom) == 3


def test_nothing_is_new_twice(atom):
    used = reader()
    used.load("atom", atom)
    assert used.load("atom", atom) == 0


def test_nothing_is_new_after_an_export(atom):
    used = reader()
    used.load("atom", atom)
    again = reader(known=used.seen.exported())
    assert again.load("atom", atom) == 0


def test_spaces_make_no_news(atom, json_feed):
    used = reader()
    used.load("atom", atom)
    json_feed[0]["content_text"] = "how  to\\nprofile"
    assert used.load("json", json_feed) == 2


def test_digest_of_an_empty_day(atom):
    used = reader()
    used.load("atom", atom)
    assert used.digest("2023-01-01") == "2023-01-01: 0 entries"


def test_digest_in_utc(atom):
    used = reader(0)
    used.load("atom", atom)
    assert used.digest("2024-05-01").splitlines() == [
        "2024-05-01: 3 entries",
        "Profiling memory <a/3>",
        "Python profiling with care <a/1>",
        "The garden in May <a/2>",
    ]


def test_digest_in_the_east(atom):
    used = reader(3)
    used.load("atom", atom)
    assert used.digest("2024-05-02").splitlines() == [
        "2024-05-02: 2 entries",
        "Profiling memory <a/3>",
        "Python profiling with care <a/1>",
    ]


def test_digest_of_json(json_feed):
    used = reader(0)
    used.load("json", json_feed)
    assert used.digest("2024-05-02").splitlines() == [
        "2024-05-02: 1 entries",
        "Garden tools, revised <j/1>",
    ]


def test_undated(json_feed):
    used = reader(0)
    used.load("json", json_feed)
    assert used.digest("1970-01-01").splitlines()[1:] == ["Undated <j/2>"]


def test_no_tags():
    assert tag_report([], ["python"]) == {"python": (0, [])}


def test_tags_of_nobody(atom):
    assert tag_report(list(parsed("atom", atom)), ["music"]) == {"music": (0, [])}


def test_tags(atom):
    assert tag_report(list(parsed("atom", atom)), ["python", "garden"]) == {
        "python": (2, ["Python profiling with care", "Profiling memory"]),
        "garden": (1, ["The garden in May"]),
    }
""",
}

FEEDS: Final = MadeUp("feeds_app", FILES)

CASES: Final = (
    Case(
        "feeds-generator",
        "generator exhausted",
        FEEDS,
        Breakage(
            "tag_report",
            "feeds/digest.py",
            """        found = list(tagged(entries, tag))
        report[tag] = (len(found), [entry.title for entry in found])
""",
            """        found = tagged(entries, tag)
        report[tag] = (sum(1 for _ in found), [entry.title for entry in found])
""",
        ),
        "tests/test_digest.py::test_tags",
    ),
    Case(
        "feeds-key",
        "wrong key with a fallback",
        FEEDS,
        Breakage(
            "from_json_feed",
            "feeds/entries.py",
            'when(raw["date_published"]) if "date_published" in raw else EPOCH,',
            'when(raw["published"]) if "published" in raw else EPOCH,',
        ),
        "tests/test_digest.py::test_digest_of_json",
    ),
    Case(
        "feeds-bytes",
        "str for bytes",
        FEEDS,
        Breakage(
            "fingerprint",
            "feeds/identity.py",
            """    if isinstance(body, str):
        body = body.encode("utf-8")
    return""",
            """    body = str(body).encode("utf-8")
    return""",
        ),
        "tests/test_digest.py::test_spaces_make_no_news",
    ),
    Case(
        "feeds-sort",
        "wrong sort key",
        FEEDS,
        Breakage(
            "version_key",
            "feeds/rank.py",
            'return tuple(int(part) for part in text.split("."))',
            'return tuple(text.split("."))',
        ),
        "tests/test_digest.py::test_digest_of_json",
    ),
    Case(
        "feeds-zone",
        "time zone",
        FEEDS,
        Breakage(
            "day_of",
            "feeds/days.py",
            "return at.astimezone(tz).date().isoformat()",
            "return at.replace(tzinfo=tz).date().isoformat()",
        ),
        "tests/test_digest.py::test_digest_in_the_east",
    ),
)
