"""A record of 10,000 events, some of whose texts want to be code."""

from __future__ import annotations

from pathlib import Path

from pytest_cideldill.objects.store import CIDStore
from tests.process.test_people import HOSTILE
from tests.process.written import Writer, call, hit, write

CID = "ab" * 64
TESTS = 200
"""Of each worker."""


def big_record(record: Path) -> None:
    """400 tests of two workers with 8,000 hits and 2,000 calls, and texts that want to be code."""
    workers = [Writer(name).begin() for name in ("gw0", "gw1")]
    for worker in workers:
        name = worker.worker
        for number in range(TESTS):
            hits = [hit(f"total={n * number % 97} of {name}", n) for n in range(20)]
            ids = [f"{name}.{number}.{n}" for n in range(5)]
            calls = [call(id, above) for id, above in zip(ids, [None, *ids], strict=False)]
            calls[0]["cids"] = {"args": [CID], "kwargs": {}, "result": None}
            failure = {"message": HOSTILE} if number == 7 else None
            worker.test(f"test_{number}[{name}]", *hits, *calls, failure=failure)
    last = workers[0]
    last.test(
        HOSTILE, hit(HOSTILE), call("x", qualified_name=HOSTILE), failure={"message": HOSTILE}
    )
    last.append("log", message=HOSTILE, values={})
    run = write(record, Writer().begin().end(), *workers)
    store = CIDStore(run / "objects.sqlite")
    inside = {"price": {"type": "int", "repr": "40", "attributes": {}}}
    store.put(CID, {"type": "Cart", "repr": HOSTILE, "attributes": inside})
    store.close()
