"""A warehouse: lots, reservations, waves of picking, events."""

from __future__ import annotations

from typing import Final

from benchmarks.evidence_cases.cases import INI, Case, MadeUp
from tests.together.real_package import Breakage

FILES: Final = {
    "pytest.ini": INI,
    "depot/__init__.py": "",
    "depot/stock.py": '''
"""Lots of articles at places."""

from dataclasses import dataclass


class OutOfStock(Exception):
    """There is not enough."""


@dataclass
class Lot:
    article: str
    quantity: int
    expires: str = "9999-12-31"


class Place:
    def __init__(self, name):
        self.name = name
        self.lots = []
        self._counts = {}

    def put(self, lot):
        self.lots.append(lot)
        self._counts[lot.article] = self._counts.get(lot.article, 0) + lot.quantity

    def count(self, article):
        return self._counts.get(article, 0)

    def recount(self):
        """Article → quantity, from the lots themselves."""
        found = {}
        for lot in self.lots:
            found[lot.article] = found.get(lot.article, 0) + lot.quantity
        return {article: quantity for article, quantity in found.items() if quantity}

    def take(self, article, quantity):
        """Remove some, from the lots that expire first; the lots that were taken."""
        if self.count(article) < quantity:
            raise OutOfStock(f"{self.name} has {self.count(article)} of {article}, not {quantity}")
        taken = []
        left = quantity
        for lot in sorted(self.lots, key=lambda each: each.expires):
            if lot.article != article:
                continue
            part = min(lot.quantity, left)
            lot.quantity -= part
            left -= part
            taken.append(Lot(article, part, lot.expires))
            if not left:
                break
        self._counts[article] -= quantity
        self.lots = [lot for lot in self.lots if lot.quantity]
        return taken


def move(article, quantity, source, target):
    for lot in source.take(article, quantity):
        target.put(lot)
''',
    "depot/orders.py": '''
"""Orders, and what is reserved for them."""

from dataclasses import dataclass, field


@dataclass
class Order:
    number: int
    wanted: dict
    customer: str = "shop"
    priority: int = 0
    reserved: dict = field(default_factory=dict)

    def is_complete(self):
        return self.reserved == self.wanted


def reserve(order, available, partial=False):
    """Reserve what the order wants; all or nothing if it may not be delivered in parts."""
    found = {}
    for article, quantity in order.wanted.items():
        part = min(quantity, available.get(article, 0))
        if part < quantity and not partial:
            return False
        if part:
            found[article] = part
    for article, part in found.items():
        available[article] -= part
    order.reserved = found
    return bool(found)


def reserve_all(orders, available):
    """Serve the most urgent orders first, then the oldest."""
    served = []
    for order in sorted(orders, key=lambda each: (-each.priority, each.number)):
        if reserve(order, available):
            served.append(order.number)
    return served
''',
    "depot/waves.py": '''
"""Waves of picking: orders are packed into carts that carry so many pieces."""

from dataclasses import dataclass, field


@dataclass
class Wave:
    number: int
    orders: list = field(default_factory=list)
    pieces: int = 0

    def add(self, number, pieces):
        self.orders.append(number)
        self.pieces += pieces


def pieces_of(order):
    return sum(order.wanted.values())


def has_room(wave, pieces, capacity):
    return not wave.orders or wave.pieces + pieces <= capacity


def waves(orders, capacity):
    made = [Wave(1)]
    for order in orders:
        pieces = pieces_of(order)
        if not has_room(made[-1], pieces, capacity):
            made.append(Wave(len(made) + 1))
        made[-1].add(order.number, pieces)
    return made


def cart_labels(made, orders):
    """Label → pieces, for each order's bag in its wave."""
    known = {order.number: order for order in orders}
    return {
        f"{wave.number}-{at}": pieces_of(known[number])
        for wave in made
        for at, number in enumerate(wave.orders, 1)
    }
''',
    "depot/events.py": '''
"""Who hears of changes."""

from collections import defaultdict


class Bus:
    def __init__(self):
        self._heard = defaultdict(list)
        self.failures = []

    def on(self, topic, handler):
        self._heard[topic].append(handler)

    def tell(self, topic, **details):
        for handler in list(self._heard[topic]):
            handler(**details)


def counters(bus, topics):
    """Counts of pieces by topic, kept by handlers of the bus."""
    counts = dict.fromkeys(topics, 0)

    def counting(topic):
        def handle(quantity=1, **_details):
            counts[topic] += quantity

        return handle

    for topic in topics:
        bus.on(topic, counting(topic))
    return counts
''',
    "depot/reorder.py": '''
"""When and how much to buy."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    minimum: int
    lot_size: int
    is_seasonal: bool = False
    season: tuple = ()


def is_due(policy, on_hand, on_order, month):
    """Below the minimum, and in season if it has one."""
    if policy.is_seasonal and month not in policy.season:
        return False
    return on_hand + on_order < policy.minimum


def amount(policy, on_hand, on_order):
    """Whole lots that reach the minimum."""
    missing = policy.minimum - on_hand - on_order
    return -(-missing // policy.lot_size) * policy.lot_size


def proposals(policies, counts, on_order, month):
    found = {}
    for article, policy in sorted(policies.items()):
        have, coming = counts.get(article, 0), on_order.get(article, 0)
        if is_due(policy, have, coming, month):
            found[article] = amount(policy, have, coming)
    return found
''',
    "depot/house.py": '''
"""A warehouse with its places, orders and events."""

from depot.events import Bus, counters
from depot.orders import reserve_all
from depot.reorder import proposals
from depot.stock import Lot, Place, move
from depot.waves import cart_labels, waves

TOPICS = ("received", "picked", "sent")


class Warehouse:
    def __init__(self, policies=None, capacity=40):
        self.store, self.ramp = Place("store"), Place("ramp")
        self.bus = Bus()
        self.counts = counters(self.bus, TOPICS)
        self.policies = policies or {}
        self.capacity = capacity
        self.on_order = {}

    def receive(self, article, quantity, expires="9999-12-31"):
        self.store.put(Lot(article, quantity, expires))
        self.on_order[article] = max(0, self.on_order.get(article, 0) - quantity)
        self.bus.tell("received", article=article, quantity=quantity)

    def pick(self, orders):
        """Reserve, bring to the ramp; the waves."""
        available = self.store.recount()
        served = reserve_all(orders, available)
        chosen = [order for order in orders if order.number in served]
        for order in chosen:
            for article, quantity in order.reserved.items():
                move(article, quantity, self.store, self.ramp)
                self.bus.tell("picked", article=article, quantity=quantity)
        return waves(chosen, self.capacity)

    def send(self, orders):
        for order in orders:
            for article, quantity in order.reserved.items():
                self.ramp.take(article, quantity)
                self.bus.tell("sent", article=article, quantity=quantity)

    def labels(self, orders):
        return cart_labels(self.pick(orders), orders)

    def buy(self, month):
        counts = self.store.recount()
        wanted = proposals(self.policies, counts, self.on_order, month)
        for article, quantity in wanted.items():
            self.on_order[article] = self.on_order.get(article, 0) + quantity
        return wanted
''',
    "tests/test_house.py": """
import pytest

from depot.house import Warehouse
from depot.orders import Order
from depot.reorder import Policy
from depot.stock import OutOfStock


@pytest.fixture
def house():
    made = Warehouse(
        {
            "lamp": Policy(10, 6),
            "sledge": Policy(20, 5, True, (9, 10, 11)),
            "rope": Policy(5, 50),
        }
    )
    made.receive("lamp", 6, "2024-06-30")
    made.receive("lamp", 4, "2024-03-31")
    made.receive("rope", 30)
    return made


def test_received(house):
    assert house.store.recount() == {"lamp": 10, "rope": 30}
    assert house.counts["received"] == 40


def test_take_too_many(house):
    with pytest.raises(OutOfStock):
        house.store.take("lamp", 11)


def test_oldest_first(house):
    assert [lot.quantity for lot in house.store.take("lamp", 5)] == [4, 1]
    assert house.store.count("lamp") == 5


def test_pick_one(house):
    made = house.pick([Order(1, {"lamp": 2})])
    assert [wave.orders for wave in made] == [[1]]
    assert house.store.count("lamp") == 8


def test_whole_orders_only(house):
    first, second = Order(1, {"lamp": 8}), Order(2, {"lamp": 4, "rope": 1})
    house.pick([first, second])
    assert first.is_complete()
    assert house.ramp.recount() == {"lamp": 8}


def test_counts_after_picking(house):
    orders = [Order(1, {"lamp": 4}), Order(2, {"lamp": 3}), Order(3, {"rope": 7})]
    house.pick(orders)
    assert house.store.recount() == {"lamp": 3, "rope": 23}
    assert house.store.count("lamp") == 3


def test_many_shelves(house):
    for day in range(10, 30):
        house.receive("rope", 2, f"2024-05-{day}")
    house.pick([Order(number, {"rope": 3}) for number in range(1, 21)])
    assert house.ramp.count("rope") == 60
    assert sum(lot.quantity for lot in house.store.lots if lot.article == "rope") == 10


def test_urgent_first(house):
    late, urgent = Order(1, {"lamp": 9}), Order(2, {"lamp": 9}, priority=1)
    house.pick([late, urgent])
    assert urgent.is_complete()
    assert not late.is_complete()


def test_sent(house):
    orders = [Order(1, {"lamp": 2, "rope": 3})]
    house.pick(orders)
    house.send(orders)
    assert house.ramp.recount() == {}
    assert house.counts == {"received": 40, "picked": 5, "sent": 5}
""",
    "tests/test_planning.py": """
import pytest

from depot.house import Warehouse
from depot.orders import Order
from depot.reorder import Policy, amount
from depot.waves import waves


@pytest.fixture
def house():
    return Warehouse(
        {"lamp": Policy(10, 6), "sledge": Policy(20, 5, True, (9, 10, 11)), "rope": Policy(5, 50)}
    )


def test_amount():
    assert amount(Policy(10, 6), 3, 0) == 12
    assert amount(Policy(10, 6), 4, 0) == 6


def test_buy_in_autumn(house):
    assert house.buy(9) == {"lamp": 12, "rope": 50, "sledge": 20}


def test_nothing_twice(house):
    house.buy(10)
    assert house.buy(10) == {}


def test_buy_in_spring(house):
    house.receive("lamp", 12)
    house.receive("rope", 4)
    assert house.buy(4) == {"rope": 50}


def test_one_wave():
    assert len(waves([Order(number, {"rope": 1}) for number in range(9)], 40)) == 1


def test_a_big_order_alone():
    made = waves([Order(1, {"rope": 90}), Order(2, {"rope": 1})], 40)
    assert [wave.orders for wave in made] == [[1], [2]]


def test_labels_of_a_day(house):
    house.capacity = 400
    house.receive("rope", 30_000)
    orders = [Order(number, {"rope": number * 19 % 97 + 3}) for number in range(1, 401)]
    labels = house.labels(orders)
    assert len(labels) == 400
    assert labels["1-1"] == 22
    assert labels["28-1"] == 41
    assert max(int(label.split("-")[0]) for label in labels) == 56
""",
}

