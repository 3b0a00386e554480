"""Ctrl-C during a comparison: never swallowed, never in the middle of a record."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Handler = Callable[[int, Any], Any]


def _python_handler() -> Handler | None:
    """The handler of Ctrl-C, if it is one that can be stood in for here and now.

    Only the main thread may set handlers, and a Ctrl-C that is ignored stays so.
    """
    if threading.current_thread() is not threading.main_thread():
        return None
    handler = signal.getsignal(signal.SIGINT)
    return handler if callable(handler) else None


@contextmanager
def unswallowed_interrupts() -> Iterator[None]:
    """Raise a Ctrl-C again that the block caught to end early.

    Neural networks keep a half-trained model then; its score must not be recorded.
    """
    handler = _python_handler()
    if handler is None:
        yield
        return
    interrupted = False

    def note_and_pass_on(number: int, frame: Any) -> None:
        nonlocal interrupted
        interrupted = True
        handler(number, frame)

    signal.signal(signal.SIGINT, note_and_pass_on)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if interrupted:
        raise KeyboardInterrupt


@contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Let the block end before a Ctrl-C is acted on."""
    handler = _python_handler()
    if handler is None:
        yield
        return
    pending: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda *arguments: pending.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if pending:
            handler(*pending[0])


@contextmanager
def ignored_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C, as do the processes that start in the block, for all their life.

    A terminal sends Ctrl-C to all processes; the main one ends the others in order.
    """
    handler = _python_handler()
    if handler is None:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
