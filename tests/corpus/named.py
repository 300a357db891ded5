"""Secrets that are known by the names of what holds them: values, pairs, arguments, functions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Any, Final

from tests.corpus.cases import DIGITS, REPORTED, TEXT, Planted

_KNOWN: Final = """
password passwd pwd passphrase passcode secret secret_key client_secret token access_token
refresh_token auth_token csrf_token api_key apikey api_token private_key ssh_key signing_key
encryption_key authorization cookie set_cookie jwt credentials session_secret webhook_secret
db_password dbpassword old_password passwordConfirmation aws_secret_access_key
account_key access_key basic_auth phpsessid jsessionid hmac_key bot_token
"""
_LEARNED_LATER: Final = """
pw user_pw db_pw pin otp x_auth bearer sid sig signature dsn privkey enc_key fernet_key service_key
license_key STRIPE_KEY SENDGRID_KEY TWILIO_AUTH
wifi_psk keystore_pass vault_pass recovery_code backup_codes verification_code unlock_code bindpw
passwort kennwort contraseña пароль mot_de_passe senha
"""
NAMES: Final = tuple(f"{_KNOWN} {_LEARNED_LATER}".split())
"""Of variables."""

_KEYS: Final = """
pass client-key-data X-Api-Key Proxy-Authorization X-CSRF-Token X-Auth-Token
Set-Cookie X-Amz-Security-Token API-KEY x-hub-signature Ocp-Apim-Subscription-Key
"""
KEYS: Final = tuple(_KEYS.split())
"""Of dictionaries only."""

_HOLDERS: Final = {
    "local": "{n} = §",
    "attribute": "client = Client()\nsetattr(client, {n!r}, §)",
    "key": "settings = {{{n!r}: §, 'retries': 3}}",
    "dataclass": "settings = make_dataclass('Settings', ['host', {n!r}])('web', §)",
    "slot": "settings = slotted({n!r}, §)",
    "named tuple": "settings = namedtuple('Settings', ['host', {n!r}])('web', §)",
    "argument": "reporting.charge(3, **{{{n!r}: §}})",
    "attrs": "settings = alike({n!r}, §)",
}


def cases() -> Iterator[Planted]:
    """All of them."""
    yield from _named()
    yield from _numbers()
    yield from _environment()
    yield from _pairs()
    yield from _arguments()
    yield from _results()
    yield from _parameters()
    yield from _traced()
    yield from _placed()


def _named() -> Iterator[Planted]:
    """Each name as that of a variable and in one of the other holders."""
    others = cycle([each for each in _HOLDERS if each != "local"])
    for name in NAMES:
        for holder in ("local", next(others)):
            body = _HOLDERS[holder].format(n=name) + "\nassert 0"
            yield Planted(kind="name", name=f"{name} as {holder}", body=body)
    for name in KEYS:
        body = _HOLDERS["key"].format(n=name) + "\nassert 0"
        yield Planted(kind="name", name=f"{name} as key", body=body)
    for name in ("password", "api_key", "token", "pw"):
        for what, body in (
            ("operand", f"{name} = §\nassert {name} == 'other'"),
            ("attribute operand", f"it = Client()\nit.{name} = §\nassert it.{name} == 1"),
            ("items compared", f"got = {{{name!r}: §}}\nassert got == {{{name!r}: None}}"),
            ("callee", f"reporting.refuse({name}=§)"),
            ("deep", f"config = {{'db': [{{{name!r}: §}}]}}\nassert 0"),
            ("message", f"{name} = §\nraise RuntimeError(f'no way with {{{name}}}')"),
            ("exception", f"error = RuntimeError()\nerror.{name} = §\nraise error"),
        ):
            yield Planted(kind="name", name=f"{name}, {what}", body=body)


def _numbers() -> Iterator[Planted]:
    """Numbers are shown, except long ones under the names of what people enter as numbers."""
    for name in ("pin", "otp", "passcode", "password"):
        number: dict[str, Any] = {"length": 12, "alphabet": DIGITS}
        body = f"{name} = int(§)\nassert 0"
        yield Planted(kind="number", name=f"{name}, int", body=body, **number)
        body = f"row = {{{name!r}: int(§)}}\nassert 0"
        yield Planted(kind="number", name=f"{name}, key", body=body, **number)
        number |= {"text": f"{name}=§ was sent", "body": REPORTED["printed"]}
        yield Planted(kind="number", name=f"{name}, printed", **number)


_VARIABLES: Final = ("API_KEY", "PASSWORD", "TOKEN", "SECRET", "AUTH_TOKEN")
_TIMES: Final = ("before", "conftest", "updated", "dotenv", "fixture", "monkeypatch", "session")


def _environment() -> Iterator[Planted]:
    """Variables that are set at different times, in texts that do not name them."""
    for reported, variable in zip(REPORTED, _VARIABLES, strict=True):
        for when in _TIMES:
            name = f"{when}_{reported}_{variable}".upper()
            body = REPORTED[reported].replace(TEXT, f'"it was " + os.environ[{name!r}]')
            more: dict[str, Any] = {}
            if when == "before":
                more = {"variable": name}
            elif when == "conftest":
                more = {"conftest": f"os.environ[{name!r}] = §"}
            elif when == "updated":
                more = {"conftest": f"os.environ.update({{{name!r}: §}})"}
            elif when == "dotenv":
                more = {"conftest": f"load_dotenv({name!r}, §)"}
            elif when == "fixture":
                fixture = f"set_{name.lower()}"
                head = f"@pytest.fixture\ndef {fixture}():\n    os.environ[{name!r}] = §\n    yield"
                more = {"head": head, "arguments": fixture}
            elif when == "session":
                fixture = f"set_{name.lower()}"
                head = f"@pytest.fixture(scope='session', autouse=True)\ndef {fixture}():\n"
                more = {"head": f"{head}    os.environ[{name!r}] = §"}
            else:
                more = {"arguments": "monkeypatch"}
                body = f"monkeypatch.setenv({name!r}, §)\n{body}"
            yield Planted(kind="environment", name=f"{when}, {reported}", body=body, **more)


_PAIRS: Final = {
    "pair": "it = ('password', §)",
    "list pair": "it = ['api_key', §]",
    "headers": "headers = [('Accept', 'text/html'), ('Authorization', 'Custom ' + §)]",
    "bytes": "headers = [(b'accept', b'*/*'), (b'authorization', §.encode())]",
    "byte cookie": "headers = [(b'cookie', b'theme=dark; sid=' + §.encode())]",
    "items": "it = list({'user': 'kim', 'token': §}.items())",
    "items view": "it = {'user': 'kim', 'secret': §}.items()",
    "zip": "it = list(zip(['user', 'password'], ['kim', §]))",
    "set": "it = {('user', 'kim'), ('api_key', §)}",
    "query": "it = urllib.parse.parse_qsl('user=kim&access_token=' + §)",
    "environ": "monkeypatch.setenv('PAIRED_PASSWORD', §)\n"
    "it = [each for each in os.environ.items() if 'PAIRED' in each[0]]",
    "attribute": "client = Client()\nclient.header = ('X-Api-Key', §)",
    "tuple of pairs": "it = (('login', 'kim'), ('passwd', §))",
    "deque": "it = collections.deque([('client_secret', §)])",
    "nested": "it = [['Cookie', 'sid=' + §]]",
    "yielded": "it = [*sorted({'pwd': §}.items())]",
}


def _pairs() -> Iterator[Planted]:
    for name, body in _PAIRS.items():
        body += "\nassert 0"
        yield Planted(kind="pair", name=name, body=body, arguments="monkeypatch")
    for name, body in {
        "compared": "assert ('password', §) == ('password', 'other')",
        "lists compared": "assert [('token', §)] == [('token', None)]",
        "sets compared": "got = {('user', 'kim'), ('secret', §)}\nassert got == {('user', 'jo')}",
        "items compared": "got = {'api_key': §}\nassert list(got.items()) == []",
        "printed": "print([('password', §)])\nassert 0",
        "bytes printed": "print([(b'authorization', §.encode())])\nassert 0",
        "message": "raise LookupError(('token', §))",
    }.items():
        yield Planted(kind="pair", name=name, body=body)


_COMMANDS: Final = {
    "--password": "['prog', '--password', §]",
    "--password=": "['prog', '--password=' + §]",
    "--token": "['prog', 'run', '--token', §, '--verbose']",
    "--api-key": "('prog', '--api-key', §)",
    "--client-secret=": "['prog', f'--client-secret={§}']",
    "--db-password": "['prog', '--db-password', §, 'x']",
    "-D": "['java', '-Ddb.password=' + §]",
    "-e": "['docker', 'run', '-e', 'DB_PASSWORD=' + §, 'web']",
    "header": "['curl', '-H', 'Authorization: Custom ' + §, 'shop.invalid']",
    "text": "'prog --password ' + § + ' --verbose'",
    "variable": "'PGPASSWORD=' + § + ' psql shop'",
    "joined": "' '.join(['prog', '--secret', §])",
}


def _arguments() -> Iterator[Planted]:
    for name, command in _COMMANDS.items():
        body = f"command = {command}\nassert 0"
        yield Planted(kind="command", name=f"{name}, local", body=body)
        body = f"raise subprocess.CalledProcessError(1, {command})"
        yield Planted(kind="command", name=f"{name}, error", body=body)
    for name in ("--password", "--api-key"):
        body = f"print({_COMMANDS[name]})\nassert 0"
        yield Planted(kind="command", name=f"{name}, printed", body=body)


_REPORTING: Final = """
get_token make_password fetch_secret create_api_key read_private_key auth_header getAccessToken
generate_passphrase access_token_for load_credentials new_jwt session_cookie decrypt_password
"""
_FUNCTIONS: Final = tuple(_REPORTING.split())


def _results() -> Iterator[Planted]:
    for name in _FUNCTIONS:
        function = f"def {name}():\n    return §\n"
        body = f"reporting.{name}()\nassert 0"
        yield Planted(kind="result", name=f"{name}, recorded", body=body, function=function)
    for name in _FUNCTIONS[:5]:
        other = f"{name}_again"
        function = f"def {other}():\n    return §\n"
        body = f"assert reporting.{other}() == 'other'"
        yield Planted(kind="result", name=f"{name}, operand", body=body, function=function)


def _parameters() -> Iterator[Planted]:
    """Node ids, which name what they were made from."""
    for name in ("password", "token", "api_key", "secret", "authorization", "pw", "client_secret"):
        mark = f"@pytest.mark.parametrize({name!r}, [§])"
        yield Planted(kind="id", name=name, head=mark, arguments=name, body="assert 0")
    for name in ("password", "token"):
        mark = f"@pytest.mark.parametrize('user, {name}', [('kim', §)])"
        body = "assert user == 'jo'"
        both = f"user, {name}"
        yield Planted(kind="id", name=f"user and {name}", head=mark, arguments=both, body=body)
        mark = f"@pytest.mark.parametrize({name!r}, [pytest.param(§, id='as-' + §)])"
        yield Planted(kind="id", name=f"{name}, named", head=mark, arguments=name, body="assert 0")
        fixture = f"@pytest.fixture(params=[§])\ndef my_{name}(request):\n    return request.param"
        body = "assert 0"
        yield Planted(
            kind="id", name=f"{name}, fixture", head=fixture, arguments=f"my_{name}", body=body
        )
    mark = "@pytest.mark.parametrize('said', [TEXT])"
    for name, text, length in (
        ("forge", "ghp_§", 36),
        ("model", "sk-proj-§", 48),
        ("page", "https://shop.invalid/?api_key=§", 15),
        ("queue", "amqp://kim:§@queue.invalid/x", 15),
        ("scheme", "Bearer §", 24),
        ("pair", "password=§", 15),
    ):
        more: dict[str, Any] = {
            "text": text,
            "length": length,
            "arguments": "said",
            "body": "assert 0",
        }
        yield Planted(kind="id", name=f"shape of a {name}", head=mark, **more)
    mark = "@pytest.mark.parametrize('said', [os.environ['ID_BEFORE_TOKEN']])"
    more = {"variable": "ID_BEFORE_TOKEN", "arguments": "said", "body": "assert 0"}
    yield Planted(kind="id", name="variable from before", head=mark, **more)
    mark = "@pytest.mark.parametrize('said', [os.environ['ID_LATER_TOKEN']])"
    more = {"conftest": "os.environ['ID_LATER_TOKEN'] = §", "arguments": "said", "body": "assert 0"}
    yield Planted(kind="id", name="variable from a conftest", head=mark, **more)


def _traced() -> Iterator[Planted]:
    """Messages of tracepoints."""
    for name, body, message in (
        ("name", "password = §", "{password}"),
        ("repr", "api_key = §", "{api_key!r}"),
        ("attribute", "client = Client()\nclient.token = §", "{client.token}"),
        ("object", "client = Client()\nclient.secret = §", "{client}"),
        ("dictionary", "headers = {'authorization': §}", "{headers}"),
        ("item", "headers = {'authorization': §}", "{headers['authorization']}"),
        ("pair", "pair = ('password', §)", "{pair}"),
        ("command", "command = ['prog', '--token', §]", "{command}"),
        ("text", "note = 'password=' + §", "{note}"),
        ("address", "note = 'ftp://kim:' + § + '@files.invalid'", "at {note!s}"),
        ("variable", "monkeypatch.setenv('TRACED_TOKEN', §)\nnote = 'x ' + §", "{note}"),
        ("vars", "client = Client()\nclient.pw = §", "{vars(client)}"),
        ("locals", "otp = §", "{locals()}"),
        ("unknown name", "пароль = §", "{пароль}"),
    ):
        more: dict[str, Any] = {"trace": message, "arguments": "monkeypatch"}
        yield Planted(kind="trace", name=name, body=f"{body}\nlen('here')", **more)


_PLACES: Final = {
    "note": "error = KeyError(3)\nerror.add_note('password=' + §)\nraise error",
    "cause": "raise KeyError(3) from ValueError('password=' + §)",
    "group": "raise ExceptionGroup('two', [ValueError('password=' + §), KeyError(3)])",
    "arguments": "raise ValueError({'password': §})",
    "skipped": "pytest.skip('password=' + §)",
    "expected": "pytest.xfail('password=' + §)",
    "failed": "pytest.fail('password=' + §)",
    "standard error": "print('password=' + §, file=sys.stderr)\nassert 0",
    "descriptor": "os.write(1, b'password=' + §.encode())\nassert 0",
    "child": "subprocess.run(['echo', 'password=' + §])\nassert 0",
    "log arguments": "logging.getLogger('shop').error('password=%s', §)\nassert 0",
    "partial": "it = functools.partial(print, password=§)\nassert 0",
    "chain map": "it = collections.ChainMap({'password': §})\nassert 0",
    "default": "it = collections.defaultdict(list, password=§)\nassert 0",
    "byte array": "password = bytearray(§.encode())\nassert 0",
    "list of one": "tokens = [§]\nassert 0",
    "dictionary of one": "secrets = {'kim': §}\nassert 0",
    "object inside": "it = Client()\nit.login = Client()\nit.login.password = §\nassert 0",
    "closure": "password = §\ndef inner(): raise KeyError(password[0] * 3)\ninner()",
    "generator": "def inner():\n    password = §\n    yield 1 / 0\nnext(inner())",
}
_FIXTURES: Final = {
    "fixture": "@pytest.fixture\ndef {0}_token():\n    return §",
    "fails": "@pytest.fixture\ndef {0}_token():\n    raise OSError('password=' + §)",
    "fails late": "@pytest.fixture\ndef {0}_token():\n    yield\n    raise OSError('token=' + §)",
    "fails with a local": "@pytest.fixture\ndef {0}_token():\n    password = §\n    1 / 0",
}


def _placed() -> Iterator[Planted]:
    """Known names and texts in all places that a test can tell something from."""
    for name, body in _PLACES.items():
        yield Planted(kind="place", name=name, body=body)
    for name, head in _FIXTURES.items():
        fixture = name.replace(" ", "_")
        yield Planted(
            kind="place",
            name=f"fixture, {name}",
            head=head.format(fixture),
            arguments=f"{fixture}_token",
            body="assert 0",
        )
