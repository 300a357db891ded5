"""Parses the texts of options; each error says what is wrong, and what is allowed.

This module is imported while the plugin is not switched on, so it imports modules that only some
options need when these options are set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_TRUTHS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


def choice(*allowed: str) -> Callable[[str], str]:
    """Parse one of these words."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"{text!r} is not one of: {', '.join(allowed)}")
        return text

    return parse


def glob(text: str) -> str:
    """Parse a glob over dotted paths."""
    if not text.strip() or any(character.isspace() for character in text.strip()):
        raise ValueError(f"{text!r} is not a glob over dotted paths, as shop.cart.*")
    return text.strip()


def text(text: str) -> str:
    """Parse any text; the code that uses it checks it."""
    if not text.strip():
        raise ValueError(f"{text!r} is empty")
    return text


def seconds(largest: float, *, or_none: bool = False) -> Callable[[str], float]:
    """Parse a positive number of seconds; with `or_none` also 0."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a number of seconds") from None
        if not (0 < value <= largest or (or_none and value == 0)):
            raise ValueError(f"{text!r} is not between 0 and {largest} seconds")
        return value

    return parse


def whole(smallest: int, largest: int) -> Callable[[str], int]:
    """Parse a whole number within these bounds."""

    def parse(text: str) -> int:
        if text.isdecimal() and smallest <= int(text[:20]) <= largest:
            return int(text)
        raise ValueError(f"{text!r} is not a whole number from {smallest} to {largest}")

    return parse


def truth(text: str) -> bool:
    """Parse a truth value in pytest's spelling."""
    if text.lower() not in _TRUTHS:
        raise ValueError(f"{text!r} is neither true nor false")
    return _TRUTHS[text.lower()]


def path(text: str) -> str:
    """Parse the path of a file or folder, which need not exist."""
    if not text.strip() or "\0" in text:
        raise ValueError(f"{text!r} is not a path")
    return text


def name(text: str) -> str:
    """Parse a name of one or several words: of a variable, an attribute, a key."""
    from pytest_cideldill.redaction.by_name import spelled

    # A comma would count as a part of one name, and neither of two names would be found anywhere.
    if not all(character.isalnum() or character in "_-. " for character in text):
        raise ValueError(f"{text!r} is no name as customer_id; blanks or lines separate names")
    spelled(text)
    return text


def pattern(text: str) -> str:
    """Parse a regular expression."""
    from pytest_cideldill.redaction.redactor import compiled

    return compiled(text).pattern


def loopback(text: str) -> str:
    """Parse an address that only this machine reaches: `127.0.0.1:PORT`, `[::1]:PORT`."""
    import ipaddress

    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal()) or int(port[:6]) > 65_535:
        raise ValueError(f"{text!r} is not HOST:PORT, as 127.0.0.1:8080")
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host.strip("[]"))
    except ValueError:
        address = None
    if address is None or not address.is_loopback:
        raise ValueError(
            f"{text!r} is not an address of this machine alone, as 127.0.0.1:PORT; other machines "
            "reach that one through a tunnel: ssh -L PORT:127.0.0.1:PORT THIS_MACHINE"
        )
    return f"[{address}]:{int(port)}" if ":" in str(address) else f"{address}:{int(port)}"


def address(text: str) -> str:
    """Parse an address of this machine with or without a port, to `HOST:PORT`; port 0 means any."""
    import ipaddress
    import re

    host, port = text, "0"
    if (match := re.fullmatch(r"\[(.+)\](?::(.+))?|([^:]+):(.+)", text)) is not None:
        host, port = match[1] or match[3], match[2] or match[4] or "0"
    if not (port.isascii() and port.isdecimal()) or int(port[:6]) > 65_535:
        raise ValueError(f"{port!r} is not a port")
    try:
        number = ipaddress.ip_address(host)
    except ValueError:
        if not re.fullmatch(r"[A-Za-z0-9._-]+", host):
            raise ValueError(f"{text!r} is not HOST or HOST:PORT, as 192.0.2.7:7007") from None
    else:
        if number.is_unspecified:  # processes of other machines need an address to connect to
            raise ValueError(f"{text!r} is no address that other machines know this one by")
        host = f"[{number}]" if number.version == 6 else str(number)
    return f"{host}:{int(port)}"
