"""Redaction: which names and values are secrets, and that nothing of them is left."""

from __future__ import annotations

import base64
import json
import pickle
import random
import re
import string
import subprocess
import sys
import threading

import pytest

from pytest_cideldill.redaction.redactor import MARGIN, Redactor
from pytest_cideldill.rendering.one_line import render
from pytest_cideldill.rendering.tree import describe
from tests.each_case import for_each

TAG = re.compile(r"<redacted:[^<>#]+#[0-9a-f]+>")
ENVIRONMENT = {"DEPLOY_TOKEN": "p4ss,word;with'signs", "PWD": "/srv/project", "HOME": "/srv/home"}


def noise(length: int, alphabet: str = string.ascii_letters + string.digits, seed: int = 7) -> str:
    return "".join(random.Random(seed).choices(alphabet, k=length))


def jwt() -> str:
    parts = (b'{"alg":"HS256"}', b'{"sub":"1234567890"}', noise(24).encode())
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


BODY = "\n".join(noise(64, seed=seed) for seed in range(6))
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----"
BASIC = base64.b64encode(b"alice:Zb8-qq71-Lm").decode()

# Joined from pieces, so that no scanner takes this file for a leak. Text with {} and the secret.
PLANTED = {
    "pem": ("key:\n{}\nend", PEM),
    "escaped pem": ("'{}'", PEM.replace("\n", "\\n")),
    "jwt": ("got {} back", jwt()),
    "aws id": ("id {}", "AK" + "IA" + noise(16, string.ascii_uppercase + string.digits)),
    "aws secret": ("secret is {}.", "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY"),
    "github": ("git clone {}", "gh" + "p_" + noise(36)),
    "github fine": ("{}", "github" + "_pat_" + noise(40)),
    "gitlab": ("x{}", "glp" + "at-" + noise(20)),
    "slack": ("{} sent", "xo" + "xb-" + noise(24)),
    "stripe": ("({})", "sk" + "_live_" + noise(24)),
    "google": ("{}", "AI" + "za" + noise(35)),
    "npm": ("//registry/:_auth={}", "np" + "m_" + noise(36)),
    "pypi": ("upload {}", "py" + "pi-Ag" + noise(60)),
    "bearer": ("curl -H 'X: Bearer {}'", noise(20)),
    "basic": ("Basic {}", BASIC),
    "url": ("postgres://shop:{}@db.example/shop", "tr0ub4dor&3"),
    "url without user": ("redis://:{}@cache:6379/0", "q8Wz7yK2m"),
    "pair": ("login(user=1, password={})", "hunter2hunter2"),
    "json": ('{{"user": 1, "apiToken": "{}"}}', "a-b c,d;e=f"),
    "escaped json": ('{{\\"client_secret\\": \\"{}\\", \\"x\\": 1}}', "Zq1x9,pV&3"),
    "repr": ("{{'Authorization': 'Token {}'}}", "0123456789abcdef"),
    "header": ("GET /\nCookie: {}\nHost: x", "sid=Zq1x9pV7; theme=Qw8er7ty"),
    "query": ("GET /callback?code=1&access_token={}&x=1", "Ab-9_xYz71Q"),
    "option": ("deploy --api-key {} --fast", "Zq1x9pV7Lm"),
    "prose": ("API key: {}", "Zq1x9pV7Lm"),
    "repr of a secret": ("User(password=SecretStr('{}'))", "hunter2hunter2"),
    "environment": ("it said {}!", ENVIRONMENT["DEPLOY_TOKEN"]),
    "environment in a pair": ("token={}", ENVIRONMENT["DEPLOY_TOKEN"]),
}


@pytest.fixture
def redactor() -> Redactor:
    return Redactor(environ=ENVIRONMENT)


def left_of(secret: str, text: str) -> list[str]:
    """Every piece of five characters of the secret that is still in the text."""
    text = TAG.sub("\0", text)
    pieces = {secret[at : at + 5] for at in range(max(len(secret) - 4, 1))}
    return sorted(piece for piece in pieces if piece in text)


@for_each("name", PLANTED)
def test_nothing_of_a_planted_secret_is_left(name: str) -> None:
    context, secret = PLANTED[name]
    redacted = Redactor(environ=ENVIRONMENT).redact_text(context.format(secret))
    assert left_of(secret, redacted) == []
    assert TAG.search(redacted)


@for_each("name", PLANTED)
def test_nothing_of_a_planted_secret_is_left_in_bytes(name: str) -> None:
    context, secret = PLANTED[name]
    redactor = Redactor(environ=ENVIRONMENT)
    redacted = redactor.redact_bytes(b"\xff\x00 " + context.format(secret).encode())
    assert left_of(secret, redacted.decode("latin-1")) == []
    assert redacted.startswith(b"\xff\x00 ")


