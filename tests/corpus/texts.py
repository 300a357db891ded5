"""Secrets in texts: in formats that people know, behind escapes, without quotes, in odd syntax."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Final

from tests.corpus.carriers import CARRIERS
from tests.corpus.cases import BEYOND, MARK, REPORTED, TEXT, Planted

_ESCAPED: Final = {
    "header": "it was sent\nauthorization: §",
    "scheme": "it was sent\r\nAuthorization: Custom §\r\nAccept: */*",
    "cookie": "GET / HTTP/1.1\ncookie: sid=§",
    "set-cookie": "HTTP/1.1 200\nset-cookie: sid=§; Path=/",
    "setting": "[db]\napi_key=§",
    "tab": "at web:\tprivate_key=§",
    "yaml": "db:\n\tpassword: §\n",
    "quoted": "it has\ntoken = '§'",
    "json": '{\n\t"secret": "§"\n}',
    "form feed": "page\fpasswd=§",
    "vertical tab": "page\vpassword=§",
}
_WAYS: Final = {
    "repr printed": f"print(repr({TEXT}))\nassert 0",
    "repr of reprs": f"print(repr([repr({TEXT})]))\nassert 0",
    "json printed": f"print(json.dumps({{'said': {TEXT}}}))\nassert 0",
    "json in json": f"print(json.dumps(json.dumps([{TEXT}])))\nassert 0",
    "repr in message": f"raise ValueError(repr({TEXT}))",
    "repr in local": f"note = repr([{TEXT}])\nassert 0",
    "bytes": f"note = {TEXT}.encode()\nassert 0",
    "compared": f"assert {TEXT} == 'other'",
    "error in error": f"raise ValueError(RuntimeError({TEXT}))",
}

_ARROWS: Final = (
    '"password" => "§"',
    "'token' => '§'",
    ':api_key => "§"',
    "password => §",
    "secret=>§",
    '{:client_secret=>"§", :id=>3}',
    "passwd  =>  '§'",
)

_UNQUOTED: Final = (
    "password=Hunter[§",
    "password=a.b(§",
    "password=data.x§",
    "token: x[§",
    "api_key=config.§",
    "secret=s3(§",
    "passwd=self.§",
    "pwd=os[§",
    "password=(§",
    "password=$§",
    "password=%§",
    "password=§,next",
    "password={§}",
    "password=#§",
    "password=a/b/§",
    "password=\\§",
    "password=§=",
    "password=x@§",
)

_TEXTS: Final = {
    "address": "postgresql://clerk:§@db.invalid/shop",
    "address without user": "redis://:§@cache.invalid:6379/0",
    "address, user is the token": "https://§@forge.invalid/shop.git",
    "address, odd password": "mysql://clerk:p%40x%23§@db.invalid/shop",
    "proxy": "using proxy http://kim:§@proxy.invalid:3128 now",
    "query": "GET https://shop.invalid/items?access_token=§&page=2",
    "query, second": "https://shop.invalid/items?page=2&api_key=§",
    "query, sig": "https://files.invalid/x?se=2030-01-01&sr=b&sig=§",
    "query, signature": "https://files.invalid/x?X-Amz-Signature=§&X-Amz-Date=2030",
    "query, escaped": "https://shop.invalid/?next=%2Fx%3Ftoken%3D§",
    "fragment": "https://shop.invalid/cb#access_token=§&state=1",
    "form": "grant_type=password&username=kim&password=§",
    "header": "Authorization: Bearer §",
    "header, own scheme": "Authorization: Shop §",
    "header, key": "X-Api-Key: §",
    "header, cookie": "Cookie: theme=dark; sessionid=§",
    "header, set-cookie": "Set-Cookie: sid=§; HttpOnly",
    "header, proxy": "Proxy-Authorization: Basic §",
    "header, digest": 'Authorization: Digest username="kim", response="§"',
    "curl header": "curl -H 'X-Auth-Token: §' https://shop.invalid",
    "curl bearer": 'curl -X POST -H "Authorization: Bearer §" https://shop.invalid',
    "curl user": "curl -u kim:§ https://shop.invalid",
    "curl long user": "curl --user 'kim:§' https://shop.invalid",
    "curl data": 'curl -d \'{"password": "§"}\' https://shop.invalid',
    "json": '{"user": "kim", "password": "§"}',
    "json without blanks": '{"user":"kim","api_key":"§"}',
    "json in a text": '"{\\"token\\": \\"§\\"}"',
    "json of pairs": '[{"name": "DB_PASSWORD", "value": "§"}]',
    "json, camel case": '{"accessToken":"§","expiresIn":3600}',
    "yaml": "db:\n  user: kim\n  password: §\n",
    "yaml, quoted": "db:\n  password: '§'\n",
    "yaml list": "env:\n- name: API_TOKEN\n  value: §\n",
    "yaml, kubernetes": "users:\n- name: kim\n  user:\n    client-key-data: §\n",
    "yaml, block": "secret: |\n  §\n",
    "ini": "[db]\nuser = kim\npassword = §\n",
    "ini, colon": "[db]\npassword: §\n",
    "env file": "DEBUG=1\nSECRET_KEY=§\n",
    "env file, quoted": 'DEBUG=1\nDB_PASSWORD="§"\n',
    "toml": '[db]\nuser = "kim"\npassword = "§"\n',
    "toml, inline": 'db = { user = "kim", password = "§" }',
    "xml attribute": '<db user="kim" password="§"/>',
    "xml element": "<db><user>kim</user><password>§</password></db>",
    "xml add": '<add key="Password" value="§" />',
    "html field": '<input type="password" name="password" value="§">',
    "html token": '<input type="hidden" name="csrf_token" value="§">',
    "html meta": '<meta name="csrf-token" content="§">',
    "sql identified": "CREATE USER kim IDENTIFIED BY '§'",
    "sql password": "ALTER ROLE kim WITH LOGIN PASSWORD '§'",
    "sql set": "UPDATE login SET password = '§' WHERE name = 'kim'",
    "export": "export DB_PASSWORD=§",
    "export, quoted": "export API_TOKEN='§'",
    "powershell": '$env:API_TOKEN = "§"',
    "connection": "Server=db;Database=shop;User Id=kim;Password=§;",
    "connection, pwd": "Driver={x};Server=db;Uid=kim;Pwd=§",
    "connection, azure": "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey=§==",
    "connection, shared": "Endpoint=sb://x.invalid/;SharedAccessKeyName=r;SharedAccessKey=§=",
    "connection, libpq": "host=db user=kim password=§ dbname=shop",
    "netrc": "machine shop.invalid login kim password §",
    "npmrc": "//registry.invalid/:_authToken=§",
    "pypirc": "[shop]\nusername = kim\npassword: §\n",
    "pgpass": "PGPASSWORD=§ psql -h db shop",
    "docker": '{"auths": {"hub.invalid": {"auth": "§"}}}',
    "terraform": 'variable "x" {}\n  db_password = "§"\n',
    "java": "-Djavax.net.ssl.keyStorePassword=§",
    "properties": "spring.datasource.password=§",
    "log": "2030-01-02 03:04:05 INFO login user=kim password=§ ok",
    "log, colon": "INFO shop.login: token: §",
    "log, json": '{"level": "info", "msg": "login", "token": "§"}',
    "log, brackets": "[login] [user=kim] [api_key=§]",
    "log, logfmt": 'level=info msg="signed in" session_token="§"',
    "log, spaced name": "API key: §",
    "dict": "{'user': 'kim', 'password': '§'}",
    "object": "Settings(host='web', password='§')",
    "object, bytes": "Settings(host='web', secret=b'§')",
    "secret string": "Settings(password=SecretStr('§'))",
    "object, angles": "<Client host='web' token='§'>",
    "object, unquoted": "<Client host=web token=§>",
    "call": "login('kim', password='§')",
    "walrus": "(token := '§')",
    "php": "$password = '§';",
    "php array": "['password' => '§']",
    "javascript": "const apiKey = '§';",
    "javascript object": "{ user: 'kim', apiKey: '§' }",
    "template": "const token = `§`;",
    "go": 'password := "§"',
    "typographic": "password: “§”",
    "other language": "Passwort: §",
    "cyrillic": "пароль: §",
    "multipart": 'name="password"\r\n\r\n§\r\n--boundary',
    "ldap": "dn: cn=kim\nuserPassword: §\n",
}
"""What people have in logs, settings and messages."""

_BEYOND: Final = {
    "query, key": "https://maps.invalid/?key=§",
    "sql values": "INSERT INTO login (name, password) VALUES ('kim', '§')",
    "fish": "set -x API_TOKEN §",
    "log, sentence": "the password is §",
    "log, secret is": "using secret key §",
    "csv": "user,password\nkim,§\n",
    "table": "| user | password |\n|---|---|\n| kim | § |\n",
    "smtp": "AUTH PLAIN §",
    "redis": "AUTH § ok",
}
"""Nobody can ask for these: nothing distinguishes their secrets from words. They are measured all
the same, but don't count."""


