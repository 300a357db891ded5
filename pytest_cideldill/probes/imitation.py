"""Results of intercepted calls, imitated so that they have the type that the function returns.

A call of a generator function that a client skips returns a generator of the wanted items, and
raises nothing before that starts; calls of coroutine functions return a coroutine. Runs on the
thread that calls.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from types import AsyncGeneratorType, CodeType, CoroutineType, GeneratorType
from typing import Any, Final, Protocol

from pytest_cideldill.patching.code_swap import makes


class Given(Protocol):
    """What a call gives instead of its exception."""

    @property
    def value(self) -> Any: ...


def called(
    code: CodeType,
    hit: Callable[[Callable[..., Any]], Any],
    original: Callable[..., Any],
    is_ours: Callable[[str], bool],
) -> Any:
    """The outcome of an intercepted call.

    Args:
        hit: Calls the original that it is given, or gives or raises something else.
        is_ours: Whether a file is ours. Exceptions of other files were not wanted by a client, and
            pass through: that of a signal handler.
    """
    __tracebackhide__ = True
    kind = makes(code)
    if kind is None:
        return hit(original)
    is_made = False

    def make(*args: Any, **kwargs: Any) -> Any:
        nonlocal is_made
        is_made = True
        return original(*args, **kwargs)

    try:
        result = hit(make)
    except Exception as error:
        if is_made or not is_ours(_origin(error)):
            raise
        return _imitation(code, None, error.with_traceback(None))
    if is_made or type(result) is kind:
        return result
    return _imitation(code, result, None)


def follow(
    code: CodeType,
    made: Any,
    returned: Callable[[Any], Any],
    failed: Callable[[BaseException], Given | None],
) -> Any:
    """A generator, coroutine or asynchronous generator around the one that a call made.

    Args:
        made: The generator, coroutine or asynchronous generator that it made.
        returned: Gets what it returned, and gives what it is to return.
        failed: Gets what it raised; gives what it is to return instead, or None.
    """
    drive, _ = _BY_KIND[makes(code)]
    following = drive(made, returned, failed)
    following.__name__, following.__qualname__ = made.__name__, made.__qualname__
    return following


def _follow_generator(made: Any, returned: Any, failed: Any) -> Generator[Any, Any, Any]:
    __tracebackhide__ = True
    try:
        result = yield from made
    except (GeneratorExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        given = failed(error)
        if given is None:
            raise
        return given.value
    return returned(result)


async def _follow_coroutine(made: Any, returned: Any, failed: Any) -> Any:
    __tracebackhide__ = True
    try:
        result = await made
    except (GeneratorExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        given = failed(error)
        if given is None:
            raise
        return given.value
    return returned(result)


async def _follow_async_generator(made: Any, returned: Any, failed: Any) -> AsyncIterator[Any]:
    __tracebackhide__ = True
    sent: Any = None
    step = made.asend
    while True:
        try:
            item = await step(sent)
        except StopAsyncIteration:
            break
        except (GeneratorExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            if failed(error) is None:
                raise
            return
        try:
            sent, step = (yield item), made.asend
        except GeneratorExit:
            await made.aclose()
            raise
        except BaseException as thrown:  # noqa: BLE001 - handed on to the original
            sent, step = thrown, made.athrow
    returned(None)


def _origin(error: Exception) -> str:
    """The file in which an exception was raised that has just been caught."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return "" if place is None else place.tb_frame.f_code.co_filename


def _imitation(code: CodeType, result: Any, error: Exception | None) -> Any:
    """A generator of the result's items, or a coroutine that gives it; with an error it raises."""
    _, make = _BY_KIND[makes(code)]
    made = make(result, error)
    made.__name__, made.__qualname__ = code.co_name, code.co_qualname
    return made


def _generator(items: Any, error: Exception | None) -> Iterator[Any]:
    __tracebackhide__ = True
    if error is not None:
        raise error
    yield from () if items is None else items


async def _coroutine(result: Any, error: Exception | None) -> Any:
    __tracebackhide__ = True
    if error is not None:
        raise error
    return result


async def _async_generator(items: Any, error: Exception | None) -> AsyncIterator[Any]:
    __tracebackhide__ = True
    if error is not None:
        raise error
    for item in () if items is None else items:
        yield item


_BY_KIND: Final[dict[type | None, tuple[Callable[..., Any], Callable[..., Any]]]] = {
    GeneratorType: (_follow_generator, _generator),
    CoroutineType: (_follow_coroutine, _coroutine),
    AsyncGeneratorType: (_follow_async_generator, _async_generator),
}
"""What calls make → what follows it, and what imitates it."""
