"""What the sign-flip test returns, and how it is shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from math import ceil, isfinite, isnan, log2
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ConfidenceInterval(NamedTuple):
    """Interval for the mean difference.

    Attributes
    ----------
    low : float
        Lower end; ``-inf`` where there is none.
    high : float
        Upper end; ``inf`` where there is none.
    """

    low: float
    high: float


@dataclass(frozen=True)
class PairedPermutationResult:
    """Result of :func:`paired_permutation_test`.

    ``print`` shows it as a table with a sentence, a notebook as an HTML table.

    Attributes
    ----------
    statistic : float
        Mean of ``a - b``, or what the callable made of ``a - b``.
    relative : float
        Mean of ``a - b`` divided by the mean of ``b``; NaN where the mean of ``b`` is
        0, as a share of nothing is not defined.
    pvalue : float
        The p-value, never 0.
    n_pairs : int
        Number of pairs.
    wins : int
        Pairs with ``a < b``. The scores are read as errors: lower is better.
    ties : int
        Pairs with ``a == b``.
    losses : int
        Pairs with ``a > b``.
    confidence_interval : ConfidenceInterval
        The shifts of the mean difference that the test does not reject.
    minimum_detectable_effect : float
        Size of the mean difference that is found with probability ``power``.
    min_pvalue : float
        The smallest p-value that so many pairs can give.
    exact : bool
        Whether all sign patterns were enumerated.
    alternative : str
        The alternative tested.
    confidence_level : float
        Level of ``confidence_interval``; one minus the level of the test.
    power : float
        Power that ``minimum_detectable_effect`` refers to.
    null_distribution : ndarray of shape (n_patterns,)
        The statistic under each sign pattern, the observed one first.
    """

    statistic: float
    relative: float
    pvalue: float
    n_pairs: int
    wins: int
    ties: int
    losses: int
    confidence_interval: ConfidenceInterval
    minimum_detectable_effect: float
    min_pvalue: float
    exact: bool
    alternative: str
    confidence_level: float
    power: float
    null_distribution: np.ndarray = field(repr=False, compare=False)

    def __str__(self) -> str:
        """Return the result as aligned lines and a sentence.

        Returns
        -------
        str
            Several lines.
        """
        rows = self._rows()
        width = max(len(name) for name, _ in rows)
        lines = [f"  {name:<{width}}  {text}" for name, text in rows]
        return "\n".join([self._title(), *lines, self._verdict()])

    def _repr_html_(self) -> str:
        """Return the result as an HTML table."""
        body = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th>"
            f"<td style='text-align:left'>{escape(text)}</td></tr>"
            for name, text in self._rows()
        )
        return (
            f"<table><caption>{escape(self._title())}</caption>"
            f"<tbody>{body}</tbody></table><p>{escape(self._verdict())}</p>"
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the null distribution and the observed value.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib Axes
            The axes drawn on.
        """
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError(
                "plot needs matplotlib. Install it with: "
                'pip install "sk-quadratic[compare]"'
            ) from error
        if ax is None:
            _, ax = plt.subplots()
        null = self.null_distribution
        # Values that are all the same leave a range too narrow to cut into bins.
        n_bins = 40 if np.ptp(null) > 1e-12 * np.abs(null).max() else 1
        ax.hist(null, bins=n_bins, color="0.75", label="signs flipped")
        ax.axvline(self.statistic, color="C3", label=f"observed, p = {self.pvalue:.3g}")
        ax.set_xlabel("statistic of a - b")
        ax.set_ylabel("sign patterns")
        ax.legend()
        return ax

    def _title(self) -> str:
        patterns = len(self.null_distribution)
        how = f"all {patterns}" if self.exact else f"{patterns} random"
        return (
            f"Paired permutation test, {self.alternative}: "
            f"{self.n_pairs} pairs, {how} sign patterns"
        )

    def _rows(self) -> list[tuple[str, str]]:
        low, high = self.confidence_interval
        name, interval = "mean of a - b", f"{low:.4g} to {high:.4g}"
        effect = self.minimum_detectable_effect
        detectable = f"{effect:.4g} (with power {self.power:g})"
        if isnan(low):
            name = "statistic of a - b"
            interval = detectable = "not given for a callable statistic"
        elif not isfinite(effect):
            detectable = "none: too few pairs"
        share = f" ({self.relative:+.2%} of the mean of b)"
        if isnan(low) or isnan(self.relative):
            share = ""
        counts = f"{self.wins}, {self.ties}, {self.losses}"
        return [
            (name, f"{self.statistic:.4g}{share}"),
            (f"{100 * self.confidence_level:g} % confidence interval", interval),
            ("p-value", f"{self.pvalue:.4g} (at best {self._best_pvalue():.4g})"),
            ("wins, ties, losses", f"{counts} (a win is a < b)"),
            ("smallest detectable effect", detectable),
        ]

    def _best_pvalue(self) -> float:
        """Return the smallest p-value that these pairs and patterns can give."""
        tails = 2.0 if self.alternative == "two-sided" else 1.0
        return max(self.min_pvalue, min(1.0, tails / len(self.null_distribution)))

    def _verdict(self) -> str:
        level = 1.0 - self.confidence_level
        if self.pvalue <= level * (1.0 + 1e-9):
            side = "above" if self.statistic > 0.0 else "below"
            return f"a lies {side} b: the difference is significant at {level:.4g}."
        tails = 2.0 if self.alternative == "two-sided" else 1.0
        if self.min_pvalue > level * (1.0 + 1e-9):
            # The pairs from which tails / 2**n_pairs is at most the level.
            needed = ceil(log2(tails / level) - 1e-9)
            return (
                f"{self.n_pairs} pairs cannot show a difference at {level:.4g}, "
                f"whatever the scores; it takes at least {needed}."
            )
        if self._best_pvalue() > level * (1.0 + 1e-9):
            return (
                f"{len(self.null_distribution)} sign patterns cannot show a difference "
                f"at {level:.4g}; raise n_resamples."
            )
        return f"No difference is shown at {level:.4g}; that is no proof of equality."
