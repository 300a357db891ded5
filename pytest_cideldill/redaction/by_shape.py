"""What is a secret by its shape, wherever it appears: keys, tokens, passwords in addresses.

Pure patterns; runs on any thread. What becomes of a secret is `redactor.py`'s business.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Final

from pytest_cideldill.patterns import later

Secret = tuple[int, int, str]
"""Where a secret begins and ends in a text, and its label."""

SHAPES: Final = {
    "pem": (
        r"-----BEGIN (?=[A-Z0-9 ]{0,40}PRIVATE KEY)[A-Z0-9 ]++-----"
        r"(?:[A-Za-z0-9+/=,:\s\"'\\.()]|-(?!----))*+(?:-----END [A-Z0-9 ]{1,60}-----)?",
        r"AGE-SECRET-KEY-1[0-9A-Za-z]{20,}",
    ),
    "jwt": (r"eyJ(?:(?<![\w-]eyJ)|(?<=\\[nrt]eyJ))[\w-]{5,}+\.[\w-]{4,}(?:\.[\w-]*)*",),
    "aws": (r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}",),
    "token": (
        r"gh[pousr]_[A-Za-z0-9]{16,}",
        r"github_pat_\w{16,}",
        r"gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|imt|oas)-[\w.-]{16,}",
        r"xox[a-z](?:\.[a-z]+)?-[\w.-]{8,}",
        r"xapp-[\w-]{8,}",
        r"hooks\.slack\.com/services/[\w/]+",
        r"[sr]k_(?<![A-Za-z0-9][sr]k_)(?:live|test)_[A-Za-z0-9]{8,}",
        r"sk-(?<![\w-]sk-)[\w-]{20,}",
        r"whsec_[\w+/=-]{16,}",
        r"AIza[\w-]{30,}",
        r"GOCSPX-[\w-]{16,}",
        r"ya29\.[\w-]{10,}",
        r"npm_[A-Za-z0-9]{30,}",
        r"pypi-(?:Ag[\w-]{12,}|[\w-]{50,})",
        r"hf_[A-Za-z0-9]{30,}",
        r"hvs\.[\w-]{20,}",
        r"do[opr]_v1_[a-f0-9]{40,}",
        r"dapi[a-f0-9]{32}",
        r"dckr_pat_[\w-]{20,}",
        r"shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}",
        r"SG\.[\w-]{16,}\.[\w-]{16,}",
    ),
    "auth": tuple(
        rf"{scheme}\s+(?:(?=[\w.~+/-]*\d)[\w.~+/-]{{6,}}|[\w.~+/-]{{16,}})=*"
        for scheme in ("Bearer", "bearer", "BEARER")
    ),
    "basic": tuple(rf"{scheme}\s+[A-Za-z0-9+/]{{6,}}=*" for scheme in ("Basic", "basic", "BASIC")),
    "url": (r"://[^\s/:@\"'<>\\]*:[^\s/\"'<>?#\\]+@",),
}

_SHAPE: Final = later(
    "|".join(f"(?P<{label}>{'|'.join(shapes)})" for label, shapes in SHAPES.items())
)
SHAPE_HINT: Final = (
    r"-----BEGIN |A(?:KIA|SIA|BIA|CCA|Iza|GE-S)|eyJ|g(?:h[pousr]_|ithub_pat_|l[a-z]{2,5}-)"
    r"|x(?:ox|app-)|hooks\.slack|s(?:k[-_]|hp)|rk_|whsec_|GOCSPX-|ya29\.|npm_|pypi-|h(?:f_|vs\.)"
    r"|d(?:o[opr]_v1|api|ckr_pat_)|SG\.|B(?:earer|EARER|asic|ASIC)|b(?:earer|asic)|://[^\s/\"'<>?#\\]*@"
)
"""How the shapes begin. Literal first letters let `re` skip from place to place, 15 ns a character
instead of 150."""

_HINT: Final = later(SHAPE_HINT)
_AWS_SECRET: Final = later(
    r"(?<![A-Za-z0-9/+_-])(?=[A-Z0-9/+]*[a-z])(?=[a-z0-9/+]*[A-Z])(?=[A-Za-z/+]*[0-9])"
    r"[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=_-])"
)
_AWS_SECRET_LENGTH: Final = 40
_LONG_WORD: Final = later(r"(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{40}")


def may_be_shapes(text: str, lowered: str) -> bool:
    """Whether there may be values that are secrets wherever they appear; quick.

    Args:
        text: Any text.
        lowered: The same in lower case.
    """
    # Of those without a capital letter each has one of these in it.
    return (
        text != lowered
        or "_" in text
        or "-" in text
        or "@" in text
        or "dapi" in text
        or "hvs." in text
        or "ya29." in text
        or "basic" in text
        or "bearer" in text
        or "hooks.slack" in text
    )


def find_shapes(text: str) -> Iterator[Secret]:
    """Values that are secrets wherever they appear, but for AWS's."""
    behind = 0
    for hint in _HINT().finditer(text):
        found = _SHAPE().match(text, hint.start()) if hint.start() >= behind else None
        if found is not None and (secret := _within(found)) is not None:
            behind = found.end()
            yield secret


def find_aws_secrets(text: str) -> Iterator[Secret]:
    """AWS secret access keys: 40 characters of base64 without a prefix."""
    # The pattern has to try every position; few texts have words that are long enough.
    if has_long_word(text):
        for found in _AWS_SECRET().finditer(text):
            yield *found.span(), "aws"


def has_long_word(text: str) -> bool:
    """Whether an AWS secret access key may be in the text; quick."""
    if len(text) < _AWS_SECRET_LENGTH:
        return False
    if len(max(text.split(), key=len, default="")) < _AWS_SECRET_LENGTH:
        return False
    return _LONG_WORD().search(text) is not None  # node ids and paths are long, but have dots


def _within(found: re.Match[str]) -> Secret | None:
    """What of a shape is the secret."""
    start, end = found.span()
    label = found.lastgroup or ""
    if label == "url":
        return found.string.index(":", start + 3) + 1, end - 1, label
    if label in ("auth", "basic"):
        value = found[0].split(None, 1)[1]
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
