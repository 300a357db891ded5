"""Recognizes names of secrets: of variables, attributes, keys, headers, environment variables.

Pure tables; runs on any thread. `harmless.py` decides whether a value under such a name is a
secret; `in_text.py` finds names and their values in texts.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Final

from pytest_cideldill.interpreter.patterns import later

MAYBE: Final = "?"
"""Suffix of a label: under such a name only values that look random are secrets."""

_KEYS: Final = "api aes auth decryption enc encryption fernet hmac private priv secret signing ssh"
_MAYBE_KEYS: Final = (
    "access account client consumer deploy license master service session shared storage "
    "subscription webhook"
)
_TOKENS: Final = (
    "access api auth bearer csrf id oauth personal refresh secret security session xsrf"
)

_NAMES: Final = MappingProxyType(
    {
        word: label
        for label, words in {
            "password": "password passwd pwd pw passphrase passcode userpass dbpass smtppass "
            "rootpass adminpass storepass keypass bindpw rootpw psk passwort kennwort contraseña "
            "contrasena motdepasse senha wachtwoord hasło heslo lösenord parola пароль 密码 密碼 "
            "パスワード 비밀번호",
            "secret": "secret",
            "token?": "csrf",
            "token": f"token jwt bearer {' '.join(f'{each}tokens' for each in _TOKENS.split())}",
            "key": " ".join(f"{each}key {each}keys" for each in _KEYS.split()),
            "key?": " ".join(f"{each}key {each}keys" for each in _MAYBE_KEYS.split()),
            "auth": "authorization basicauth httpauth proxyauth authheader authheaders",
            "cookie": "cookie cookiejar",
            "credential": "credential cred",
            "session?": "sessionid sessid phpsessid jsessionid sid",
            "signature?": "signature sig",
            "dsn?": "dsn",
            "pin": "pin otp totp pincode otpcode recoverycode recoverycodes backupcode backupcodes "
            "verificationcode securitycode accesscode unlockcode",
        }.items()
        for plain in words.split()
        # A list of tokens is what a parser or a language model works on.
        for word in (
            (plain,) if label.rstrip(MAYBE) in ("token", "key", "pin") else (plain, f"{plain}s")
        )
    }
)
"""Words, and pairs of words written as one word, with their labels."""

_PARTS: Final = frozenset(f"key keys {_KEYS} {_MAYBE_KEYS} {_TOKENS}".split())

_ENDINGS: Final = later(
    r"(?:(?P<password>password|passwd|pwd|passphrase)s?|(?P<secret>secret)s?|(?P<token>token)"
    r"|(?P<key>apikey|privkey|privatekey|secretkey)s?)\Z"
)
"""Last parts of words that were joined: `dbpassword`, `clientsecret`, `authtoken`."""

_ABOUT_WORDS: Final = (
    "age alg algorithm algorithms alphabet arn at attempts backend banner bucket budget callback "
    "category charset check checker claim claims class cls context cost count counts dir "
    "directory disabled domain enabled end endpoint entropy error errors expiration expired "
    "expires expiry factory field fields file filename files fingerprint folder form format func "
    "function handler hasher hashers helper helpers hint httponly id ids idx in index input "
    "issuer iterations kid kind label len length level lifetime limit manager max message "
    "messages middleware min model msg name names num number offset param params parser path "
    "paths pattern payload placeholder policy pos position process prompt provider quota rate "
    "reason ref regex required rounds rules samesite santa schema scope scopes score serializer "
    "service size span start state status store stream strength timeout timestamp ttl type types "
    "uri uris url urls usage valid validation validator validators version view widget"
)
_ABOUT: Final = frozenset(_ABOUT_WORDS.split())
"""Last words of names that are about a secret: `token_count`, `password_field`."""

_COUNTING_WORDS: Final = (
    "allow allows can has is max min n need needs num number require required requires should "
    "skip total use uses with without"
)
_COUNTING: Final = frozenset(_COUNTING_WORDS.split())
"""First words of such names: `max_token`, `has_password`."""

_NO_TOKEN_WORDS: Final = (
    "begin bos bucket cancel cancellation cls continuation ctx cur current cursor end eof eos "
    "first identifier ignore keyword last lookahead mask next operator pad page pagination peek "
    "prev previous resume sep special start stop string sync unk"
)
_NO_TOKENS: Final = frozenset(_NO_TOKEN_WORDS.split())
"""Words before `token` in the names of lexers, language models, pages of lists."""

_NO_KEY_WORDS: Final = (
    "arrow bucket cache candidate column composite config data dedup dict event feature field file "
    "flag foreign group hash hot i18n idempotency index item json kv lookup map memcache message "
    "natural object order partition press primary public query redis routing row s3 search setting "
    "settings shard sort sql table translation unique yaml"
)
_NO_KEYS: Final = frozenset(_NO_KEY_WORDS.split())
"""Words before `key` in names of keys that are no secrets; other keys may be (`STRIPE_KEY`)."""

_OWNER_WORDS: Final = (
    "account admin app auth become bind db default email ftp http key keystore ldap login mail "
    "mongo my mysql pg postgres proxy redis root service smtp ssh ssl sudo tls truststore user "
    "vault wifi"
)
_OWNERS: Final = frozenset(_OWNER_WORDS.split())
"""Words before `pass` where it is short for `password`."""

_ASKING_WORDS: Final = (
    "check compare compares matches on parse print reset set test update validate verify"
)
_ASKING: Final = frozenset(_ASKING_WORDS.split())
"""First words of functions that return no secret: `check_password`."""

_NO_SECRETS: Final = frozenset({"jwtheader"})

_WORD: Final = re.compile(r"[A-Z]+(?![^\W\d_A-Z])|[A-Z]?[^\W\d_A-Z]+|[0-9]+")
"""Letters beyond ASCII count as lower-case ones."""

MAX_NAME: Final = 200
"""Longer names are not looked at."""


def words_of(name: str) -> list[str]:
    """The lower-case words of a snake_case, camelCase, kebab-case or dotted name."""
    return [word.lower() for word in _WORD.findall(name[:MAX_NAME])]


def spelled(name: str) -> str:
    """A name in the form of all its spellings: `taxnumber` for `tax_number`, `TAX-NUMBER`.

    Raises:
        ValueError: There is no letter or digit in the name.
    """
    if not (words := words_of(name)):
        raise ValueError(f"{name!r} is no name: it has no letter and no digit")
    return "".join(words)


def label_of_name(
    name: str, extra: Collection[str] = (), shown: Collection[str] = ()
) -> str | None:
    """The kind of secret that a name stands for; None if it stands for none.

    Args:
        name: The name of a variable, an attribute, a key, a header, an environment variable.
        extra: Further names of secrets, `spelled`; they count in longer names too.
        shown: Names of no secrets, `spelled`; they count as a whole, or behind the last dot.

    Returns:
        A word for tags, followed by `MAYBE` if only random values are secrets.
    """
    words = words_of(name)
    if not words:
        return None
    if shown and ("".join(words) in shown or "".join(words_of(name.rpartition(".")[2])) in shown):
        return None
    if extra and any(run in extra for at in range(len(words)) for run in accumulate(words[at:])):
        return "name"
    return _label_of_words(words)


def gives_secret(function: str) -> bool:
    """Whether a function whose name is that of a secret may return the secret."""
    words = words_of(function)
    return bool(words) and words[0] not in _ASKING


def is_word_of_name(word: str) -> bool:
    """Whether a word in lower case names secrets, alone or in a pair."""
    return word in _NAMES or word in _PARTS


def _label_of_words(words: list[str]) -> str | None:
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if before + last in ("sessionid", "sessid"):
        return "session?"
    if last in _ABOUT or words[0] in _COUNTING or before + last in _NO_SECRETS:
        return None
    if last == "token" and before in _NO_TOKENS:
        return None
    if last == "auth":
        return "auth"
    # Mostly of a parser or a language model.
    if last == "tokens" or (before == "token" and last in ("text", "string", "value")):
        return "token?"
    if last == "pass" and (not before or before in _OWNERS):
        return "password"
    pairs = [a + b for a, b in pairwise(words)]
    triples = map("".join, zip(words, words[1:], words[2:], strict=False))
    for word in (*words, *pairs, *triples):
        if word in _NAMES:
            return _NAMES[word]
    if last == "key" and before and before not in _NO_KEYS:
        return "key?"
    endings = filter(None, map(_ENDINGS().search, words))
    return next((ending.lastgroup for ending in endings), None)
