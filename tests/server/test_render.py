"""What the renderer of replies promises: any value is readable JSON, any reply fits its size."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from cideldill_mcp.replies import render
from cideldill_mcp.tools import toolbox

INF = float("inf")
ONES = "1" * 2_000
ALPHABET = 'abcdefghij "\\\n\t\x00é…😀\ud800'


def random_text(rng: random.Random, longest: int) -> str:
    return "".join(rng.choices(ALPHABET, k=rng.randrange(longest + 1)))


def random_value(rng: random.Random, depth: int = 3) -> Any:
    size = rng.randrange(rng.choice((2, 6, 30)))
    match rng.randrange(8 if depth else 5):
        case 0 | 1:
            return random_text(rng, rng.choice((5, 60, 3_000)))
        case 2:
            return rng.choice((None, True, False, 0, -1, 10**30, 1 << 20_000, 1.5, INF, -INF))
        case 3:
            return float("nan")
        case 4:
            return rng.choice(("", b"bytes", object(), {1, 2}, Ellipsis))
        case 5:
            return {random_text(rng, 12): random_value(rng, depth - 1) for _ in range(size)}
        case 6:
            return tuple(random_value(rng, depth - 1) for _ in range(size))
        case _:
            return [random_value(rng, depth - 1) for _ in range(size)]


def random_replies(count: int) -> Iterator[tuple[random.Random, dict[str, Any]]]:
    for seed in range(count):
        rng = random.Random(seed)
        yield rng, {f"key{n}": random_value(rng) for n in range(rng.randrange(1, 9))}


def strict(text: str) -> Any:
    """Parse as a strict client does: encodable text, no NaN, no lone surrogate in any string."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    text.encode("utf-8")
    value = json.loads(text, parse_constant=refuse)
    json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, 2.5, None, True]}, '{"a":[1,2.5,null,true]}'),
        ({"é": "…"}, '{"é":"…"}'),
        ([{"n": float("nan")}, (INF, -INF)], '[{"n":"NaN"},["Infinity","-Infinity"]]'),
        ({1: "a", None: "b", (1, 2): "c"}, '{"1":"a","None":"b","(1, 2)":"c"}'),
        ({True: "a", False: "b"}, '{"True":"a","False":"b"}'),
        ({"true": ["null", '"null":'], "n": 1}, '{"true":["null","\\"null\\":"],"n":1}'),
        ({"s": "x\udcffy"}, '{"s":"x\\\\udcffy"}'),
        ({"\ud800": 1}, '{"\\\\ud800":1}'),
        ([object(), b""], '["<unserializable: object>","<unserializable: bytes>"]'),
        ({"n": (1 << 4_096) - 1}, f'{{"n":{(1 << 4_096) - 1}}}'),
        ({"n": 1 << 4_096, "s": ONES}, f'{{"n":"<int of 4097 bits>","s":"{ONES}"}}'),
        ({"n": 1 << 20_000}, '{"n":"<int of 20001 bits>"}'),
    ],
)  # fmt: skip
def test_a_value_is_written_as_compact_json_that_any_client_reads(value: Any, text: str) -> None:
    assert render.dumps(value) == text
    strict(text)


def test_a_cycle_is_named_and_not_followed() -> None:
    loop: dict[str, Any] = {"list": []}
    loop["list"].extend([loop] * 50)
    assert strict(render.dumps(loop)) == {"list": ["<cycle>"] * 50}


def test_the_same_object_twice_is_no_cycle() -> None:
    shared = [1]
    assert render.dumps([shared, shared]) == "[[1],[1]]"


def test_nesting_ends_at_a_hundred_levels() -> None:
    value: Any = "bottom"
    for _ in range(5_000):
        value = [value]
    text = render.dumps(value)
    assert text == "[" * 100 + '"<too deep>"' + "]" * 100


@pytest.mark.full
@pytest.mark.quick("20")
@pytest.mark.parametrize("count", [20, 60])
def test_any_random_value_is_readable_json(count: int) -> None:
    for _rng, reply in random_replies(count):
        strict(render.dumps(reply))