@pytest.mark.full
@pytest.mark.parametrize("step", [3, 7])
@for_each("name", PLANTED)
def test_a_secret_that_reaches_over_the_limit_is_replaced_as_a_whole(step: int, name: str) -> None:
    context, secret = PLANTED[name]
    redactor = Redactor(environ=ENVIRONMENT)
    text = f"{noise(30, 'abc ')} {context.format(secret)} {noise(3 * MARGIN, 'abc ')}"
    whole = redactor.redact_text(text)
    for limit in range(0, len(context) + len(secret) + 40, step):
        cut = redactor.redact_text(text, limit)
        assert left_of(secret, cut) == []
        assert whole.startswith(cut)


def test_the_tag_of_a_secret_longer_than_what_is_looked_at_is_that_of_all_of_it(
    redactor: Redactor,
) -> None:
    long = PEM.replace(BODY, "\n".join([BODY] * 40))
    assert redactor.redact_text(f"{long} and on", 10) == redactor.redact_text(long)
    assert redactor.redact_text(long, 10) != redactor.redact_text(PEM, 10)


def test_many_secrets_before_the_limit_bring_nothing_from_behind_it(redactor: Redactor) -> None:
    secrets = ["gh" + "p_" + noise(36, seed=seed) for seed in range(200)]
    text = " ".join(secrets)
    for limit in (1, 50, 500, 5_000):
        redacted = redactor.redact_text(text, limit)
        assert not any(left_of(secret, redacted) for secret in secrets)
        assert len(TAG.findall(redacted)) <= limit // 40 + 1


@for_each("seed", range(40))
def test_redaction_is_idempotent_and_complete_in_random_texts(seed: int) -> None:
    choice = random.Random(seed)
    redactor = Redactor(environ=ENVIRONMENT)
    planted = choice.sample(list(PLANTED.values()), 6)
    glue = ["\n", " ", "; ", ", ", "\t", " token ", " == ", " key: ", '" ', "' ", " a=b&c=d "]
    text = "".join(context.format(secret) + choice.choice(glue) for context, secret in planted)
    redacted = redactor.redact_text(text)
    assert redactor.redact_text(redacted) == redacted
    closed = ("environment", "github", "jwt", "pem", "aws id", "slack", "stripe", "google")
    for _, secret in (PLANTED[name] for name in closed):
        assert left_of(secret, redacted) == []


@for_each("seed", range(40))
def test_redaction_is_idempotent_for_what_looks_like_its_own_tags(seed: int) -> None:
    pieces = [
        "<redacted:",
        "token",
        "#a1",
        ">",
        "=",
        ": ",
        '"',
        "'",
        "password",
        " ",
        "Bearer ",
        "://a:b@c",
        "<redacted:token#a1>",
        "x1y2z3w4",
        "env:X",
        ",",
        "\\",
        "eyJhbGci.eyJ",
    ]
    text = "".join(random.Random(seed).choices(pieces, k=40))
    redactor = Redactor(environ=ENVIRONMENT)
    redacted = redactor.redact_text(text)
    assert redactor.redact_text(redacted) == redacted


@for_each(
    "text",
    [
        "",
        "BULK10",
        "shop/cart.py:12: in total",
        "Cart(items=[3 items], coupon='BULK10')",
        "https://example.org:8080/users/a@b.example?page=2",
        "tokenize the text: 12 tokens, max_tokens=50",
        "password: str",
        "def login(user: str, password: str | None = None) -> Token:",
        "token = get_token()",
        "self.password = password",
        "secrets = config.secrets",
        "password=None, token='', api_key=\"\"",
        "Invalid password: must be longer",
        "KeyError: 'token'",
        "password = os.environ.get('DB_PASSWORD')",
        "expected a token",
        "def mark_test_complete(token, secret): isinstance(token, Secret)",
        "{'password': SecretStr('**********')}",
        "the bearer authentication and the Basic training",
        "author: Jane, keyboard=qwerty, secretary: Bob",
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "task-abcdefghijklmnopqrstuvwxyz",
        "test_something_that_has_a_very_long_name_in_this_project[case-1]",
        "/srv/project/tests/test_a.py",
        "-----BEGIN CERTIFICATE-----",
        "id=123456789012345678901234567890",
        "hmm: é ü ✓ \udcff",
    ],
)
def test_an_ordinary_text_stays_as_it_is(redactor: Redactor, text: str) -> None:
    assert redactor.redact_text(text) == text


