"""Other machines, played by other addresses of this one, other folders and other environments."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.together.frontend import clean_environment, wait_until

ELSEWHERE = "127.0.0.2" if sys.platform == "linux" else "127.0.0.1"
"""Where the other machines listen."""

HERE = "127.0.0.3" if sys.platform == "linux" else "127.0.0.1"
"""Where this one does."""

_SERVER = "import runpy; runpy.run_module('execnet.script.socketserver', run_name='__main__')"

_SSH = """\
#!/bin/sh
# What ssh does, without going anywhere: the last argument is the command.
for last; do :; done
cd "{folder}" && exec env -u CIDELDILL_CHILD sh -c "$last"
"""


@contextmanager
def gateways(folder: Path, number: int, **environment: str) -> Iterator[list[str]]:
    """So many socket servers of execnet; the arguments of pytest by which xdist uses them.

    Each is one process for worker after worker, in `folder`.
    """
    processes: list[subprocess.Popen[bytes]] = []
    arguments = ["--dist=load"]
    try:
        for _ in range(number):
            descriptor, name = tempfile.mkstemp(".log", "gateway-", folder.parent)
            log = Path(name)
            with open(descriptor, "wb") as output:
                processes.append(
                    subprocess.Popen(
                        [sys.executable, "-u", "-c", _SERVER, f"{ELSEWHERE}:0"],
                        cwd=folder,
                        env=clean_environment(**environment),
                        stdout=output,
                        stderr=subprocess.STDOUT,
                    )
                )
            wait_until(lambda log=log: b"\n" in log.read_bytes(), f"{log} tells its port")  # type: ignore[misc]
            port = log.read_text("utf-8").split("\n")[0].rpartition(", ")[2].rstrip(")")
            arguments.append(f"--tx=socket={ELSEWHERE}:{port}//chdir={folder}")
        yield arguments
    finally:
        for process in processes:
            process.kill()
            process.wait()


def ssh(folder: Path, tools: Path) -> tuple[list[str], dict[str, str]]:
    """The arguments for a worker behind ssh, in `folder`, and the environment with such a ssh."""
    tools.mkdir()
    script = tools / "ssh"
    script.write_text(_SSH.format(folder=folder), "utf-8")
    script.chmod(0o755)
    arguments = ["--dist=load", f"--tx=ssh=elsewhere//python={sys.executable}//chdir={folder}"]
    python = Path(sys.executable).parent
    return arguments, {"PATH": os.pathsep.join((str(tools), str(python), os.environ["PATH"]))}