def test_a_reply_that_fits_is_left_alone() -> None:
    reply = {"items": [1, 2, 3], "truncated": False}
    text = render.dumps(reply)
    assert render.fit(reply, 200, lists=["items"], cursor=str) == text
    exact = {"text": "x" * 500}
    assert render.fit(exact, len(render.dumps(exact))) == render.dumps(exact)


@pytest.mark.full
def test_any_random_reply_fits_any_size_and_keeps_its_keys() -> None:
    for rng, reply in random_replies(120):
        max_chars = rng.choice((200, 201, 350, 1_000, 8_000))
        lists = [key for key in reply if rng.random() < 0.5]
        text = render.fit(reply, max_chars, lists=lists, cursor=type_name)
        assert len(text) <= max_chars
        fitted = strict(text)
        if fitted.get("truncated"):
            assert reply.keys() <= fitted.keys()
        else:
            assert text == render.dumps(reply)


@pytest.mark.full
@pytest.mark.quick("0-20")
@pytest.mark.parametrize(("first", "end"), [(0, 20), (20, 80)])
def test_a_list_is_cut_to_the_longest_prefix_that_fits(first: int, end: int) -> None:
    for seed in range(first, end):
        rng = random.Random(seed)
        items = [{"id": n, "text": random_text(rng, 30)} for n in range(rng.randrange(150, 300))]
        max_chars = rng.randrange(300, 2_000)

        text = render.fit({"ok": True, "items": items}, max_chars, lists=["items"], cursor=key_of)

        cut = strict(text)
        kept = len(cut["items"])
        assert 0 < kept < len(items)
        assert cut["items"] == strict(render.dumps(items))[:kept]
        assert cut["truncated"] is True
        assert cut["total_count"] == len(items)
        assert cut["next_after"] == key_of(items[kept - 1])
        longer = {**cut, "items": items[: kept + 1], "next_after": key_of(items[kept])}
        assert len(text) <= max_chars < len(render.dumps(longer))


def type_name(item: object) -> str:
    return type(item).__name__


def key_of(item: dict[str, Any]) -> str:
    return f"k{item['id']}"


def test_a_total_count_that_the_tool_knows_is_kept() -> None:
    reply = {"total_count": 999, "truncated": False, "next_after": None, "items": list(range(500))}
    cut = strict(render.fit(reply, 300, lists=["items"], cursor=lambda last: last))
    assert cut["total_count"] == 999
    assert cut["next_after"] == cut["items"][-1] == len(cut["items"]) - 1


@pytest.mark.full
@pytest.mark.quick("49")
@pytest.mark.parametrize("step", [49, 7])
def test_maps_are_cut_in_step_with_their_list(step: int) -> None:
    names = [f"shop.cart.Cart.method_{n}" for n in range(100)]
    reply = {
        "functions": names,
        "signatures": dict.fromkeys(names, "(self, *, price: Decimal)"),
        "metadata": {name: {"line": n} for n, name in enumerate(names) if n % 3},
        "other": {"untouched": 1},
    }
    maps = {"functions": ["signatures", "metadata", "absent"]}
    for max_chars in range(300, 3_000, step):
        text = render.fit(reply, max_chars, lists=["functions"], in_step=maps)
        cut = strict(text)
        kept = cut["functions"]
        assert kept == names[: len(kept)]
        assert list(cut["signatures"]) == kept
        assert list(cut["metadata"]) == [name for n, name in enumerate(kept) if n % 3]
        assert cut["other"] == {"untouched": 1}
        assert cut["total_count"] == 100
        assert max_chars - 150 < len(text) <= max_chars  # one more would not have fitted


def test_the_first_named_list_goes_first_and_every_list_keeps_an_item() -> None:
    reply = {"minor": list(range(1_000)), "major": list(range(1_000)), "empty": []}
    cut = strict(render.fit(reply, 400, lists=["major", "minor", "empty", "absent"]))
    assert len(cut["major"]) > 50
    assert cut["minor"] == [0]
    assert cut["empty"] == []
    assert cut["total_count"] == cut["minor_total"] == 1_000
    assert "next_after" not in cut