DEPOT: Final = MadeUp("depot_app", FILES)

CASES: Final = (
    Case(
        "depot-lost-update",
        "lost update on an early return",
        DEPOT,
        Breakage(
            "Place.take",
            "depot/stock.py",
            """            if not left:
                break
""",
            """            if not left and not lot.quantity:
                self.lots.remove(lot)
                return taken
            if not left:
                break
""",
        ),
        "tests/test_house.py::test_counts_after_picking",
    ),
    Case(
        "depot-default",
        "wrong default argument",
        DEPOT,
        Breakage(
            "reserve",
            "depot/orders.py",
            "def reserve(order, available, partial=False):",
            "def reserve(order, available, partial=True):",
        ),
        "tests/test_house.py::test_whole_orders_only",
    ),
    Case(
        "depot-deep-loop",
        "off by one after many iterations",
        DEPOT,
        Breakage(
            "has_room",
            "depot/waves.py",
            "return not wave.orders or wave.pieces + pieces <= capacity",
            "return not wave.orders or wave.pieces + pieces < capacity",
        ),
        "tests/test_planning.py::test_labels_of_a_day",
    ),
    Case(
        "depot-operator",
        "wrong operator in a condition",
        DEPOT,
        Breakage(
            "is_due",
            "depot/reorder.py",
            "if policy.is_seasonal and month not in policy.season:",
            "if policy.is_seasonal and month in policy.season:",
        ),
        "tests/test_planning.py::test_buy_in_spring",
    ),
    Case(
        "depot-closure",
        "late-binding closure",
        DEPOT,
        Breakage(
            "counters",
            "depot/events.py",
            """    def counting(topic):
        def handle(quantity=1, **_details):
            counts[topic] += quantity

        return handle

    for topic in topics:
        bus.on(topic, counting(topic))
""",
            """    for topic in topics:

        def handle(quantity=1, **_details):
            counts[topic] += quantity

        bus.on(topic, handle)
""",
        ),
        "tests/test_house.py::test_received",
    ),
)
