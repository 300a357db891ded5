"""Lazy results and proxies of released libraries are left alone by a look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.together.driver import only_stop
from tests.together.installed import on_path
from tests.together.records import recorded
from tests.together.workbench import Bench, workbench

pytestmark = pytest.mark.full

DJANGO = {
    "config.py": """
        SECRET_KEY = "x"
        INSTALLED_APPS = ["shop"]
        DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
        DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
    """,
    "shop/__init__.py": "",
    "shop/models.py": """
        from django.db import models

        class Order(models.Model):
            total = models.IntegerField()
    """,
    "shop/views.py": """
        def summary(orders):
            if orders is None:
                raise ValueError("no orders")
            total = sum(order.total for order in orders)
            return total

        def lazily(orders):
            return orders.filter(total__gt=1)
    """,
    "test_it.py": """
        import pytest
        from shop.models import Order
        from shop.views import lazily, summary

        @pytest.fixture
        def orders(db):
            Order.objects.bulk_create(Order(total=number) for number in range(100))
            return Order.objects.order_by("pk")

        def test_summary(orders, django_assert_num_queries):
            with django_assert_num_queries(1):
                assert summary(orders) == 4950

        def test_lazily(orders, django_assert_num_queries):
            with django_assert_num_queries(0):
                more = lazily(orders)
            assert orders._result_cache is more._result_cache is None

        def test_evaluated(orders, django_assert_num_queries):
            with django_assert_num_queries(3):  # the line, and twice what `repr` asks for
                assert summary(orders) == 4950
    """,
    "pytest.ini": """
        [pytest]
        DJANGO_SETTINGS_MODULE = config
        pythonpath = .
        addopts = -p no:cacheprovider -p no:asyncio -p no:rerunfailures
    """,
}


def ids_of(bench: Bench, stop: dict[str, Any], name: str) -> str:
    """The content id that `variables_get` tells."""
    reported = bench.agent.call("variables_get", pause_id=stop["pause_id"], names=[name])
    (variable,) = reported["variables"]
    assert isinstance(variable["cid"], str)
    return variable["cid"]


def test_a_query_is_not_made_because_somebody_looks(tmp_path: Path) -> None:
    """Before a call, at a line, after a return; an evaluation asks for what `repr` shows."""
    with workbench(tmp_path / "project", env=on_path("Django")) as bench:
        bench.write(**DJANGO)
        bench.breakpoint("shop.views.summary")
        bench.breakpoint("shop.views.lazily")
        for name in ("summary", "lazily"):
            bench.agent.call(
                "breakpoint_set_after_behavior", function_name=f"shop.views.{name}", behavior="stop"
            )
        bench.agent.call("breakpoint_set", file="shop/views.py", line=3)
        seen, cids = [], []
        reply = bench.run()
        while reply["state"] == "paused":
            stop = only_stop(reply)
            test = stop["nodeid"].rpartition("::")[2]
            seen.append((test, stop["phase"]))
            if stop["phase"] != "after":
                cids.append(ids_of(bench, stop, "orders"))
            if (test, stop["phase"]) == ("test_evaluated", "before"):
                for expression in ("orders", "[orders]"):
                    assert "remaining elements truncated" in bench.eval(stop, expression)
                assert bench.eval(stop, "same = orders") == ""
            reply = bench.go_on(stop)
        assert reply["outcomes"] == {"passed": 3, "failed": 0}, reply
        assert seen == [
            *(("test_summary", phase) for phase in ("before", "line", "after")),
            *(("test_lazily", phase) for phase in ("before", "after")),
            *(("test_evaluated", phase) for phase in ("before", "line", "after")),
        ]
        reported = bench.agent.call("breakpoint_inspect_object", cid=cids[0])
        assert reported["type"] == "django.db.models.query.QuerySet"
        assert reported["attributes"]["_result_cache"]["repr"] == "None"


def test_a_query_is_copied_when_a_client_asks_for_it(tmp_path: Path) -> None:
    with workbench(tmp_path / "project", env=on_path("Django")) as bench:
        bench.write(**DJANGO)
        bench.breakpoint("shop.views.lazily")
        stop = only_stop(bench.run(["test_it.py::test_lazily"]))
        cid = ids_of(bench, stop, "orders")
        assert bench.eval(stop, "orders._result_cache") == "None"
        reported = bench.agent.call("breakpoint_inspect_object", cid=cid)
        assert reported["attributes"]["_result_cache"]["repr"] == "None"
        assert bench.eval(stop, "len(orders._result_cache)") == "100"


def test_recorded_runs_make_no_queries(tmp_path: Path) -> None:
    root = tmp_path / "project"
    with workbench(root) as bench:
        test = DJANGO["test_it.py"].replace("queries(3)", "queries(1)")
        bench.write(**DJANGO | {"test_it.py": test})
    done = recorded(
        root,
        "--cideldill-record-calls=shop.*",
        "--cideldill-trace=shop/views.py:3={orders}",
        environment=on_path("Django"),
    )
    assert done.exit_code == 0, done.out + done.err
    assert len(done.of("hit")) == 2


WERKZEUG = """
    import pytest
    from werkzeug.local import LocalProxy

    asked = []

    def get():
        asked.append(1)
        return [1, 2]

    @pytest.fixture
    def user():
        asked.clear()
        return LocalProxy(get)

    def greet(user, users): return "hello"

    def at_line(user):
        name = "x"
        return name

    def test_greet(user):
        assert greet(user, [user]) == "hello"
        assert asked == []

    def test_at_line(user):
        assert at_line(user) == "x"
        assert asked == []

    def test_evaluated(user):
        assert greet(user, None) == "hello"
        assert len(asked) == 2
"""


def test_a_proxy_is_not_followed_because_somebody_looks(tmp_path: Path) -> None:
    with workbench(tmp_path / "project", env=on_path("Werkzeug")) as bench:
        bench.write(test_it=WERKZEUG)
        bench.breakpoint("test_it.greet")
        bench.agent.call("breakpoint_set", file="test_it.py", line=20)
        reply = bench.run()
        for test in ("test_greet", "test_at_line", "test_evaluated"):
            stop = only_stop(reply)
            assert stop["nodeid"].endswith(f"::{test}")
            ids_of(bench, stop, "user")
            if test == "test_evaluated":
                for expression in ("user", "[user]"):
                    assert "1, 2" in bench.eval(stop, expression)
            reply = bench.go_on(stop)
        assert reply["outcomes"] == {"passed": 3, "failed": 0}, reply
