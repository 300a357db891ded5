"""What naming and storing objects costs: `python -m benchmarks.objects`.

Each figure stands beside its floor, a pickle and its SHA-512. Prints medians with every sample;
asserts nothing.
"""

from __future__ import annotations

import pickle
import statistics
import tempfile
import timeit
from collections.abc import Callable
from hashlib import sha512
from itertools import count
from pathlib import Path

from benchmarks.engine import Item
from benchmarks.spine import show, versions
from pytest_cideldill.evaluation.guard import EvaluationGuard
from pytest_cideldill.objects.content_ids import Objects
from pytest_cideldill.objects.object_file import ObjectFile
from pytest_cideldill.objects.object_log import ObjectLog, StoredObject
from pytest_cideldill.redaction.redactor import Redactor
from pytest_cideldill.rendering.tree import describe

ROUNDS = 9
CALLS = 20_000
BATCH = 1_000


SAMPLES: dict[str, object] = {
    "an int": 40,
    "a small dict": {"amount": 40, "name": "lamp", "tags": ["a", "b"]},
    "an instance": Item(),
    "a list of 100 ints": list(range(100)),
    "a list of 10,000 ints": list(range(10_000)),
    "a list of 100 instances": [Item() for _ in range(100)],
}


def per_call(work: Callable[[], object], calls: int = CALLS) -> list[float]:
    """Microseconds per call, one sample per round."""
    timer = timeit.Timer(work)
    return [timer.timeit(calls) / calls * 1e6 for _ in range(ROUNDS)]


def fresh(log: ObjectLog | None = None) -> Objects:
    """The objects of a process."""
    return Objects(log or ObjectLog(), Redactor(environ={}), b"key" * 10, EvaluationGuard())


def identified() -> None:
    """From a live object to its CID, on the calling thread and on the I/O thread."""
    making = statistics.median(per_call(fresh, 500))
    for name, value in SAMPLES.items():
        _identified(name, value, making)


def _identified(name: str, value: object, making: float) -> None:
    objects = fresh()
    objects.identify(objects.freeze(value))
    calls = CALLS if len(pickle.dumps(value)) < 1_000 else 500

    def new() -> object:
        unused = fresh()
        return unused.identify(unused.freeze(value))

    floor = per_call(lambda: sha512(pickle.dumps(value, 4)).hexdigest(), calls)
    show(f"{name}: pickle and SHA-512", floor, "µs")
    frozen = per_call(lambda: objects.freeze(value), calls)
    show(f"{name}: frozen", frozen, "µs")
    first = [each - making for each in per_call(lambda: fresh().freeze(value), 200)]
    show(f"{name}: frozen, new", first, "µs")
    waiting, kept = fresh(), []
    kept.append(waiting.freeze(value))
    show(f"{name}: frozen again, not named yet", per_call(lambda: waiting.freeze(value), 200), "µs")
    known = per_call(lambda: objects.identify(objects.freeze(value)), calls)
    show(f"{name}: named, seen before", known, "µs")
    show(f"{name}: named, new", [each - making for each in per_call(new, 200)], "µs")
    show(f"{name}: described", per_call(lambda: describe(value), 200), "µs")


def call_of_three() -> None:
    """What a recorded call adds: two small arguments and a result."""
    objects = fresh()
    freeze = objects.freeze

    def three() -> None:
        freeze(40, "amount")
        freeze("lamp", "name")
        freeze({"amount": 40, "name": "lamp"})

    show("two arguments and a result, frozen", per_call(three), "µs", "aim 4 µs")


def stored() -> None:
    """Rows of small objects, per row, in batches as the I/O thread writes them."""
    with tempfile.TemporaryDirectory(prefix="cideldill-objects-") as folder:
        store = ObjectFile(Path(folder, "objects"))
        numbers = count()

        def write() -> None:
            rows = []
            for _ in range(BATCH):
                data = pickle.dumps(next(numbers), 4)
                rows.append(StoredObject(sha512(data).hexdigest(), '{"type":"int"}' * 5, data))
            store.put_many(rows)

        show("a stored object", [each / BATCH for each in per_call(write, 10)], "µs")
        store.close()


def main() -> None:
    """Measure everything and print it."""
    print(versions(), end="\n\n")
    identified()
    call_of_three()
    stored()


if __name__ == "__main__":
    main()