@for_each(
    "name",
    [
        "password",
        "passwd",
        "pwd",
        "PASSWORD",
        "userPassword",
        "user_password",
        "pg_passwd",
        "PGPASSWORD",
        "MYSQL_PWD",
        "dbpwd",
        "new-password",
        "password1",
        "passphrase",
        "db.password",
        "pass_word",
        "secret",
        "client_secret",
        "clientSecret",
        "SECRETS",
        "token",
        "access_token",
        "accessToken",
        "authtoken",
        "X-Auth-Token",
        "csrf_token",
        "idToken",
        "OAuthToken",
        "access_tokens",
        "jwt",
        "api_key",
        "apiKey",
        "APIKey",
        "X-API-Key",
        "apikeys",
        "API_KEYS",
        "private_key",
        "privateKey",
        "secret_key",
        "aws_secret_access_key",
        "signing_key",
        "SharedAccessKey",
        "AccountKey",
        "authorization",
        "Authorization",
        "Proxy-Authorization",
        "auth",
        "auth_header",
        "basic_auth",
        "cookie",
        "Cookies",
        "Set-Cookie",
        "cookiejar",
        "credential",
        "credentials",
        "aws_creds",
        "session_id",
        "sessionid",
        "PHPSESSID",
        "session_key",
        "password_hash",
        "token_value",
    ],
)
def test_a_name_is_sensitive(redactor: Redactor, name: str) -> None:
    assert redactor.name_is_sensitive(name)


@for_each(
    "name",
    [
        "x",
        "tokenize",
        "tokenizer",
        "tokens_count",
        "token_count",
        "max_tokens",
        "total_tokens",
        "author",
        "authors",
        "authority",
        "authenticated",
        "secretary",
        "secretariat",
        "keyboard",
        "key",
        "keys",
        "primary_key",
        "foreign_key",
        "sort_key",
        "cache_key",
        "public_key",
        "monkey",
        "passed",
        "bypass",
        "compass",
        "passenger",
        "pass_count",
        "session",
        "session_maker",
        "cwd",
        "password_field",
        "password_length",
        "token_type",
        "token_url",
        "token_expires_in",
        "has_password",
        "is_secret",
        "cookie_name",
        "cookie_path",
        "private",
        "public",
        "keystone",
        "description",
        "identity",
        "hash",
        "user",
        "username",
        "email",
        "Ä",
        "__",
        "42",
    ],
)
def test_a_name_is_not_sensitive(redactor: Redactor, name: str) -> None:
    assert not redactor.name_is_sensitive(name)


def test_the_same_secret_has_the_same_tag_wherever_it_is(redactor: Redactor) -> None:
    tags = {
        redactor.hide_under("password", "hunter2!"),
        redactor.hide_under("token", "hunter2!"),
        *TAG.findall(redactor.redact_text("password=hunter2!")),
        *TAG.findall(redactor.redact_text("ftp://joe:hunter2!@example.org")),
        *TAG.findall(redactor.redact_text("{'Authorization': 'Bearer hunter2!'}")),
        redactor.hide_under("password", redactor.hide_under("password", "hunter2!")),
    }
    assert len(tags) == 1
    assert redactor.hide_under("password", "hunter3!") not in tags


def test_the_tag_of_an_environment_value_names_the_variable(redactor: Redactor) -> None:
    value = ENVIRONMENT["DEPLOY_TOKEN"]
    assert "<redacted:env:DEPLOY_TOKEN#" in redactor.redact_text(f"x{value}x")
    assert "<redacted:env:DEPLOY_TOKEN#" in redactor.hide_under("password", value)


def test_short_common_and_harmless_environment_values_are_no_secrets() -> None:
    environ = {
        "API_TOKEN": "short",
        "DB_PASSWORD": "postgres",
        "PWD": "/srv/project",
        "LANG": "C.UTF-8",
    }
    text = "short postgres /srv/project"
    assert Redactor(environ=environ).redact_text(text) == text


def test_distinct_secrets_have_distinct_tags_and_a_tag_never_changes(redactor: Redactor) -> None:
    values = [f"value {number}" for number in range(3_000)]
    tags = [redactor.tag("token", value) for value in values]
    assert len(set(tags)) == len(values)
    assert [redactor.tag("key", value) for value in values] == tags


