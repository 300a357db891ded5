"""What may be read as `debugger://source/…`: names from outside, files of any kind."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from cideldill_mcp.sources import files
from cideldill_mcp.sources.files import MAX_BYTES, PREFIX
from pytest_cideldill.errors import Refusal
from pytest_cideldill.project import Project
from pytest_cideldill.redaction.redactor import Redactor

PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END PRIVATE KEY-----"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project beside a file that is none of its."""
    root = tmp_path / "project"
    for folder in ("shop", ".git", "venv/lib/site-packages", "own"):
        (root / folder).mkdir(parents=True)
    (root / "own" / "pyvenv.cfg").touch()
    for name in ("shop/cart.py", ".env", ".git/config", "own/x.py", "venv/lib/site-packages/x.py"):
        (root / name).write_text(name, encoding="utf-8")
    (tmp_path / "outside.py").write_text("outside", encoding="utf-8")
    return root


def read(root: Path, file: str, *, redactor: Redactor | None = None) -> str:
    """The text behind `debugger://source/FILE`, if it is one of the project."""
    project = Project(str(root))
    name = files.name_in(PREFIX + file)
    path = files.real_path(project, name)
    assert files.is_of_project(project, path), path
    redact = (redactor or Redactor(environ={})).redact_source
    return asyncio.run(files.text_of(path, name, redact))


def is_reported(root: Path, file: str) -> bool:
    project = Project(str(root))
    path = files.real_path(project, files.name_in(PREFIX + file))
    return files.is_of_project(project, path)


def test_a_file_of_the_project_is_read_however_it_is_spelled(root: Path) -> None:
    for file in (
        "shop/cart.py",
        "./shop/../shop//cart.py",
        "shop%2Fcart.py",
        "%73hop/cart%2epy",
        "shop/%2e%2e/shop/cart.py",
    ):
        assert read(root, file) == "shop/cart.py", file
        assert read(root, f"{root}/{file}") == "shop/cart.py", file


@pytest.mark.parametrize(
    "name",
    ["two words.py", "naïve-数.py", "a#b?c=1&d.py", "per%cent.py", "%41.py", "a+b.py", "\udce9.py"],
)
def test_names_with_special_characters_are_read_percent_encoded(root: Path, name: str) -> None:
    """The last one is no UTF-8 on the disk."""
    from urllib.parse import quote_from_bytes

    try:
        (root / name).write_text("here", encoding="utf-8")
    except OSError:  # a file system that takes only UTF-8
        pytest.skip("the file system has no such names")
    assert read(root, quote_from_bytes(os.fsencode(name))) == "here"
    if "%" not in name and name.isprintable():
        assert read(root, name) == "here"


OUTSIDE = (
    "../outside.py",
    "shop/../../outside.py",
    "%2e%2e%2foutside.py",
    "%2e%2e/outside.py",
    "..%2Foutside.py",
    "/etc/passwd",
    "%2Fetc%2Fpasswd",
    "shop/link.py",
    "folder/outside.py",
    ".env",
    ".git/config",
    "shop/../.env",
    "venv/lib/site-packages/x.py",
    "own/x.py",
    "/proc/self/environ",
    "..\\outside.py",
    "%2e%2e%5coutside.py",
)


def test_what_is_not_of_the_project_is_not_reported(root: Path) -> None:
    """Links are followed before it is decided."""
    (root / "shop" / "link.py").symlink_to(root.parent / "outside.py")
    (root / "folder").symlink_to(root.parent)
    assert [file for file in OUTSIDE if is_reported(root, file)] == []


def test_what_is_encoded_twice_or_for_windows_is_an_odd_name(root: Path) -> None:
    """Of a file that is not there; it does not lead out."""
    if os.name == "nt":
        pytest.skip("a path on Windows")
    for file in ("%252e%252e%252foutside.py", "shop\\..\\..\\x.py", "C:/x.py"):
        with pytest.raises(Refusal, match="is not found"):
            read(root, file)


def test_code_beside_the_rootdir_may_be_the_users_too(root: Path) -> None:
    """`cideldill_user_paths`: folders and files; what is hidden is so below them."""
    (root.parent / ".libs" / ".git").mkdir(parents=True)
    for name in (".libs/x.py", ".libs/.git/config"):
        (root.parent / name).write_text("there", encoding="utf-8")
    project = Project(str(root), ("../.libs", "../outside.py"))
    reported = {
        name: files.is_of_project(project, str(root.parent / name))
        for name in (".libs/x.py", ".libs/.git/config", "outside.py", "project/shop/cart.py")
    }
    assert list(reported.values()) == [True, False, True, True]
    assert not files.is_of_project(project, str(root / ".env"))


