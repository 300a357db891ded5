"""What looks like a secret: the names of things, and the shapes of values inside a text.

Pure tables and patterns; runs on any thread. What becomes of a secret is `redact.py`'s business.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from itertools import accumulate
from itertools import pairwise
from types import MappingProxyType
from typing import Final

Secret = tuple[int, int, str]
"""Where a secret begins and ends in a text, and its label."""

_KEYS: Final = (
    "access account aes api auth consumer decryption deploy encryption hmac master private secret "
    "session shared signing ssh storage subscription webhook"
)
_TOKENS: Final = (
    "access api auth bearer csrf id oauth personal refresh secret security session xsrf"
)

_NAMES: Final = MappingProxyType(
    {
        word: label
        for label, words in {
            "password": "password passwd pwd passphrase passcode userpass dbpass smtppass rootpass "
            "adminpass",
            "secret": "secret",
            "token": f"token jwt {' '.join(f'{each}tokens' for each in _TOKENS.split())}",
            "key": " ".join(f"{each}key {each}keys" for each in _KEYS.split()),
            "auth": "authorization basicauth httpauth proxyauth authheader authheaders",
            "cookie": "cookie cookiejar",
            "credential": "credential cred",
            "session": "sessionid sessid phpsessid jsessionid",
        }.items()
        for plain in words.split()
        # A list of tokens is what a parser or a language model works on.
        for word in ((plain,) if label in ("token", "key") else (plain, f"{plain}s"))
    }
)
"""Words, and pairs of words written as one, to labels."""

_ENDINGS: Final = re.compile(
    r"(?:(?P<password>password|passwd|pwd|passphrase)s?|(?P<secret>secret)s?|(?P<token>token)"
    r"|(?P<key>apikey)s?)\Z"
)
"""Of words that were joined: `dbpassword`, `clientsecret`, `authtoken`."""

_ABOUT_WORDS: Final = (
    "age at attempts callback class cls cost count counts dir directory disabled enabled end "
    "endpoint expiration expired expires expiry factory field fields file filename files folder "
    "format func function handler hint idx ids in index kind label len length limit manager max "
    "min name names num number param params parser path paths pattern policy position pos prompt "
    "provider regex required rules scope scopes service size start store strength ttl type types "
    "uri uris url urls usage valid validator validators version"
)
_ABOUT: Final = frozenset(_ABOUT_WORDS.split())
"""Last words of names that tell something about a secret: `token_count`, `password_field`."""

_COUNTING: Final = frozenset({"has", "is", "max", "min", "n", "num", "number", "total", "use"})
"""First words of such names: `max_token`, `has_password`."""

_WORD: Final = re.compile(r"[A-Z]+(?![^\W\d_A-Z])|[A-Z]?[^\W\d_A-Z]+|[0-9]+")
"""Letters beyond ASCII count as lower-case ones."""

_MAX_NAME: Final = 200


def words_of(name: str) -> list[str]:
    """The lower-case words of a snake_case, camelCase, kebab-case or dotted name."""
    return [word.lower() for word in _WORD.findall(name[:_MAX_NAME])]


def spelled(name: str) -> str:
    """What all spellings of a name share: `taxnumber` for `tax_number`, `TaxNumber`, `TAX-NUMBER`.

    Raises:
        ValueError: There is no letter or digit in it.
    """
    if not (words := words_of(name)):
        raise ValueError(f"{name!r} is no name: it has no letter and no digit")
    return "".join(words)


def label_of_name(name: str, extra: Collection[str] = ()) -> str | None:
    """What kind of secret a thing of this name is; None if it is none.

    Args:
        name: Of a variable, an attribute, a key, a header, an environment variable.
        extra: Further names, `spelled`; also parts of longer names.
    """
    words = words_of(name)
    if not words:
        return None
    if extra and any(run in extra for at in range(len(words)) for run in accumulate(words[at:])):
        return "name"
    if words == ["auth"]:
        return "auth"
    if words[-1] in _ABOUT or words[0] in _COUNTING:
        return None
    pairs = [a + b for a, b in pairwise(words)]
    for word in (*words, *pairs):
        if word in _NAMES:
            return _NAMES[word]
    return next((label for word in words if (label := _label_by_ending(word))), None)


def _label_by_ending(word: str) -> str | None:
    found = _ENDINGS.search(word)
    return found.lastgroup if found else None


_SHAPES: Final = {
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

_SHAPE: Final = re.compile(
    "|".join(f"(?P<{label}>{'|'.join(shapes)})" for label, shapes in _SHAPES.items())
)
SHAPE_HINT: Final = (
    r"-----BEGIN |A(?:KIA|SIA|BIA|CCA|Iza|GE-S)|eyJ|g(?:h[pousr]_|ithub_pat_|l[a-z]{2,5}-)"
    r"|x(?:ox|app-)|hooks\.slack|s(?:k[-_]|hp)|rk_|whsec_|GOCSPX-|ya29\.|npm_|pypi-|h(?:f_|vs\.)"
    r"|d(?:o[opr]_v1|api|ckr_pat_)|SG\.|B(?:earer|EARER|asic|ASIC)|b(?:earer|asic)|://[^\s/\"'<>?#\\]*@"
)
"""How the shapes begin. Literal first letters let `re` skip from place to place, 15 ns a character
instead of 150."""

_HINT: Final = re.compile(SHAPE_HINT)
_AWS_SECRET: Final = re.compile(
    r"(?<![A-Za-z0-9/+_-])(?=[A-Z0-9/+]*[a-z])(?=[a-z0-9/+]*[A-Z])(?=[A-Za-z/+]*[0-9])"
    r"[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=_-])"
)
_AWS_SECRET_LENGTH: Final = 40


def find_shapes(text: str) -> Iterator[Secret]:
    """Values that are secrets wherever they appear, but for AWS's."""
    behind = 0
    for hint in _HINT.finditer(text):
        found = _SHAPE.match(text, hint.start()) if hint.start() >= behind else None
        if found is not None and (secret := _within(found)) is not None:
            behind = found.end()
            yield secret


