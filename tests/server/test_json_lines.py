"""Notifications as lines: the fast way for hits says what the plain one does."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest

from cideldill_mcp.clients import json_lines
from cideldill_mcp.clients.hit_payload import BREAKPOINT_HIT, iso, of_hit
from cideldill_mcp.clients.json_lines import HitLines, line_of, with_coalesced

TEXTS = (
    "",
    "total=3",
    'a "quoted"\\\n\t\x00\x7f',
    "é…😀\u2028",
    "lone \udce9",
    "\ud83d",
    "x" * 5_000,
)
STRANGE: tuple[Any, ...] = (*TEXTS, None, 0, -1, 2**80, True, 1.5, float("nan"), [1, "\udce9"])


def hit(rng: random.Random) -> dict[str, Any]:
    """One of a few places, or a strange one; some keys are missing."""
    place = {"file": rng.choice(TEXTS), "line": rng.randrange(3), "function": "Cart.total"}
    event: dict[str, Any] = {
        "type": "hit",
        "ts": 1_700_000_000 + rng.random(),
        "breakpoint_id": f"tp-{rng.randrange(3)}",
        "location": rng.choice((place, place, None)),
        "thread": rng.choice((7, 8, None)),
        "nodeid": rng.choice(TEXTS),
        "worker": rng.choice(("main", "gw0")),
        "hit_count": rng.randrange(1_000),
        "message": rng.choice(TEXTS),
    }
    for name in rng.sample(sorted(event.keys() - {"ts", "type"}), rng.choice((0, 0, 1, 3))):
        if rng.random() < 0.5 or name == "location":
            del event[name]
        else:
            event[name] = rng.choice(STRANGE if name != "breakpoint_id" else TEXTS)
    return {**event, "seq": rng.randrange(10**6)}


@pytest.mark.full
@pytest.mark.quick("0-5")
@pytest.mark.parametrize(("first", "end"), [(0, 5), (5, 50)])
def test_the_fast_way_says_what_the_plain_one_does(
    first: int, end: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same order of keys; however places, tests and threads take turns."""
    monkeypatch.setattr(json_lines, "MAX_PLACES", 2)
    for seed in range(first, end):
        compare_ways(seed)


def compare_ways(seed: int) -> None:
    rng = random.Random(seed)
    few = [hit(rng) for _ in range(5)]
    hits = [rng.choice(few) | {"seq": n} if rng.random() < 0.5 else hit(rng) for n in range(100)]
    encoder = HitLines()
    fast = [line for each in (hits[:30], hits[30:]) for line in encoder.of_events(each)]
    plain = [line_of(BREAKPOINT_HIT, of_hit(each)) for each in hits]
    for one, other in zip(fast, plain, strict=True):
        assert one.count(b"\n") == 1, seed
        assert json.dumps(json.loads(one)) == json.dumps(json.loads(other)), seed


def test_every_line_can_be_read_by_every_client() -> None:
    """Strict ones refuse lone surrogates, NaN and infinities."""
    for text in TEXTS:
        line = line_of("m", {"text": text, "numbers": [float("nan"), float("-inf")]})
        params = json.loads(line, parse_constant=lambda name: pytest.fail(name))["params"]
        line.decode("utf-8")
        params["text"].encode("utf-8")
        assert params["numbers"] == ["NaN", "-Infinity"], text


def test_what_is_left_out_is_counted_in_the_line() -> None:
    line = with_coalesced(line_of("m", {"seq": 3}), 12)
    assert line == b'{"jsonrpc":"2.0","method":"m","params":{"seq":3,"coalesced":12}}\n'


def test_moments_are_shown_as_datetime_does() -> None:
    rng = random.Random(1)
    moments = [0.0, 1_700_000_000, 1_700_000_000.25, 1e9 + 0.9999996, *(rng.random() * 2e9,) * 9]
    moments += [round(rng.random() * 2e9, rng.randrange(7)) for _ in range(2_000)]
    for ts in moments:
        shown = datetime.fromtimestamp(ts, UTC).isoformat(timespec="milliseconds")
        assert iso(ts) == shown.removesuffix("+00:00") + "Z"
