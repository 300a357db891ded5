"""Secrets in Python source: in files that are read, and in the lines of frames that are shown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Final

from tests.corpus.cases import Planted

FORMS: Final = {
    "assigned": 'password = "§"',
    "single quotes": "api_key = '§'",
    "annotated": 'PASSWORD: str = "§"',
    "annotated, final": 'API_KEY: Final[str] = "§"',
    "annotated, optional": 'token: str | None = "§"',
    "default": 'def connect(host, password="§"): pass',
    "annotated default": 'def connect(host: str, password: str = "§") -> None: pass',
    "keyword only": 'def connect(*, token: str = "§", port: int = 1) -> None: pass',
    "lambda": 'connect = lambda host, secret="§": host',
    "environment or": 'password = os.environ.get("SHOP_PASSWORD") or "§"',
    "environment default": 'password = os.environ.get("SHOP_PASSWORD", "§")',
    "getenv": 'value = os.getenv("SHOP_PASSWORD", "§")',
    "get of a dictionary": 'value = config.get("api_key", "§")',
    "setdefault": 'os.environ.setdefault("SHOP_TOKEN", "§")',
    "added": 'token += "§"',
    "implicit": 'token = "abc" "§"',
    "implicit, lines": 'token = (\n    "abc"\n    "§"\n)',
    "sum": 'secret = "abc" + "§"',
    "parentheses": 'password = ("§")',
    "parentheses, lines": 'password = (\n    "§"\n)',
    "backslash": 'password = \\\n    "§"',
    "dictionary": 'settings = {"user": "kim", "password": "§"}',
    "dictionary, lines": 'settings = {\n    "user": "kim",\n    "password": "§",\n}',
    "dictionary of names": 'passwords = {"kim": "§"}',
    "list": 'tokens = ["§"]',
    "list of several": 'api_keys = [\n    "first",\n    "§",\n]',
    "tuple": 'credentials = ("kim", "§")',
    "set": 'secrets = {"§"}',
    "unpacked": 'user, password = "kim", "§"',
    "chained": 'password = repeated = "§"',
    "walrus": 'if (token := "§"): pass',
    "conditional": 'password = "§" if debug else None',
    "attribute": 'client.password = "§"',
    "item": 'headers["Authorization"] = "§"',
    "setattr": 'setattr(client, "password", "§")',
    "setenv": 'monkeypatch.setenv("DB_PASSWORD", "§")',
    "setitem": 'monkeypatch.setitem(settings, "secret_key", "§")',
    "environ": 'os.environ["API_TOKEN"] = "§"',
    "update": 'settings.update(password="§")',
    "comment": "# password: §",
    "comment, assigned": "x = 1  # token = '§'",
    "comment, bare": "x = 1  # api_key=§",
    "f-string": 'password = f"{prefix}§"',
    "f-string, text": 'note = f"password=§ of {user}"',
    "keyword": 'connect("web", password="§")',
    "keyword, lines": 'connect(\n    "web",\n    api_key="§",\n)',
    "partial": 'connect = partial(connect, token="§")',
    "dict call": 'settings = dict(user="kim", password="§")',
    "wrapped": 'password = SecretStr("§")',
    "bytes": 'secret = b"§"',
    "raw": 'password = r"\\§"',
    "triple": 'private_key = """\n§\n"""',
    "triple, inside": 'text = """\npassword=§\n"""',
    "docstring": 'def login():\n    """Log in.\n\n    >>> login(password="§")\n    """',
    "pair": 'headers = [("Authorization", "§")]',
    "arguments": 'command = ["prog", "--password", "§"]',
    "compared": 'assert client.password == "§"',
    "compared, turned": 'assert "§" == token',
    "parametrized": '@pytest.mark.parametrize("password", ["§"])\ndef check(password): pass',
    "field": 'password: str = field(default="§")',
    "strip": 'password = "§".strip()',
    "encoded": 'secret = "§".encode()',
    "known name": 'stripe_key = "§"',
    "short name": 'pw = "§"',
    "match": 'match token:\n    case "§": pass',
    "address": 'dsn = "postgresql://kim:§@db.invalid/shop"',
    "yield": 'def token():\n    yield "§"',
    "returned": 'def get_password():\n    return "§"',
    "name equal": 'PASSWORD="§"',
    "loop": 'for password in ["§", "x"]: pass',
    "loop of pairs": 'for user, password in [("kim", "§")]: pass',
    "comprehension": 'x = [f(password) for password in ("§",)]',
    "called": 'user.set_password("§")',
    "basic auth": 'auth = HTTPBasicAuth("kim", "§")',
    "function replaced": 'get_password = lambda: "§"',
    "mock": 'client.get_token.return_value = "§"',
    "patch": 'mocker.patch("shop.get_token", return_value="§")',
    "result compared": 'assert get_secret("x") == "§"',
    "pattern of a mapping": 'match x:\n    case {"password": "§"}: pass',
    "pattern of a class": 'match x:\n    case User(password="§"): pass',
    "name and value": 'x = [{"name": "DB_PASSWORD", "value": "§"}]',
    "name and value, called": 'x = Field(name="password", value="§")',
    "nested in an f-string": "password = f\"{x}{'§'}\"",
    "formatted": 'password = "{}".format("§")',
    "keyword of a class": 'password = Password(raw="§")',
    "factory": 'api_key: str = Field(default_factory=lambda: "§")',
    "parametrized by two": (
        '@pytest.mark.parametrize(("user", "password"), [("kim", "§")])\n'
        "def check(user, password): pass"
    ),
    "parametrized by keywords": (
        '@pytest.mark.parametrize(argnames="token", argvalues=["§"])\ndef check(token): pass'
    ),
    "fixture": '@pytest.fixture(params=["§"])\ndef token(request): return request.param',
    "type comment": 'token = "§"  # type: str',
}


def cases() -> Iterator[Planted]:
    """Each form in a file that is read, and in the source of a test that fails behind it."""
    for name, form in FORMS.items():
        yield Planted(kind="file", name=name, source=form)
        body = f"if never:\n{textwrap.indent(form, '    ')}\n    pass\nassert 0"
        if '"""' in form or "@pytest" in form or "yield" in form:
            continue  # other than these it means the same when it is indented
        yield Planted(kind="frame", name=name, source=body)
    for name, form in {
        "failing call": 'reporting.refuse(password="§")',
        "failing comparison": 'token = None\nassert token == "§"',
        "failing default": 'assert os.environ.get("NO_PASSWORD", "§") is None',
        "failing pair": 'assert not [("password", "§")]',
        "failing lines": 'reporting.refuse(\n    api_key="§",\n)',
    }.items():
        yield Planted(kind="frame", name=name, source=form)
