"""Repositories of git, made for tests; they know no settings of the machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from textwrap import dedent

from tests.server.ran_code import FILE


class Repository:
    """A folder with a repository: the least that git takes for one, which `git init` makes slowly.

    Args:
        folder: May be there already.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("objects", "refs"):
            (folder / ".git" / name).mkdir(parents=True, exist_ok=True)
        (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")

    def git(self, *words: str) -> str:
        mine = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        done = subprocess.run(
            ["git", "-c", "user.name=Jo", "-c", "user.email=jo@example.org", *words],
            cwd=self.folder,
            env={**mine, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull},
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        return done.stdout

    def write(self, text: str, file: str = FILE) -> None:
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(dedent(text).lstrip("\n").encode())

    def commit(self, subject: str = "Change it", **files: str) -> None:
        for name, text in files.items():
            self.write(text, FILE if name == "shop" else f"{name}.py")
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", subject)
