"""Bytes to messages and back: what `pytest_cideldill.protocol.framing` promises about any bytes at
all.

Frames are JSON with a size cap; the token comes before anything is parsed.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from typing import Any

import pytest

from cideldill_mcp.fast_json import decode_fast
from pytest_cideldill.protocol import framing
from pytest_cideldill.protocol.framing import (
    TOKEN_BYTES,
    FrameDecoder,
    FrameError,
    decode_text,
    encode_frame,
    new_token,
    token_matches,
)
from tests.each_case import for_each

Decode = Callable[[bytes], Any]

MESSAGES: list[dict[str, Any]] = [
    {},
    {"kind": "begin"},
    {"text": 'é … 😀 \x00 \n " \\', "list": [1, 2.5, None, True, {"deep": []}]},
    {"": ""},
]


def raw_frame(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


def test_a_token_is_32_random_bytes() -> None:
    """A random token per server, 32 raw bytes."""
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert {len(token) for token in tokens} == {TOKEN_BYTES} == {32}


@for_each("received", [b"", b"a" * 31, b"a" * 33, b"b" + b"a" * 31, b"a" * 31 + b"b", b"\0" * 32])
def test_only_the_same_token_matches(received: bytes) -> None:
    """Neither a prefix nor a longer text is the token."""
    assert token_matches(b"a" * 32, b"a" * 32)
    assert not token_matches(received, b"a" * 32)


def test_a_frame_is_the_length_in_four_bytes_and_json_in_ascii() -> None:
    """The format itself: other implementations of the wire depend on it."""
    assert encode_frame({"a": "é"}) == b'\x00\x00\x00\x0e{"a":"\\u00e9"}'


def test_a_stream_torn_at_every_byte_gives_the_same_messages() -> None:
    """Sockets keep bytes and their order, not their grouping."""
    stream = b"".join(map(encode_frame, MESSAGES))
    for cut in range(len(stream) + 1):
        decoder = FrameDecoder()
        assert decoder.feed(stream[:cut]) + decoder.feed(stream[cut:]) == MESSAGES


def test_a_stream_fed_byte_by_byte_gives_each_message_with_its_last_byte() -> None:
    """Nothing is handed out early and nothing late."""
    decoder = FrameDecoder()
    for message in MESSAGES:
        frame = encode_frame(message)
        for position in range(len(frame) - 1):
            assert decoder.feed(frame[position : position + 1]) == []
        assert decoder.feed(frame[-1:]) == [message]


def test_a_length_above_the_cap_is_refused_before_its_text_arrives() -> None:
    """The cap protects memory: four bytes must not make us wait for four gigabytes."""
    decoder = FrameDecoder(max_frame=10)
    assert decoder.feed(raw_frame(b'{"a":"xy"}')) == [{"a": "xy"}]
    with pytest.raises(FrameError, match="11 bytes exceeds the cap of 10"):
        decoder.feed(struct.pack(">I", 11))


def test_the_largest_length_of_all_is_refused_by_the_default_cap() -> None:
    """`0xffffffff`, as a peer sends that speaks another protocol."""
    with pytest.raises(FrameError, match="cap"):
        FrameDecoder().feed(b"\xff\xff\xff\xff")


def test_a_message_above_the_cap_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sender notices first; the peer would drop the connection."""
    monkeypatch.setattr(framing, "MAX_FRAME", 9)
    assert encode_frame({"a": "x"})
    with pytest.raises(FrameError, match="10 bytes exceeds the cap of 9"):
        encode_frame({"a": "xy"})


@for_each("decode", [decode_text, decode_fast])
@for_each(
    "text",
    [
        b"",
        b"{",
        b"not json",
        b'{"a":1}{"b":2}',
        b'{"a":"\xc3\xa9"}',  # UTF-8: our frames are ASCII
        b"\xff\xfe{\x00}\x00",
        b"\x00" * 8,
        b"[" * 200_000,
        b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        b'{"n":' + b"9" * 10_000 + b"}",
    ],
)
def test_text_that_is_no_json_is_a_frame_error(text: bytes, decode: Decode) -> None:
    """Any text ends in the one exception that callers handle, whatever the parser raises."""
    with pytest.raises(FrameError, match="not JSON"):
        FrameDecoder(decode=decode).feed(raw_frame(text))


@for_each("decode", [decode_text, decode_fast])
@for_each("text", [b"[]", b"null", b"true", b"1.5", b'"kind"', b"NaN"])
def test_json_that_is_no_object_is_a_frame_error(text: bytes, decode: Decode) -> None:
    """A message is an object: `from_plain` may rely on it."""
    with pytest.raises(FrameError, match="not a JSON object"):
        FrameDecoder(decode=decode).feed(raw_frame(text))


@for_each("decode", [decode_text, decode_fast])
@for_each("text", ["\ud800", "a\udcffb", "\udfff\ud800", "\U0010ffff"])
def test_lone_surrogates_survive_the_way(text: str, decode: Decode) -> None:
    """File names and node ids carry them (surrogateescape); UTF-8 would refuse them."""
    assert FrameDecoder(decode=decode).feed(encode_frame({"nodeid": text})) == [{"nodeid": text}]


def test_numbers_that_json_lacks_survive_the_way() -> None:
    """NaN and infinities are for the client's side to spell, not for the wire to die of."""
    (message,) = FrameDecoder().feed(encode_frame({"a": float("inf"), "b": float("-inf")}))
    assert message == {"a": float("inf"), "b": float("-inf")}


def test_the_codec_does_not_follow_patches_of_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that patches `json.dumps` must not break our hooks."""
    for name in ("dumps", "loads", "JSONEncoder", "JSONDecoder"):
        monkeypatch.setattr(json, name, None)
    assert FrameDecoder().feed(encode_frame({"a": 1})) == [{"a": 1}]


def random_json(rng: random.Random, depth: int = 3) -> Any:
    match rng.randrange(7 if depth else 5):
        case 0:
            return rng.choice((None, True, False))
        case 1:
            return rng.randrange(-(10**12), 10**12)
        case 2:
            return rng.uniform(-1e9, 1e9)
        case 3 | 4:
            return "".join(chr(rng.choice((rng.randrange(128), rng.randrange(0x11_0000)))) for _ in
                           range(rng.randrange(8)))  # fmt: skip
        case 5:
            return [random_json(rng, depth - 1) for _ in range(rng.randrange(5))]
        case _:
            return {str(n): random_json(rng, depth - 1) for n in range(rng.randrange(5))}


@for_each("seed", range(20))
def test_random_messages_in_random_pieces_come_out_whole(seed: int) -> None:
    """Seeded fuzz of the round trip."""
    rng = random.Random(seed)
    messages = [{"value": random_json(rng)} for _ in range(20)]
    stream = b"".join(map(encode_frame, messages))
    decoder, received = FrameDecoder(), []
    while stream:
        size = rng.choice((1, 3, 10, 1000))
        received += decoder.feed(stream[:size])
        stream = stream[size:]
    assert received == messages


@for_each("seed", range(20))
def test_damaged_streams_give_objects_or_a_frame_error(seed: int) -> None:
    """Seeded fuzz of garbage: no other exception, and never anything but objects."""
    rng = random.Random(seed)
    for _ in range(200):
        stream = bytearray(b"".join(map(encode_frame, MESSAGES)))
        for _ in range(rng.randrange(1, 4)):
            stream[rng.randrange(len(stream))] = rng.randrange(256)
        try:
            received = FrameDecoder().feed(bytes(stream))
        except FrameError:
            continue
        assert all(isinstance(message, dict) for message in received)
