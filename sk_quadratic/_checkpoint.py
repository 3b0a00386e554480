"""Finished fits of a comparison on disk, so that an interrupted one can go on."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import tempfile
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any


def cache_folder() -> Path:
    """Folder of the checkpoints: in `XDG_CACHE_HOME`, or in ``~/.cache``."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification asks to ignore a relative path.
    base = Path(root) if os.path.isabs(root) else Path.home() / ".cache"
    return base / "sk_quadratic"


def package_versions() -> dict[str, str]:
    """Versions of Python and of the packages that scores depend on.

    They are read from the metadata: torch is not imported for its version.
    """
    versions = {"python": platform.python_version()}
    for name in ("numpy", "scipy", "scikit-learn", "torch", "sk-quadratic"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def open_checkpoint(path: str | Path | None, identity: dict[str, Any]) -> Checkpoint:
    """Open a checkpoint; ``"auto"`` puts it in the cache folder, if that can be made.

    Parameters
    ----------
    path : str, Path or None
        The file, ``"auto"``, or None for none.
    identity : dict
        What the comparison depends on; it gives the automatic name.
    """
    if path != "auto":
        return Checkpoint(None if path is None else Path(path).expanduser(), identity)
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        warnings.warn(
            f"{folder} cannot be written: an interrupted comparison starts anew.",
            stacklevel=3,
        )
        return Checkpoint(None, identity)
    return Checkpoint(folder / f"{_digest(identity)}.json", identity)


def _digest(identity: dict[str, Any]) -> str:
    """Hash of what a comparison depends on, short enough for a file name."""
    text = json.dumps(identity, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


class Checkpoint:
    """Records of finished fits, in memory and, with a path, in a file.

    Parameters
    ----------
    path : Path or None
        The file; None keeps nothing on disk.
    identity : dict
        What the records depend on. Records of another comparison are refused.
    """

    def __init__(self, path: Path | None, identity: dict[str, Any]) -> None:
        self.path = path
        self._digest = _digest(identity)
        self.records: dict[str, dict[str, Any]] = {}
        if path is not None and path.exists():
            self.records = self._read(path)

    def add(self, key: str, record: dict[str, Any]) -> None:
        """Keep one record; the file is replaced as a whole, never half written."""
        self.records[key] = record
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps({"comparison": self._digest, "records": self.records})
        handle, temporary = tempfile.mkstemp(
            dir=self.path.parent, prefix=f".{self.path.name}."
        )
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(content)
            os.replace(temporary, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def delete(self) -> None:
        """Remove the file: the comparison is complete."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _read(self, path: Path) -> dict[str, dict[str, Any]]:
        problem = "is not a checkpoint of a comparison"
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["comparison"] == self._digest:
                return dict(content["records"])
            problem = "belongs to another comparison"
        except (ValueError, KeyError, TypeError):
            pass
        raise ValueError(
            f"The checkpoint {path} {problem}. Delete it or name another file."
        )
