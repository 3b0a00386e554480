"""Sums over the flipped pairs, from which every part of the sign-flip test follows.

Flipping the signs of the pairs in a set ``I`` lowers the sum of the differences by
twice their sum over ``I``. So a pattern is at least as large as the observed one
exactly when its sum over ``I`` is not above 0, and, with the differences moved down
by a shift, when their mean over ``I`` is not above that shift. The p-value counts
sums; the interval and the power are order statistics of means.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_CHUNK = 2**22  # numbers drawn at a time: tens of megabytes at most


def n_patterns(n_pairs: int, n_resamples: int) -> tuple[int, bool]:
    """Return how many sign patterns the test looks at, and whether they are all.

    Drawn patterns come in pairs of opposite signs, the observed pattern and its
    opposite among them, so that doubling the smaller tail and counting absolute
    values agree. No p-value can then fall below ``1 / (n_resamples + 1)``.
    """
    # The bit length keeps 2**n_pairs from being formed for many pairs.
    if n_pairs < n_resamples.bit_length():
        return 2**n_pairs, True
    return 2 * ((n_resamples + 1) // 2), False


def _drawn_flips(
    n_pairs: int, count: int, generator: np.random.Generator
) -> Iterator[np.ndarray]:
    """Draw the first half of the patterns, but for the observed one.

    Yields pieces of shape (n_rows, n_pairs) that hold 1 where a pair is flipped.
    """
    n_rows, n_bytes = count // 2 - 1, (n_pairs + 7) // 8
    step = max(1, _CHUNK // n_pairs)
    for start in range(0, n_rows, step):
        shape = (min(step, n_rows - start), n_bytes)
        words = generator.integers(256, size=shape, dtype=np.uint8)
        yield np.unpackbits(words, axis=1, count=n_pairs)


def _enumerated_sums(columns: np.ndarray) -> np.ndarray:
    sums = np.zeros((1, columns.shape[1]))
    for row in columns:
        sums = np.concatenate([sums, sums + row])
    return sums  # row j: the pairs at the bits of j are flipped


def _drawn_sums(
    columns: np.ndarray, count: int, generator: np.random.Generator
) -> np.ndarray:
    parts = [np.zeros((1, columns.shape[1]))]  # nothing flipped: as observed
    for flips in _drawn_flips(len(columns), count, generator):
        parts.append(flips.astype(np.float64) @ columns)
    sums = np.concatenate(parts)
    return np.concatenate([sums, (columns.sum(axis=0) - sums)[::-1]])


def half_of_signs(
    n_pairs: int, count: int, exact: bool, generator: np.random.Generator
) -> Iterator[np.ndarray]:
    """Yield the signs of the first half of the patterns; the rest are their opposites.

    Parameters
    ----------
    n_pairs : int
        Number of pairs.
    count : int
        Number of patterns, as :func:`n_patterns` gives it.
    exact : bool
        Whether these are all patterns.
    generator : Generator
        Draws the patterns when they are not all.

    Yields
    ------
    ndarray of shape (n_pairs,)
        Ones and minus ones, first the observed pattern of ones.
    """
    yield np.ones(n_pairs)
    if exact:
        bits = np.arange(n_pairs)
        for index in range(1, count // 2):
            yield 1.0 - 2.0 * (index >> bits & 1)
        return
    for flips in _drawn_flips(n_pairs, count, generator):
        for row in flips:
            yield 1.0 - 2.0 * row


def flipped_sums(
    values: np.ndarray,
    count: int,
    exact: bool,
    generator: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Sum ``values`` over the flipped pairs of each sign pattern.

    Parameters
    ----------
    values : ndarray of shape (n_pairs, n_columns)
        Differences, one experiment a column.
    count : int
        Number of patterns, as :func:`n_patterns` gives it.
    exact : bool
        Whether these are all patterns.
    generator : Generator
        Draws the patterns when they are not all.

    Returns
    -------
    sums : ndarray of shape (count, n_columns)
        The first row belongs to the observed pattern, in which nothing is flipped;
        the first and the last, the second and the last but one are opposites.
    sizes : ndarray of shape (count, 1)
        How many pairs are flipped.
    """
    # A column of ones is summed along: it counts the flipped pairs.
    columns = np.concatenate([values, np.ones((len(values), 1))], axis=1)
    if exact:
        both = _enumerated_sums(columns)
    else:
        both = _drawn_sums(columns, count, generator)
    return both[:, :-1], both[:, -1:]


def n_rejected(count: int, level: float) -> int:
    """Return the largest number of patterns in a tail that is still rejected."""
    # The margin is for levels such as 1 - 0.9, which come out a rounding error low.
    return min(int(level * count * (1.0 + 1e-9)), count - 1)


def lowest_kept_shift(sums: np.ndarray, sizes: np.ndarray, rejected: int) -> np.ndarray:
    """Return the smallest shift that the test for a larger mean does not reject.

    It is the order statistic number ``rejected`` of the means over the flipped pairs
    (counted from 0 at the observed pattern, which belongs to every tail), one value
    for each column, -inf where no shift is rejected.
    """
    means = np.full(sums.shape, -np.inf)
    np.divide(sums, sizes, out=means, where=sizes > 0)
    return np.partition(means, rejected, axis=0)[rejected]
