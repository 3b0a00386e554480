"""The progress of a comparison on a terminal or in a log."""

from __future__ import annotations

import shutil
import time
from typing import TextIO

_LOG_LINES = 20  # about as many lines in a log, however many fits there are


class ProgressLine:
    """One line that changes on a terminal, and a few plain lines elsewhere.

    Parameters
    ----------
    stream : file
        Where to write.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.n_done = 0
        self.n_all = 0
        self._on_terminal = stream.isatty()
        self._line_open = False
        self._started = time.monotonic()
        self._n_before = 0

    def __call__(self, n_done: int, n_all: int, label: str) -> None:
        """Report one more finished fit."""
        step = max(n_all // _LOG_LINES, 1)
        self.n_done, self.n_all = n_done, n_all
        if label == "resumed":
            self._n_before = n_done
            label = f"going on from {n_done} finished fits"
        elif not self._on_terminal and n_done % step and n_done < n_all:
            return
        text = f"[{n_done}/{n_all}] {label}{self._time_left()}"
        if self._on_terminal:
            width = shutil.get_terminal_size().columns - 1
            self.stream.write(f"\r\x1b[K{text[:width]}")
            self._line_open = True
        else:
            self.stream.write(f"{text}\n")
        self.stream.flush()

    def close(self) -> None:
        """Clear the changing line, so that what follows starts on its own."""
        if self._line_open:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
            self._line_open = False

    def _time_left(self) -> str:
        done = self.n_done - self._n_before
        if done < 1 or self.n_done >= self.n_all:
            return ""
        seconds = (time.monotonic() - self._started) / done * (self.n_all - self.n_done)
        return f", about {int(seconds) // 60}:{int(seconds) % 60:02d} left"
