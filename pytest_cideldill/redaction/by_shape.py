"""Recognizes secrets by their shape, wherever they appear: keys, tokens, passwords in addresses.

Their issuers publish these formats, and scanners of repositories (gitleaks, detect-secrets) look
for them too. Scanners also measure the entropy of texts without a prefix; for the values of a
program that gives too many false alarms, and it is too slow beside tests. So only formats that
can't be anything else are here.

Pure patterns; runs on any thread. `redactor.py` decides what becomes of a secret.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final

from pytest_cideldill.interpreter.patterns import by_first_letter, later
from pytest_cideldill.redaction.harmless import is_placeholder, is_random

Secret = tuple[int, int, str]
"""Where a secret begins and ends in a text, and its label."""

LONG: Final = 20
"""Least length of a word that is a secret by its shape alone."""

_PLAIN: Final = "[A-Za-z0-9]"
_HEX: Final = "[a-f0-9]"

_TOKENS: Final = (
    # Forges and registries.
    (r"gh[pousr]_", rf"{_PLAIN}{{16,}}"),
    (r"github_pat_", r"\w{16,}"),
    (r"gl(?:pat|dt|rtr?|cbt|ptt|ft|ffct|soat|agent|imt|oas|wt)-", r"[\w-]{16,}[\w.-]*"),
    (r"GR1348941", r"[\w-]{16,}"),
    (r"npm_", rf"{_PLAIN}{{30,}}"),
    (r"pypi-", r"(?:Ag[\w-]{16,}|[\w-]{50,})"),
    (r"rubygems_", rf"{_HEX}{{40,}}"),
    (r"dckr_[po]at_", r"[\w-]{20,}"),
    (r"sgp_", rf"(?:{_HEX}{{16}}_|local_)?{_HEX}{{40}}"),
    (r"AKCp", rf"{_PLAIN}{{60,}}"),
    # Messages.
    (r"xox[a-z](?:\.[a-z]+)?-", r"[\w-]{15,}[\w.-]*"),
    (r"xapp-", r"[\w-]{15,}"),
    (r"hooks\.slack\.com/(?:services|workflows|triggers)/", r"[\w/]*\w{16,}"),
    (r"discord(?:app)?\.com/api/(?:v\d+/)?webhooks/", r"[\w/-]*[\w-]{30,}"),
    (r"webhook\.office\.com/", r"[\w@/-]*[\w-]{30,}[\w@/-]*"),
    *((rf"{each}(?<![\w.-]{each})", r"[\w-]{22,27}\.[\w-]{6}\.[\w-]{25,}") for each in "MNO"),
    (r":AA(?<=\d{6}:AA)", r"[\w-]{32,}"),
    (r"SG\.", r"[\w-]{16,}\.[\w-]{16,}"),
    (r"key-(?<![\w-]key-)", rf"{_HEX}{{32}}"),
    (r"xkeysib-", rf"{_HEX}{{64}}-\w{{16}}"),
    (r"SK(?<![A-Za-z0-9]SK)", rf"{_HEX}{{32}}(?![A-Za-z0-9])"),
    (r"EAA(?<![A-Za-z0-9]EAA)[A-Z]", rf"{_PLAIN}{{80,}}"),
    (r"A(?<![A-Za-z0-9]A)A{21}", r"[A-Za-z0-9%]{60,}"),
    # Payment.
    (r"sk_(?<![A-Za-z0-9]sk_)(?:live|test)_", rf"{_PLAIN}{{12,}}"),
    (r"rk_(?<![A-Za-z0-9]rk_)(?:live|test)_", rf"{_PLAIN}{{12,}}"),
    (r"whsec_", r"[\w+/-]{16,}=*"),
    (r"sq0(?:atp|csp)-", r"[\w-]{20,}"),
    (
        r"access-(?:sandbox|development|production)-",
        rf"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}",
    ),
    (r"EZ[AT]K", rf"{_PLAIN}{{50,}}"),
    (r"shippo_(?:live|test)_", rf"{_HEX}{{40}}"),
    (r"duffel_(?:live|test)_", r"[\w-]{30,}=*"),
    (r"shp(?:at|ca|pa|ss)_", r"[A-Fa-f0-9]{32}"),
    # Models.
    (r"sk-(?<![\w-]sk-)", r"(?!learn-)[\w-]{20,}"),
    (r"gsk_", rf"{_PLAIN}{{20,}}"),
    (r"xai-(?<![\w-]xai-)", r"[\w-]{20,}"),
    (r"r8_", rf"{_PLAIN}{{20,}}"),
    (r"pplx-", r"[\w-]{20,}"),
    (r"hf_", rf"{_PLAIN}{{30,}}"),
    (r"ABSK", r"[A-Za-z0-9+/]{100,}"),
    # Clouds.
    (r"AIza", r"[\w-]{30,}"),
    (r"GOCSPX-", r"[\w-]{16,}"),
    (r"ya29\.", r"[\w-]{16,}"),
    (r"1//0", r"[\w-]{30,}"),
    (r"Q~(?<=\dQ~)", r"[\w~.-]{31,}"),
    (r"do[opr]_v1_", rf"{_HEX}{{40,}}"),
    (r"dapi", rf"{_HEX}{{32}}"),
    (r"LTAI", rf"{_PLAIN}{{16,}}"),
    (r"AQVN", r"[\w-]{30,}"),
    (r"HRKU-AA", r"[\w-]{50,}"),
    (r"fm\d[ar]?_", r"[\w+/-]{40,}[\w+/=,-]*"),
    (r"pscale_(?:pw|tkn|oauth)_", r"[\w-]{20,}[\w.=-]*"),
    (r"sbp_", rf"{_HEX}{{40}}"),
    (r"sb_secret_", r"[\w-]{16,}"),
    (r"tskey-", r"[\w-]{16,}"),
    (r"pul-", rf"{_HEX}{{40}}"),
    (r"sha256~", r"[\w-]{43}"),
    # Stores of secrets.
    (r"hv[sbr]\.", r"[\w-]{20,}"),
    (r"ops_eyJ", r"[\w+/-]{60,}=*"),
    (r"A3-", r"[A-Z0-9]{6}-[A-Z0-9-]{11,}"),
    (r"dp\.(?:pt|st|ct|sa|scim|audit)\.", r"[\w-]{20,}[\w.-]*"),
    (r"atlasv1\.", r"[\w-]{30,}=*"),
    # Monitoring, planning, design.
    (r"glsa_", r"\w{20,}"),
    (r"glc_", r"[\w+/]{32,}=*"),
    (r"NR(?:AK|II|JS|AA)-", r"[A-Z0-9a-f]{20,}"),
    (r"PMAK-", rf"{_HEX}{{24}}-{_HEX}{{34}}"),
    (r"sntry[su]_", r"[\w+/-]{30,}=*\w*"),
    (r"dt0[a-z]\d{2}\.", r"[A-Z0-9]{24}\.[A-Z0-9]{40,}"),
    (r"lin_(?:api|oauth)_", rf"{_PLAIN}{{20,}}"),
    (r"AT(?:ATT|BB|CTT)[A-Za-z0-9]", r"[\w-]{20,}=?\w*"),
    (r"fig[dour]_", r"[\w-]{20,}"),
    (r"sl\.(?<![\w.]sl\.)", r"(?:u\.)?[\w-]{60,}"),
    (r"ntn_", rf"{_PLAIN}{{40,}}"),
    (r"pat(?<![\w-]pat)", rf"{_PLAIN}{{14}}\.{_HEX}{{64}}"),
    (r"pnu_", rf"{_PLAIN}{{36}}"),
    (r"rdme_", r"[a-z0-9]{60,}"),
    (r"tfp_", r"[\w-]{30,}[\w.=-]*"),
)
"""Labels, prefixes and the patterns of what follows the prefix."""

_PEM: Final = (
    r"[A-Z0-9 ]++-----(?:[A-Za-z0-9+/=,:\s\"'\\.()]|-(?!----))*+(?:-----END [A-Z0-9 ]{1,60}-----)?"
)
_CREDENTIALS: Final = r"(?:(?=[\w.~+/-]*\d)[\w.~+/-]{6,}|[\w.~+/-]{16,})=*"

_LABELED: Final = (
    ("pem", r"-----BEGIN (?=[A-Z0-9 ]{0,40}PRIVATE KEY)", _PEM),
    ("pem", r"AGE-SECRET-KEY-1", r"[0-9A-Za-z]{20,}"),
    ("pem", r"Private-Lines: \d+", r"[A-Za-z0-9+/=\s\\]+"),
    ("jwt", r"eyJ(?:(?<![\w-]eyJ)|(?<=\\[nrt]eyJ))", r"[\w-]{13,}+\.[\w-]{4,}(?:\.[\w-]*)*"),
    ("aws", r"A(?:KIA|SIA|BIA|CCA)", r"[A-Z0-9]{16}"),
    *(("token", prefix, body) for prefix, body in _TOKENS),
    *(("auth", rf"{each}\s+", _CREDENTIALS) for each in ("Bearer", "bearer", "BEARER")),
    *(("basic", rf"{each}\s+", r"[A-Za-z0-9+/]{6,}=*") for each in ("Basic", "basic", "BASIC")),
    (
        "url",
        r"://(?=[^\s/\"'<>?#\\]*@)",
        r"(?:[^\s/:@\"'<>\\]*:[^\s/\"'<>?#\\]+|[\w.~-]{12,})@",
    ),
)
"""Label, prefix and body. Each prefix begins with a letter: that lets `re` skip most places."""

SHAPES: Final = {
    label: tuple(prefix + body for _, prefix, body in each)
    for label, each in groupby(_LABELED, key=itemgetter(0))
}

_SHAPE: Final = later(
    "|".join(f"(?P<{label}>{'|'.join(shapes)})" for label, shapes in SHAPES.items()), re.ASCII
)
_HINT: Final = later(by_first_letter(prefix for _, prefix, _ in _LABELED), re.ASCII)
"""Matches the beginnings of the shapes."""

_ENDING: Final = {
    "-us": later(rf"(?<![\w-]){_HEX}{{32}}-us\d{{1,2}}(?![\w-])"),
    "_mmk": later(rf"(?<![\w-]){_PLAIN}{{6}}_{_PLAIN}{{29}}_mmk(?![\w-])"),
}
"""Formats that are recognized by their ends, keyed by a part of the end."""

_MARKS: Final = ("-----begin ", "private-lines: ", "bearer", "basic", "q~")
"""Words in lower case, of shapes that have blanks, or no long run."""

_RUN: Final = b"a" * 16
"""All other shapes have a run of at least as many letters, digits, `_`, `-`, `+` and `/`."""

_IN_RUNS: Final = bytes(
    ord("a") if chr(code).isalnum() or chr(code) in "_-+/" else ord(" ") for code in range(128)
).ljust(256)
_IN_WORDS: Final = bytes(
    code if chr(code).isalnum() or chr(code) in "_-+/.:=~@%" else ord(" ") for code in range(128)
).ljust(256)
"""Tables for `bytes.translate`."""

_AWS_SECRET: Final = later(
    r"(?<![A-Za-z0-9/+_-])(?=[A-Z0-9/+]*[a-z])(?=[a-z0-9/+]*[A-Z])(?=[A-Za-z/+]*[0-9])"
    r"[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=_-])"
)
_AWS_SECRET_LENGTH: Final = 40
_LONG_WORD: Final = later(r"(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{40}")


def may_be_shapes(text: str, lowered: str) -> bool:
    """Whether a text may hold secrets by their shape; a quick test.

    Args:
        lowered: The same in lower case.
    """
    if "://" in text and "@" in text:
        return True
    if any(mark in lowered for mark in _MARKS):
        return True
    data = text.encode("utf-8", "replace")
    if _RUN not in data.translate(_IN_RUNS):
        return False
    words = data.translate(_IN_WORDS).split()
    long = [word for word in words if len(word) >= LONG and _RUN in word.translate(_IN_RUNS)]
    plain = b" ".join(long).decode()
    if _HINT().search(plain) or any(each in plain for each in _ENDING):
        return True
    return _has_aws_secret(plain)


def find_shapes(text: str) -> Iterator[Secret]:
    """The secrets in a text that are recognized by their shape."""
    behind = 0
    for hint in _HINT().finditer(text):
        match = _SHAPE().match(text, hint.start()) if hint.start() >= behind else None
        if match is not None and (secret := _within(match)) is not None:
            behind = match.end()
            yield secret
    for end, pattern in _ENDING.items():
        if end in text:
            yield from ((*each.span(), "token") for each in pattern().finditer(text))
    if _has_aws_secret(text):
        yield from ((*each.span(), "aws") for each in _AWS_SECRET().finditer(text))


def _has_aws_secret(text: str) -> bool:
    """Whether a text may hold a key of AWS: 40 characters of base64, no prefix; a quick test."""
    # The pattern has to try every position. Node ids and paths are long too, but have dots.
    return any(
        _LONG_WORD().search(word) for word in text.split() if len(word) >= _AWS_SECRET_LENGTH
    )


def _within(match: re.Match[str]) -> Secret | None:
    """The part of a shape that is the secret; None if there is none."""
    start, end = match.span()
    label = match.lastgroup or ""
    if label == "url":
        user, colon, _ = match[0][3:-1].partition(":")
        if not colon:  # a token in the place of the user
            return (start + 3, end - 1, label) if is_random(user) else None
        at = start + 4 + len(user)
        return None if is_placeholder(match.string[at : end - 1]) else (at, end - 1, label)
    if label in ("auth", "basic"):
        value = match[0].split(None, 1)[1]
        if label == "basic" and not _is_basic(value):
            return None
        return end - len(value), end, "auth"
    return start, end, label


def _is_basic(text: str) -> bool:
    """Whether `text` is the base64 of `user:password`."""
    try:
        return b":" in base64.b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return False