def cases() -> Iterator[Planted]:
    """All of them."""
    ways = cycle(_WAYS.items())
    for name, text in _ESCAPED.items():
        for way, body in islice(ways, 5):
            yield Planted(kind="escape", name=f"{name}, {way}", text=text, body=body)
    for text in _ARROWS:
        for reported in ("local", "printed"):
            yield Planted(
                kind="arrow", name=f"{_named(text)}, {reported}", text=text, body=REPORTED[reported]
            )
    reports = cycle(REPORTED)
    for text in _UNQUOTED:
        for reported in ("printed", "local"):
            name = f"{_named(text)}, {reported}"
            yield Planted(kind="unquoted", name=name, text=text, body=REPORTED[reported])
    for name, text in _TEXTS.items():
        for reported in (next(reports), next(reports)):
            yield Planted(
                kind="text", name=f"{name}, {reported}", text=text, body=REPORTED[reported]
            )
    for text in CARRIERS:
        reported = next(reports)
        yield Planted(
            kind="text", name=f"{_named(text)}, {reported}", text=text, body=REPORTED[reported]
        )
    for name, text in _BEYOND.items():
        yield Planted(kind=BEYOND, name=name, text=text, body=REPORTED["printed"])


def _named(text: str) -> str:
    """A name for a short text."""
    return json.dumps(text.replace(MARK, "_"))