def test_a_project_behind_a_link_is_reported(root: Path) -> None:
    """By either name."""
    link = root.parent / "link"
    link.symlink_to(root)
    assert read(link, "shop/cart.py") == "shop/cart.py"
    assert read(link, f"{root}/shop/cart.py") == "shop/cart.py"
    assert read(root, f"{link}/shop/cart.py") == "shop/cart.py"


def test_what_names_no_file_is_refused(root: Path) -> None:
    for file in ("", "x%00y.py", "x\0y.py", "\ud800.py"):
        with pytest.raises(Refusal, match="names no file"):
            read(root, file)


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("shop", "regular file|Is a directory"),
        ("shop/none.py", "is not found"),
        ("shop/cart.py/x", "is not found"),
        ("shop/pipe", "regular file"),
        ("x" * 5_000, "can't be read"),
        ("shop/blob", "no text"),
    ],
)
def test_what_is_no_text_file_is_refused(root: Path, file: str, reason: str) -> None:
    """And nobody waits for what comes out of a pipe."""
    if hasattr(os, "mkfifo"):
        os.mkfifo(root / "shop" / "pipe")
    elif file.endswith("pipe"):
        pytest.skip("no pipes")
    (root / "shop" / "blob").write_bytes(b"\x7fELF\0\0")
    with pytest.raises(Refusal, match=reason) as caught:
        read(root, file)
    assert repr(file)[:500] in caught.value.message


ENCODED = (
    (b"# coding: latin-1\nx = '\xe9'\n", "# coding: latin-1\nx = 'é'\n"),
    ("\ufeffx = 'é'\n".encode(), "x = 'é'\n"),
    (b"x = 1\r\ny = 2\rz\n", "x = 1\ny = 2\nz\n"),
    (b"x = '\xe9'\n", "x = '\ufffd'\n"),
    (b"# coding: klingon\nx = '\xc3\xa9'\n", "# coding: klingon\nx = 'é'\n"),
    (b"# coding: rot13\nx\n", "# coding: rot13\nx\n"),
    (b"# coding: ascii\n\xc3\xa9\n", "# coding: ascii\n\ufffd\ufffd\n"),
    (b"", ""),
)


def test_a_file_is_read_in_its_own_encoding(root: Path) -> None:
    """PEP 263; what can't be read so is read as UTF-8, as far as it is."""
    for data, expected in ENCODED:
        (root / "x.py").write_bytes(data)
        assert read(root, "x.py") == expected, data


@pytest.mark.parametrize("line", ["x = 'é'  # and so on\n", "é" * 1_000_000, "\n"])
def test_a_long_file_is_cut_at_a_line_with_a_notice(root: Path, line: str) -> None:
    data = (line * (1_300_000 // len(line.encode()) or 1)).encode()
    (root / "x.py").write_bytes(data)
    reported = read(root, "x.py")
    assert len(reported) <= 200_000
    *lines, notice, end = reported.split("\n")
    assert end == ""
    assert notice == f"[cut here: the first {len(lines)} lines of a file of {len(data)} bytes]"
    assert data.decode().startswith("\n".join(lines))
    assert len(reported) > 90_000
    assert len(data) > MAX_BYTES or line == "\n"


def test_a_file_of_the_most_characters_is_whole(root: Path) -> None:
    (root / "x.py").write_bytes(b"x" * 200_000)
    assert read(root, "x.py") == "x" * 200_000


def test_secrets_are_hidden_and_lines_stay_where_they_are(root: Path) -> None:
    """As in the lines of a stop; in other files than Python's bare values are values."""
    redactor = Redactor(environ={"SHOP_TOKEN": "from-the-environment"})
    (root / "x.py").write_text(
        f'password = "hunter2xyz"\nKEY = """{PEM}"""\ntoken = password\n'
        'url = "from-the-environment"\nlast = 1\n',
        encoding="utf-8",
    )
    reported = read(root, "x.py", redactor=redactor).split("\n")
    assert "hunter2xyz" not in reported[0]
    assert "<redacted:" in reported[0]
    assert "MIIE" not in "".join(reported)
    assert reported[5:] == ["token = password", reported[6], "last = 1", ""]
    assert "<redacted:env:SHOP_TOKEN" in reported[6]
    (root / "shop.ini").write_text("[x]\npassword = hunter2xyz\n", encoding="utf-8")
    assert "hunter2xyz" not in read(root, "shop.ini", redactor=redactor)