def test_a_first_item_that_is_too_long_is_shortened_and_its_cursor_kept() -> None:
    items = [{"id": n, "text": "y" * 5_000} for n in range(3)]
    text = render.fit({"items": items}, 400, lists=["items"], cursor=key_of)
    cut = strict(text)
    assert cut["items"][0]["id"] == 0
    assert cut["items"][0]["text"].startswith("yyy")
    assert cut["next_after"] == "k0"
    assert 390 <= len(text) <= 400


def test_the_longest_strings_are_shortened_and_say_by_how_much() -> None:
    reply = {"output": "a" * 5_000, "nested": [{"trace": "b" * 3_000}], "short": "c" * 100}
    text = render.fit(reply, 1_000)
    cut = strict(text)
    assert cut["short"] == reply["short"]
    for shortened, letter, length in (
        (cut["output"], "a", 5_000),
        (cut["nested"][0]["trace"], "b", 3_000),
    ):
        start, _, removed = shortened.partition("…[+")
        assert start == letter * len(start)
        assert removed == f"{length - len(start)} chars]"
    assert cut["truncated"] is True
    assert 995 <= len(text) <= 1_000


def test_a_reply_without_long_strings_loses_the_ends_of_nested_containers() -> None:
    reply = {"matrix": [list(range(1_000))] * 50, "table": {str(n): n for n in range(1_000)}}
    cut = strict(render.fit(reply, 500))
    assert cut["matrix"][0][:2] == [0, 1]
    assert cut["table"]["0"] == 0
    assert cut["truncated"] is True


def test_keys_alone_that_are_too_long_lose_only_what_does_not_fit() -> None:
    reply = {f"key{n}": n for n in range(5_000)}
    cut = strict(render.fit(reply, 200))
    assert cut["truncated"] is True
    assert cut["key0"] == 0


def test_ids_and_codes_outlive_every_shortening() -> None:
    reply = {"error": "breakpoint_not_found", "pause_id": "r1.gw0.3" * 5, "message": "m" * 9_000}
    cut = strict(render.fit(reply, 200))
    assert cut["error"] == reply["error"]
    assert cut["pause_id"] == reply["pause_id"]
    assert cut["message"].endswith("chars]")


def test_a_reply_is_never_changed_in_place() -> None:
    reply = {"items": ["x" * 900] * 9, "deep": {"list": ["y" * 900]}}
    before = json.dumps(reply)
    render.fit(reply, 300, lists=["items"], cursor=len)
    assert json.dumps(reply) == before


def test_only_what_can_fit_is_looked_at() -> None:
    asked: list[int] = []

    def cursor(item: int) -> int:
        asked.append(item)
        return item

    render.fit({"items": list(range(200_000))}, 1_000, lists=["items"], cursor=cursor)
    assert len(asked) < 2_000


def test_items_are_shaped_when_they_fit_and_their_cursor_is_of_the_plain_ones() -> None:
    shaped: list[int] = []

    def shape(item: int) -> dict[str, int]:
        shaped.append(item)
        return {"n": item}

    reply = {"items": list(range(2_000)), "other": [1]}
    for room in (1_000, 100_000):
        text = render.fit(reply, room, lists={"items": shape}, cursor=str)
        body = strict(text)
        assert body["items"] == [{"n": n} for n in range(len(body["items"]))]
        assert body["other"] == [1]
        assert body.get("next_after") == (str(len(body["items"]) - 1) if room == 1_000 else None)
    assert len(shaped) < 2_000 + 500


def test_a_result_is_one_text_and_nothing_else() -> None:
    result = toolbox.ok_result('{"a":1}')
    assert result.model_dump(by_alias=True, exclude_none=True) == {
        "content": [{"type": "text", "text": '{"a":1}'}],
        "isError": False,
        "resultType": "complete",
    }


def test_an_error_carries_its_code_and_what_else_is_known_within_the_default_size() -> None:
    result = toolbox.error_result("invalid_action", "No such action.", allowed=["continue"] * 5_000)
    (content,) = result.content
    assert content.type == "text"
    body = strict(content.text)
    assert result.is_error is True
    assert result.structured_content is None
    assert body["error"] == "invalid_action"
    assert body["message"] == "No such action."
    assert body["allowed"][0] == "continue"
    assert len(content.text) <= render.DEFAULT_MAX_CHARS
