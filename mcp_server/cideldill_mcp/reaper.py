"""A tiny shell process that outlives the front end and cleans up after it, however it died.

It reads process groups from its stdin; at end of file it interrupts those that are left, kills them
a second later and removes the private directory. POSIX only: elsewhere runs end with their closed
link.
"""

from __future__ import annotations

import os
import shutil
import subprocess

GRACE_S = 1
"""Seconds between the interrupt and the kill."""

# "kill -9 -- -PGID" is an error in dash; "kill -9 -PGID" works in every POSIX shell.
_SCRIPT = f"""
groups=
while read -r sign group; do
  case $sign in
    +) groups="$groups $group" ;;
    -) left=
       for each in $groups; do [ "$each" = "$group" ] || left="$left $each"; done
       groups=$left ;;
  esac
done
if [ -n "$groups" ]; then
  for each in $groups; do kill -2 -$each; done
  sleep {GRACE_S}
  for each in $groups; do kill -9 -$each; done
fi
rm -rf -- "$1"
"""


class Reaper:
    """The writing side. Ends, and cleans up, when it is closed or this process is gone."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        if os.name != "posix":
            return
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "cideldill-reaper", directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )

    def watch(self, group: int) -> None:
        """Kill this process group when this process dies."""
        self._write(b"+ %d\n" % group)

    def forget(self, group: int) -> None:
        """The group is gone; its number may be used again."""
        self._write(b"- %d\n" % group)

    def close(self) -> None:
        """Let it clean up and wait for its end; do it here where it can't."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait(GRACE_S + 1)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _write(self, line: bytes) -> None:
        if self._process is None or self._process.stdin is None:
            return
        try:
            self._process.stdin.write(line)
        except OSError:
            return  # somebody killed it: an orderly end cleans up all the same
