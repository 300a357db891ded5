"""A machine with as much time as a test says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Machine:
    """In place of `time`: a look at the clock takes `own_s` of this thread, `busy_s` of others."""

    own_s: float = 0.0
    busy_s: float = 0.0
    now: float = 100.0
    worked: float = 7.0
    looks: int = 0

    def perf_counter(self) -> float:
        self.looks += 1
        self.now += self.busy_s + self.own_s
        self.worked += self.own_s
        return self.now

    def thread_time(self) -> float:
        return self.worked
