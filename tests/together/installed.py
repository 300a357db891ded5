"""Released libraries that patch, fake, freeze and compile, for processes under test only.

In the environment of our own tests each child would load their pytest plugins. So pip installs them
into folders of the user's cache, one for each library, version and interpreter; a test puts those
that it needs on the path of its children, which find the plugins there as in site-packages.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import pytest

from tests.together.frontend import wait_until

INSTALL_S = 300.0

VERSIONS: Final = {
    "pyfakefs": "pyfakefs",
    "freezegun": "freezegun",
    "time-machine": "time-machine",
    "time-machine 2": "time-machine<3",
    "pytest-socket": "pytest-socket==0.8.1",
    "pytest-mock": "pytest-mock==3.17.0",
    "geventhttpclient": "geventhttpclient==2.6.1 dpkt httplib2 requests",
    "httpx": "httpx starlette",
    "gevent": "gevent",
    "eventlet": "eventlet",
    "numba": "numba",
    "cloudpickle": "cloudpickle",
    "Django": "Django pytest-django",
    "Werkzeug": "Werkzeug",
    "psutil": "psutil",
}
"""Name here → what pip is asked for."""


def installed(*names: str) -> list[Path]:
    """The folders of libraries, for the front of `sys.path`; skips the test when pip can't.

    Args:
        names: Keys of `VERSIONS`.
    """
    return [_folder(name) for name in names]


def on_path(*names: str, further: str = "") -> dict[str, str]:
    """`PYTHONPATH` of a child that is to find these libraries."""
    return {"PYTHONPATH": os.pathsep.join([*map(str, installed(*names)), *filter(None, [further])])}


def _folder(name: str) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pytest-cideldill"
    tag = f"{sys.implementation.cache_tag}-{pytest.__version__}"
    kept = cache / "installed" / tag / name.replace(" ", "-")
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        _install(name, kept)
    return kept


def _install(name: str, kept: Path) -> None:
    """Let pip do it, beside; whoever is first puts the folder in place."""
    if importlib.util.find_spec("pip") is None:
        pytest.skip(f"{name} can't be installed: this environment has no pip")
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        made = Path(folder) / "made"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input"]
        command += ["--disable-pip-version-check", "--retries=1", f"--target={made}"]
        done = subprocess.run(
            [*command, *VERSIONS[name].split(), f"pytest=={pytest.__version__}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=INSTALL_S,
        )
        if done.returncode:
            reason = (done.stderr.strip() or "pip said nothing").splitlines()[-1]
            pytest.skip(f"{name} can't be installed (no network, or not on the index): {reason}")
        _leave_out_pytest(made)
        try:
            made.rename(kept)
        except OSError:  # another process was first
            wait_until(kept.exists, f"{kept} is there")


def _leave_out_pytest(folder: Path) -> None:
    """It was named so that its version stays; that of the environment is the one that runs."""
    for pattern in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"):
        for found in [*folder.glob(pattern), *folder.glob(f"{pattern}-*.dist-info")]:
            _remove(found)


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    folder.rmdir()