def test_beyond_the_most_values_tags_are_long_and_still_distinct(
    redactor: Redactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = redactor.tag("token", "known")
    monkeypatch.setattr("pytest_cideldill.redaction.tags._MOST_TAGS", 1)
    tags = {redactor.tag("token", f"value {number}") for number in range(500)}
    assert len(tags) == 500
    assert redactor.tag("token", "known") == known


def test_processes_with_the_same_key_give_equal_tags() -> None:
    """The same value gets the same tag."""
    one, other = (Redactor(environ=ENVIRONMENT, key=b"key of the run") for _ in range(2))
    values = [f"value {number}" for number in range(200)]
    tags = {value: one.tag("token", value) for value in values}
    assert {value: other.tag("token", value) for value in reversed(values)} == tags
    text = f"password=hunter2! {ENVIRONMENT['DEPLOY_TOKEN']} {jwt()}"
    assert one.redact_text(text) == other.redact_text(text)
    assert one.redact_text(text) != Redactor(environ=ENVIRONMENT, key=b"k").redact_text(text)


def test_values_whose_digits_begin_alike_have_longer_and_distinct_tags(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two hex digits for 300 values: every tag is taken twice at least."""
    monkeypatch.setattr("pytest_cideldill.redaction.tags._DIGITS", 2)
    redactor = Redactor(environ={})
    values = [f"value {number}" for number in range(300)]
    digits = [redactor.tag("token", value).partition("#")[2] for value in values]
    assert len(set(digits)) == 300
    assert max(map(len, digits)) > len("a1>")


def test_tags_differ_from_run_to_run() -> None:
    assert len({Redactor(environ={}).tag("token", "hunter2") for _ in range(30)}) > 1


def test_endless_secrets_are_distinguished_by_their_start_and_their_length(
    redactor: Redactor,
) -> None:
    tags = [redactor.hide_under("token", "x" * size) for size in (10**6, 10**6, 10**6 + 1)]
    assert tags[0] == tags[1] != tags[2]


def test_threads_agree_on_the_tags(redactor: Redactor) -> None:
    seen: list[list[str]] = []
    start = threading.Barrier(4)

    def work() -> None:
        start.wait()
        seen.append([redactor.tag("token", f"value {number}") for number in range(500)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen.count(seen[0]) == 4
    assert len(set(seen[0])) == 500


def test_in_source_only_literals_are_secrets(redactor: Redactor) -> None:
    for text in ("secret = Error", "password = hunted"):
        assert redactor.redact_source(text) == text
        assert redactor.redact_text(text) != text
    for text in ("password = 'hunter2!'", 'login(token="hunter2!")', "get('ftp://a:hunter2!@b')"):
        redacted = redactor.redact_source(text)
        assert left_of("hunter2!", redacted) == []
        assert TAG.search(redacted)


def test_further_names_and_patterns_are_redacted() -> None:
    redactor = Redactor(["iban", "tax number"], [r"CUST-\d{6}"], environ={})
    assert redactor.name_is_sensitive("customerIban")
    assert redactor.name_is_sensitive("taxNumber")
    redacted = redactor.redact_text("iban=DE001234 for CUST-123456")
    assert "DE001234" not in redacted
    assert "123456" not in redacted


SPELLINGS = ["tax_number", "TAX-NUMBER", "taxNumber", "taxnumber", "Tax Number", "tax.number"]


@for_each("extra", SPELLINGS)
def test_a_further_name_counts_in_any_spelling(extra: str) -> None:
    redactor = Redactor([extra], environ={})
    for spelling in SPELLINGS:
        assert redactor.name_is_sensitive(spelling)
        assert redactor.name_is_sensitive(f"old_{spelling}_2")
        for text in (f"{spelling}=DE-12", f"the {spelling}: DE-12", f"{{'{spelling}': 'DE-12'}}"):
            assert TAG.search(redactor.redact_text(text)), text
            assert "DE-12" not in redactor.redact_text(text)
    for other in ("tax", "number", "number_tax", "syntax number", "tax_numbering", "taxi_number"):
        assert not redactor.name_is_sensitive(other)
        text = f"a {other}: DE-12"
        assert redactor.redact_text(text) == text


def test_a_further_name_may_have_letters_of_any_alphabet() -> None:
    redactor = Redactor(["Kundennummer Österreich", "口座"], environ={})
    for name in ("kundennummer_österreich", "KUNDENNUMMER-ÖSTERREICH", "口座", "口座_2"):
        assert redactor.name_is_sensitive(name)
        assert redactor.redact_text(f"{name}=12-34-56").startswith(f"{name}=<redacted:name#")


def test_what_is_named_later_is_redacted_from_then_on() -> None:
    environment = {"SHOP_IBAN": "DE00-1234-5678", "DEPLOY_TOKEN": "opaque-value-1"}
    redactor = Redactor(["pin code"], environ=environment, key=b"k")
    text = "iban: 77-88 CUST-123456 DE00-1234-5678 opaque-value-1 pincode=1-2-3"
    before = redactor.redact_text(text)
    assert [each in before for each in text.split()] == [True] * 4 + [False] * 2
    redactor.extend(["iban"], [r"CUST-\d{6}"])
    after = redactor.redact_text(text)
    assert (len(TAG.findall(after)), TAG.sub("", after)) == (5, "iban:     pincode=")
    assert set(TAG.findall(before)) < set(TAG.findall(after))
    assert redactor.name_is_sensitive("iban")
    assert redactor.name_is_sensitive("PinCode")


def test_what_is_malformed_changes_nothing() -> None:
    redactor = Redactor(environ={})
    for names, patterns in ((["iban"], ["("]), (["iban", "--"], [])):
        with pytest.raises(ValueError, match="is no "):
            redactor.extend(names, patterns)
    assert not redactor.name_is_sensitive("iban")


def test_a_malformed_pattern_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"'\(' is no regular expression"):
        Redactor(extra_patterns=["("])


def test_nothing_is_redacted_when_it_is_switched_off() -> None:
    redactor = Redactor(environ=ENVIRONMENT, enabled=False)
    assert not redactor.name_is_sensitive("password")
    assert not redactor.label("password")
    for context, secret in PLANTED.values():
        text = context.format(secret)
        assert redactor.redact_text(text) == text
        assert redactor.redact_text(text, 5) == text[:5]


@pytest.mark.full
@pytest.mark.quick("*-0.3")
@pytest.mark.parametrize("part", [0.3, 1.0])
@pytest.mark.parametrize(
    "text",
    [
        "eyJ" * 60_000,
        "a=b," * 40_000,
        "://" * 60_000,
        "token:" * 30_000,
        "password=" + "a," * 80_000,
        "Bearer " * 25_000,
        "-----BEGIN " * 15_000,
        "\\'" * 60_000 + "token=\\'",
        "x" * 200_000,
    ],
    ids=lambda text: text[:10],
)
def test_a_hostile_text_takes_no_time_out_of_proportion(
    redactor: Redactor, text: str, part: float
) -> None:
    """Quadratic work on these would take minutes and run into the limit of the test."""
    text = text[: int(len(text) * part)] + text[-10:]
    redactor.redact_text(text)
    redactor.redact_text(text, 200)


def test_the_variables_of_the_process_are_read_once_at_creation() -> None:
    program = (
        "import os\n"
        "from pytest_cideldill.redaction.redactor import Redactor\n"
        "os.environ['EARLY_TOKEN'] = 'first-value'\n"
        "redactor = Redactor()\n"
        "os.environ['LATE_TOKEN'] = 'second-value'\n"
        "print(redactor.redact_text('first-value second-value'))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"<redacted:env:EARLY_TOKEN#\w+> second-value\n", run.stdout)


def test_what_a_report_explains_is_hidden(redactor: Redactor) -> None:
    report = "E   assert 1 == 2\nE    +  where 'Zq1x9pV7wK' = <Client>.password\n"
    assert "Zq1x9pV7wK" not in redactor.redact_report(report)


def test_settings_that_were_printed_are_no_source_of_a_report(redactor: Redactor) -> None:
    report = "env:\n  - name: DB_PASSWORD\n    value: Zq1x9pV7wK\n"
    assert "Zq1x9pV7wK" not in redactor.redact_report(report)


def test_where_nothing_is_hidden_any_more_a_cut_secret_is_not_either() -> None:
    """A process of the run has said so after some were known."""
    redactor = Redactor(environ={})
    secret = "ghp_" + noise(36)
    cut = f"assert 'x={secret[:9]}...{secret[-12:]}' == 'other'"
    redactor.redact_text(secret)
    assert left_of(secret, redactor.redact_text(cut)) == []
    redactor.enabled = False
    assert redactor.redact_text(cut) == cut


def test_what_is_known_of_secrets_is_not_shown_with_the_object_that_knows_it() -> None:
    """A test has our fixture among its arguments; in time so many are known that some are not."""
    secret = noise(20)
    redactor = Redactor(environ={}, extra_names=["ours"])
    redactor.redact_text(f"password={secret}")
    assert vars(redactor)
    held = {"ours": [redactor], "other": redactor}
    for shown in (render(held), json.dumps(describe(held, depth=9))):
        assert secret not in shown
        assert "redactor.Redactor object" in shown
    with pytest.raises(TypeError, match="secrets"):
        pickle.dumps(held)
