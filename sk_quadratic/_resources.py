"""What a fit runs on, and in how large steps: the device and the batch size."""

from __future__ import annotations

import math

import torch


def check_device(device: str | torch.device) -> str:
    """Name of a device that is there.

    Parameters
    ----------
    device : str or torch.device
        ``"auto"`` is CUDA where there is one and the CPU elsewhere.

    Returns
    -------
    str
        Name of the device.

    Raises
    ------
    ValueError
        If torch does not know the device, or it is not on this machine.
    """
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise ValueError(
            f"device must be 'auto', 'cpu', 'cuda' or another device of torch; got "
            f"{device!r}."
        ) from error
    if found.type == "cpu":
        return str(found)
    backend = getattr(torch, found.type, None)
    if backend is None or not backend.is_available():
        raise ValueError(
            f"device={str(device)!r} is not available on this machine. Use 'auto' to "
            "take CUDA where there is one and the CPU elsewhere."
        )
    if found.index is not None and found.index >= backend.device_count():
        raise ValueError(
            f"device={str(device)!r} is not available: the machine has "
            f"{backend.device_count()} of them, counted from 0."
        )
    return str(found)


def resolve_batch_size(batch_size: int | str, n_train: int) -> int:
    """Rows per batch.

    Parameters
    ----------
    batch_size : int or "auto"
        ``"auto"`` is the power of two nearest to a sixteenth of the rows, within 32
        and 256.
    n_train : int
        Number of training rows.

    Returns
    -------
    int
        Rows per batch, at most all.
    """
    if batch_size == "auto":
        batch_size = 2 ** min(max(round(math.log2(n_train / 16)), 5), 8)
    return min(int(batch_size), n_train)