def find_aws_secrets(text: str) -> Iterator[Secret]:
    """AWS secret access keys: 40 characters of base64 without a prefix."""
    # The pattern has to try every position; few texts have words that are long enough.
    if has_long_word(text):
        for found in _AWS_SECRET.finditer(text):
            yield *found.span(), "aws"


def has_long_word(text: str) -> bool:
    """Whether an AWS secret access key may be in the text; quick."""
    if len(text) < _AWS_SECRET_LENGTH:
        return False
    return len(max(text.split(), key=len, default="")) >= _AWS_SECRET_LENGTH


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


_STEMS: Final = "pass|pwd|secret|token|auth|cook|cred|key|sess|jwt"

_NAMED: Final = re.compile(
    r"(?<![\w.-])(?P<option>--)?(?P<name>[\w.-]++)"
    r"(?:(?:\\{0,3}[\"'])?\]?[ \t]{0,8}(?:[=!:]?=|=>|:)[ \t]{0,8}|(?(option) |(?!)))"
)
"""A name and what stands between it and its value: `token=`, `"token": `, `--token `."""

_QUOTED: Final = re.compile(
    r"[bBrRuUfF]{0,2}(?P<quote>\"\"\"|'''|\\{0,3}[\"'])"
    r"(?P<value>(?:[^\\\"'\n]++|(?!(?P=quote))(?:\\.|[^\n]))*+)"
)
_BARE: Final = re.compile(r"(?P<value>(?:[^\s,;&\"'<>]++|,(?![\s\"'{\[]|[\w.-]*[=:]|\Z))++)")
_HEADER: Final = re.compile(r"(?P<value>[^\r\n\"'\\]+)")
_SCHEME: Final = re.compile(r"(?:Bearer|Basic|Digest|Token|Negotiate|ApiKey)[ \t]+", re.IGNORECASE)

_NO_SECRET: Final = re.compile(
    r"""(?ix) (?: none | null | nil | true | false | undefined | 0 | \*+ | \.+ | … | [-\]})(\[{]+
    | (?:str|int|bytes|bool|float|any|optional|union|list|dict|tuple|secretstr)(?:\[[\w\[\]|.]*)?
    | %[sdr] | \{[\w.!:]*\} | \$\{\w+\} | <redacted:[^<>#]*\#[0-9a-f]+> )"""
)
"""Values that are nothing, types, placeholders."""

