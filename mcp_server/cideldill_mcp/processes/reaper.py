"""A tiny shell process that outlives the front end and cleans up after it, however it died.

It reads process groups from its stdin. At end of file it interrupts those that are left, gives
their fixtures the time to be torn down, kills what is left then, and removes the private directory.
POSIX only: elsewhere runs end with their closed link.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from contextlib import suppress

from pytest_cideldill.protocol.current_test_file import ENDING, TEXT

TICK_S = 0.2
"""How often it looks."""

_A_SECOND = round(1 / TICK_S)
"""In ticks: some know whole seconds only."""

LONGER = 3
"""So many times its patience a process has between Ctrl-C and SIGTERM: nobody waits for it, and the
machine may be busy."""

CLEAN_UP_S = 2.0
"""How long it may take when no run is left."""

# "kill -9 -- -PGID" is an error in dash; "kill -9 -PGID" works in every POSIX shell.
_SCRIPT = f"""
directory=$1 grace=$2 patience=$3 runs=

nap() {{
  sleep {TICK_S} || {{ sleep 1; waited=$((waited + {_A_SECOND - 1})); }}
  waited=$((waited + 1))
}}

lives() {{  # GROUP: its leader, which may be dead and not yet reaped
  kill -0 "$1" || return 1
  [ -r /proc/self/stat ] || return 0
  read -r stat < "/proc/$1/stat" || return 1
  case ${{stat##*) }} in [ZX]*) return 1 ;; esac
}}

ends() {{  # RUN: whether each of its processes tears down
  for file in "$directory/$1"-*.position; do
    [ -e "$file" ] || return 1
    [ "$(tail -c {len(ENDING)} "$file")" = {ENDING.decode()} ] && continue
    [ "$(tail -c +{TEXT + 1} "$file" | head -n 1)" = teardown ] || return 1
  done
}}

climb() {{  # GROUP RUN SIGN
  drains=
  for stream in out err; do  # nobody else reads what it prints
    [ -p "$directory/$2.$stream" ] || continue
    cat < "$directory/$2.$stream" > /dev/null &
    drains="$drains $!"
  done
  sign=$3 waited=0 moved=0
  # With its link a process has lost its pauses, and evaluations there, which could take Ctrl-C.
  [ $sign = + ] && {{ sleep {TICK_S}; kill -2 -"$1"; }}
  while [ $waited -lt "$grace" ] && lives "$1"; do
    if ends "$2"; then sign=i moved=$waited; fi
    [ $sign = h ] || [ $((waited - moved)) -lt $((patience * {LONGER})) ] || break
    nap
  done
  if lives "$1"; then
    kill -15 -"$1"
    waited=0
    while [ $waited -lt "$patience" ] && lives "$1"; do nap; done
  fi
  kill -9 -"$1"
  [ -z "$drains" ] || kill $drains
}}

while read -r sign group run; do
  others=
  for each in $runs; do [ "${{each%%:*}}" = "$group" ] || others="$others $each"; done
  runs=$others
  [ "$sign" = - ] || runs="$runs $group:$run:$sign"
done
for each in $runs; do
  (IFS=:; set -- $each; unset IFS; climb "$@") &
done
wait
rm -rf -- "$directory"
"""


class Reaper:
    """The writing side. Ends, and cleans up, when it is closed or this process is gone.

    Args:
        directory: Private; it removes it.
        grace_s: How long fixtures may take to be torn down.
        patience_s: How long a process may take that does not tear down, after SIGTERM; before that
            `LONGER` times as long.
    """

    def __init__(self, directory: str, grace_s: float = 0.0, patience_s: float = 2.0) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        if os.name != "posix":
            return
        ticks = [str(round(each / TICK_S)) for each in (max(grace_s, patience_s), patience_s)]
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "cideldill-reaper", directory, *ticks],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )

    @property
    def is_alive(self) -> bool:
        """Whether it will end what this process leaves behind."""
        return self._process is not None and self._process.poll() is None

    def watch(self, group: int, run: str) -> None:
        """End this process group when this process dies."""
        self._write(b"+", group, run)

    def interrupted(self, group: int, run: str, *, handles: bool = False) -> None:
        """The group got its Ctrl-C: another one would hit in its teardown.

        `handles`: the test that it hit is on its way out; fixtures come next.
        """
        self._write(b"h" if handles else b"i", group, run)

    def forget(self, group: int) -> None:
        """The group is gone; its number may be used again."""
        self._write(b"-", group, "")

    def close(self, *, leaves: bool = False) -> None:
        """Let it clean up and wait for its end; do it here where it can't.

        `leaves`: there are groups that it has to wait for itself.
        """
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            if leaves:
                # This process lives on and takes its exit status, when there is one.
                name = "cideldill-reaper"
                threading.Thread(target=self._process.wait, daemon=True, name=name).start()
                return
            self._process.wait(CLEAN_UP_S)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _write(self, sign: bytes, group: int, run: str) -> None:
        if self._process is None or self._process.stdin is None:
            return
        # It was killed: an orderly end cleans up all the same; or it was closed.
        with suppress(OSError, ValueError):
            self._process.stdin.write(b"%s %d %s\n" % (sign, group, run.encode()))
