"""The state of torch that training and prediction run in, whatever the caller's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch

_lock = threading.Lock()
_n_inside = 0
_n_threads_outside = 1


@contextmanager
def single_thread() -> Iterator[None]:
    """Run torch on one thread, then give back the caller's setting.

    The steps of a small network are too short to share: a second thread gains a few
    percent on an idle machine and spins on a busy one. Fits may run side by side in
    threads, so the setting to give back is the one found by the first that entered,
    and every thread gives it back for itself: the OpenMP part of it is per thread.
    """
    global _n_inside, _n_threads_outside
    with _lock:
        if _n_inside == 0:
            _n_threads_outside = torch.get_num_threads()
        _n_inside += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            _n_inside -= 1
            torch.set_num_threads(_n_threads_outside)


@contextmanager
def plain_torch() -> Iterator[None]:
    """Run on one thread, with gradients and without autocast.

    A caller may have switched off gradients or switched on lower precision for a model
    of its own; a fit inside that block means the same as outside.
    """
    with (
        single_thread(),
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast("cpu", enabled=False),
        torch.autocast("cuda", enabled=False)
        if torch.cuda.is_available()
        else nullcontext(),
    ):
        yield