_CALL: Final = re.compile(r"(?:[A-Za-z_]\w*\.)*(?!get)[A-Za-z_]\w*\((?=[bBrRuUfF]{0,2}[\"'])")
"""`SecretStr('…')`, as `repr` shows values that are secret; but not `environ.get('…')`."""

_CODE: Final = re.compile(
    r"(?:[A-Za-z_]+\.)*[A-Za-z_]+[(\[].*"
    r"|(?:self|cls|os|args|config|settings|request|response|data)(?:\.[A-Za-z_]\w*)+"
)
_PROSE: Final = re.compile(
    r"(?:a|an|and|are|at|by|can|cannot|could|does|expected|expired|for|from|has|in|incorrect"
    r"|invalid|is|missing|must|no|not|of|on|or|rejected|required|should|that|the|to|too|was|will"
    r"|with|wrong)(?= )"
)
"""How a sentence goes on after `Invalid password:`."""


class NamedSecrets:
    """Finds the values that a text gives to sensitive names.

    Args:
        label_of: The label of a sensitive name, None for any other.
        extra: The names that only `label_of` knows, `spelled`.
    """

    __slots__ = ("_extra", "_label_of", "_stem")

    def __init__(self, label_of: Callable[[str], str | None], extra: Collection[str]) -> None:
        self._label_of = label_of
        self._extra = extra
        spaced = ("[ _.-]*+".join(map(re.escape, name)) for name in extra)
        self._stem = re.compile("|".join((_STEMS, *spaced)))

    def may_be_in(self, text: str) -> bool:
        """Whether it is worth looking; quick."""
        if "=" in text or ":" in text or "--" in text:
            # Searching the lower-case text is five times as fast as ignoring the case.
            return self._stem.search(text.lower()) is not None
        return False

    def find(self, text: str, *, is_source: bool = False) -> Iterator[Secret]:
        """The values, without their quotes.

        Args:
            text: Any text.
            is_source: Whether it is Python source: only literals are values then.
        """
        if not self.may_be_in(text):
            return
        behind = 0
        for found in _NAMED.finditer(text):
            if found.start() < behind:
                continue  # inside of the last secret
            label = self._label(text, found)
            if label is not None and (span := _value(text, found, label, is_source)):
                behind = span[1]
                yield *span, label

    def _label(self, text: str, found: re.Match[str]) -> str | None:
        name, start = found["name"], found.start()
        is_likely = self._stem.search(name.lower()) is not None
        label = self._label_of(name) if is_likely else None
        if label is None and (is_likely or self._extra) and text.endswith(" ", 0, start):
            # "API key: …": words before belong to the name.
            words = words_of(text[max(start - 60, 0) : start] + name)
            phrases = ["".join(words[at:]) for at in range(len(words))]
            label = _NAMES.get("".join(words[-2:])) if is_likely else None
            label = "name" if any(each in self._extra for each in phrases) else label
        return label


def _value(text: str, found: re.Match[str], label: str, is_source: bool) -> tuple[int, int] | None:
    """Where the value of a name is; None if it is none, or no secret."""
    at = found.end()
    call = _CALL.match(text, at)
    value = _QUOTED.match(text, call.end() if call else at)
    if value is None:
        return None if is_source else _bare_value(text, found, label)
    start, end = value.span("value")
    scheme = _SCHEME.match(text, start, end)
    start = scheme.end() if scheme else start
    return None if _NO_SECRET.fullmatch(text, start, end) or start == end else (start, end)


def _bare_value(text: str, found: re.Match[str], label: str) -> tuple[int, int] | None:
    """Where a value without quotes is."""
    at = found.end()
    colon = found[0].rstrip().endswith(":")
    scheme = _SCHEME.match(text, at)
    is_header = colon and label in ("auth", "cookie")
    value = (_HEADER if is_header else _BARE).match(text, scheme.end() if scheme else at)
    told = value["value"].rstrip(")]} \t") if value else ""
    if value is None or not told or _NO_SECRET.fullmatch(told):
        return None
    if told == found["name"].rpartition(".")[2] or _CODE.fullmatch(value["value"]):
        return None
    if colon and _PROSE.match(text, at):
        return None
    return value.start(), value.start() + len(told)
