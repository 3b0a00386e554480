"""The estimators: what each parameter means and which block each builds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch
from numpy.random import RandomState
from numpy.typing import NDArray
from torch import nn

from sk_quadratic._base import BaseBlockRegressor
from sk_quadratic._sklearn_compat import Interval, StrOptions
from sk_quadratic.modules import BranchSumBlock, QuadraticGramBlock

__all__ = ["BranchMLPRegressor", "QuadraticGramRegressor"]


class QuadraticGramRegressor(BaseBlockRegressor):
    r"""Regressor whose hidden layer is a quadratic form in a Gram matrix of weights.

    A wide sum of exchangeable branches with near-zero weights equals, to leading order,
    a quadratic form in the Gram matrix of the branch weights [1]_. This network
    computes the form directly: a stem maps the features to a stream of `width`
    numbers, `n_blocks` residual blocks :class:`~sk_quadratic.QuadraticGramBlock`
    follow, and a linear head gives the prediction. It is trained with AdamW.

    Parameters
    ----------
    width : int or None, default=32
        Width of the stream. With None the one block acts on the features themselves
        and gives the prediction, without stem, residual and head.
    n_blocks : int, default=1
        Number of blocks.
    n_heads : int, default=16
        Number of quadratic forms per block, each with branch weights of its own.
    n_branches : int, default=2
        Number of branches per head: an upper bound on the rank of each Gram matrix.
    rank : int or None, default=None
        Rank of factored branch weights, or None for free ones.
    structure : {"factored", "full"}, default="factored"
        Structure matrix: a product of learned features, or the literal form, whose
        value is a linear read-out of one hidden layer.
    structure_rank : int, default=1
        Rank of the factored structure matrix.
    hidden_width : int or None, default=None
        Units of the structure network's hidden layer. None is none with the factored
        structure, and `width` units with the full one.
    init_scale : float, default=1.0
        Initial size :math:`\epsilon` of the branch weights, whose entries have standard
        deviation :math:`\epsilon / \sqrt{n}` for a stream of width :math:`n`.
    activation : {"gelu", "relu", "silu", "tanh"}, default="gelu"
        Non-linearity of the structure network.
    loss : str, default="squared_error"
        Training loss, of the scaled target: ``"squared_error"``,
        ``"absolute_error"``, ``"huber"``, which turns from quadratic to linear at one
        deviation of the training target as judged by its quartiles, ``"quantile"``,
        which predicts the levels in `quantile`, or ``"poisson"``, which predicts the
        mean of counts through its logarithm.
    quantile : float, list of float or None, default=None
        Level or levels for ``loss="quantile"``, between 0 and 1. A list gives a column
        of predictions for each level, in its order, which do not cross.
    categorical_features : "from_dtype", array-like or None, default="from_dtype"
        Which columns are categories, as in
        :class:`sklearn.ensemble.HistGradientBoostingRegressor`. ``"from_dtype"`` takes
        columns of categories and of text; an array has their names, their indices, or
        is a mask of shape (n_features,); with None all columns are numbers.
    learning_rate : float, default=0.005
        Peak learning rate: the parameter to tune first.
    learning_rate_schedule : {"cosine", "constant"}, default="cosine"
        ``"cosine"`` warms up over 50 steps and falls to zero at `max_epochs`, so that
        `max_epochs` is part of the schedule. ``"constant"`` leaves the rate alone, or
        to a scheduler among the `callbacks`.
    weight_decay : float, default=0.01
        Decoupled weight decay of AdamW [2]_.
    batch_size : int or "auto", default="auto"
        Rows per step. ``"auto"`` is the power of two nearest to a sixteenth of the
        training rows, within 32 and 256.
    max_epochs : int, default=200
        Largest number of passes over the training rows.
    early_stopping : bool or "auto", default="auto"
        Whether to hold out a random part of the rows, keep the weights of the epoch
        with the lowest loss there, and stop when it no longer improves. ``"auto"``
        does so from 100 different rows on, or where `fit` is given `X_val`. Groups and
        time order are not respected: give `X_val`, or set it to False, where a random
        row of the same group gives the target away.
    validation_fraction : float, default=0.15
        Share of the rows that is held out for early stopping.
    n_iter_no_change : int, default=40
        Epochs without improvement after which training stops early.
    tol : float, default=0.0
        Smallest decrease of the validation loss that counts as an improvement, for
        the standardised target.
    device : str or torch.device, default="auto"
        Where to train and predict; ``"auto"`` is CUDA where there is one and the CPU
        elsewhere.
    random_state : int, RandomState instance or None, default=None
        Seed of the validation split, the initial weights and the order of the rows.
        No global generator is read or seeded when it is an int.
    warm_start : bool, default=False
        Whether another `fit` continues from the present weights for `max_epochs` more
        epochs. Scaling, network, loss and device stay those of the first `fit`.
    verbose : int, default=0
        With 1 a progress bar shows training loss, validation score and time left; with
        2 or more a line per epoch is printed.
    callbacks : list or None, default=None
        Callbacks of skorch for the training, as :class:`skorch.NeuralNet` takes them.
        They are copied; the used ones are in ``net_.callbacks_``.

    Attributes
    ----------
    net_ : skorch.NeuralNetRegressor
        The trained skorch net, for standardised features and target.
    module_ : BlockNetwork
        The trained torch module of `net_`.
    gram_ : ndarray of shape (n_blocks * n_heads, width, width)
        Gram matrices of the *branch weights*, block by block. They are not products of
        the data, which scikit-learn calls Gram matrices elsewhere.
    n_iter_ : int
        Number of epochs that were run.
    best_epoch_ : int
        Number, counted from 1, of the epoch whose weights are kept: the last one
        without early stopping.
    loss_curve_ : list of float of length `n_iter_`
        Mean training loss of each epoch, for the standardised target.
    validation_scores_ : list of float of length `n_iter_`
        Share of the best constant's loss that is explained on the held-out rows, which
        is :math:`R^2` for the squared error; NaN without early stopping.
    is_categorical_ : ndarray of bool of shape (`n_features_in_`,)
        Which features were taken as categories.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where `X` had string names.

    See Also
    --------
    BranchMLPRegressor : The same network around the branch sum.
    sk_quadratic.compare : Compares two regressors over paired seeds.

    Notes
    -----
    With :math:`x` the stream, :math:`M_k = W_k W_k^\top` the Gram matrix of head
    :math:`k` and :math:`A(x)` the structure matrix, a block computes
    :math:`x + P z(x)` with
    :math:`z_k(x) = b_k(x) + \mu_k \cdot g(x) + \operatorname{Tr}[M_k A(x)]`.

    References
    ----------
    .. [1] arXiv:2608.13335, Theorem 1.
    .. [2] I. Loshchilov, F. Hutter, "Decoupled weight decay regularization",
       International Conference on Learning Representations, 2019.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.model_selection import train_test_split
    >>> from sk_quadratic import QuadraticGramRegressor
    >>> X, y = make_friedman1(n_samples=600, noise=1.0, random_state=0)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = QuadraticGramRegressor(random_state=0).fit(X_train, y_train)
    >>> bool(model.score(X_test, y_test) > 0.8)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **BaseBlockRegressor._parameter_constraints,
        "n_heads": [Interval(Integral, 1, None, closed="left")],
        "rank": [Interval(Integral, 1, None, closed="left"), None],
        "structure": [StrOptions({"factored", "full"})],
        "structure_rank": [Interval(Integral, 1, None, closed="left")],
        "hidden_width": [Interval(Integral, 1, None, closed="left"), None],
        "init_scale": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        *,
        width: int | None = 32,
        n_blocks: int = 1,
        n_heads: int = 16,
        n_branches: int = 2,
        rank: int | None = None,
        structure: Literal["factored", "full"] = "factored",
        structure_rank: int = 1,
        hidden_width: int | None = None,
        init_scale: float = 1.0,
        activation: str = "gelu",
        loss: str = "squared_error",
        quantile: float | list[float] | None = None,
        categorical_features: Any = "from_dtype",
        learning_rate: float = 0.005,
        learning_rate_schedule: str = "cosine",
        weight_decay: float = 0.01,
        batch_size: int | str = "auto",
        max_epochs: int = 200,
        early_stopping: bool | str = "auto",
        validation_fraction: float = 0.15,
        n_iter_no_change: int = 40,
        tol: float = 0.0,
        device: str | torch.device = "auto",
        random_state: int | RandomState | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        callbacks: list[Any] | None = None,
    ) -> None:
        self.width = width
        self.n_blocks = n_blocks
        self.n_heads = n_heads
        self.n_branches = n_branches
        self.rank = rank
        self.structure = structure
        self.structure_rank = structure_rank
        self.hidden_width = hidden_width
        self.init_scale = init_scale
        self.activation = activation
        self.loss = loss
        self.quantile = quantile
        self.categorical_features = categorical_features
        self.learning_rate = learning_rate
        self.learning_rate_schedule = learning_rate_schedule
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.device = device
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.callbacks = callbacks

    @property
    def gram_(self) -> NDArray[np.floating]:
        """Gram matrices of the branch weights.

        Returns
        -------
        ndarray of shape (n_blocks * n_heads, width, width)
            Block by block, head by head.
        """
        blocks = [cast(QuadraticGramBlock, block) for block in self.module_.blocks]
        with torch.inference_mode():
            return torch.cat([block.gram() for block in blocks]).cpu().numpy()

    def _make_block(self) -> Callable[..., nn.Module]:
        def as_int(value: int | None) -> int | None:
            return None if value is None else int(value)

        return partial(
            QuadraticGramBlock,
            n_heads=int(self.n_heads),
            n_branches=int(self.n_branches),
            rank=as_int(self.rank),
            structure=self.structure,
            structure_rank=int(self.structure_rank),
            hidden_width=as_int(self.hidden_width),
            init_scale=float(self.init_scale),
            activation=self.activation,
        )


class BranchMLPRegressor(BaseBlockRegressor):
    r"""Regressor with a two-layer sum of branches: the baseline of the quadratic form.

    The network, its training and its parameters are those of
    :class:`QuadraticGramRegressor`, so that a comparison of the two changes the block
    alone. With ``width=None`` it is the plain two-layer perceptron of `n_branches`
    hidden units.

    Parameters
    ----------
    width : int or None, default=32
        Width of the stream. With None the one block acts on the features themselves
        and gives the prediction, without stem, residual and head.
    n_blocks : int, default=1
        Number of blocks.
    n_branches : int, default=64
        Number of branches, the hidden units of each block.
    activation : {"gelu", "relu", "silu", "tanh"}, default="gelu"
        Non-linearity of the branches.
    loss : str, default="squared_error"
        Training loss, of the scaled target: ``"squared_error"``,
        ``"absolute_error"``, ``"huber"``, which turns from quadratic to linear at one
        deviation of the training target as judged by its quartiles, ``"quantile"``,
        which predicts the levels in `quantile`, or ``"poisson"``, which predicts the
        mean of counts through its logarithm.
    quantile : float, list of float or None, default=None
        Level or levels for ``loss="quantile"``, between 0 and 1. A list gives a column
        of predictions for each level, in its order, which do not cross.
    categorical_features : "from_dtype", array-like or None, default="from_dtype"
        Which columns are categories, as in
        :class:`sklearn.ensemble.HistGradientBoostingRegressor`. ``"from_dtype"`` takes
        columns of categories and of text; an array has their names, their indices, or
        is a mask of shape (n_features,); with None all columns are numbers.
    learning_rate : float, default=0.005
        Peak learning rate: the parameter to tune first.
    learning_rate_schedule : {"cosine", "constant"}, default="cosine"
        ``"cosine"`` warms up over 50 steps and falls to zero at `max_epochs`, so that
        `max_epochs` is part of the schedule. ``"constant"`` leaves the rate alone, or
        to a scheduler among the `callbacks`.
    weight_decay : float, default=0.01
        Decoupled weight decay of AdamW [1]_.
    batch_size : int or "auto", default="auto"
        Rows per step. ``"auto"`` is the power of two nearest to a sixteenth of the
        training rows, within 32 and 256.
    max_epochs : int, default=200
        Largest number of passes over the training rows.
    early_stopping : bool or "auto", default="auto"
        Whether to hold out a random part of the rows, keep the weights of the epoch
        with the lowest loss there, and stop when it no longer improves. ``"auto"``
        does so from 100 different rows on, or where `fit` is given `X_val`. Groups and
        time order are not respected: give `X_val`, or set it to False, where a random
        row of the same group gives the target away.
    validation_fraction : float, default=0.15
        Share of the rows that is held out for early stopping.
    n_iter_no_change : int, default=40
        Epochs without improvement after which training stops early.
    tol : float, default=0.0
        Smallest decrease of the validation loss that counts as an improvement, for
        the standardised target.
    device : str or torch.device, default="auto"
        Where to train and predict; ``"auto"`` is CUDA where there is one and the CPU
        elsewhere.
    random_state : int, RandomState instance or None, default=None
        Seed of the validation split, the initial weights and the order of the rows.
        No global generator is read or seeded when it is an int.
    warm_start : bool, default=False
        Whether another `fit` continues from the present weights for `max_epochs` more
        epochs. Scaling, network, loss and device stay those of the first `fit`.
    verbose : int, default=0
        With 1 a progress bar shows training loss, validation score and time left; with
        2 or more a line per epoch is printed.
    callbacks : list or None, default=None
        Callbacks of skorch for the training, as :class:`skorch.NeuralNet` takes them.
        They are copied; the used ones are in ``net_.callbacks_``.

    Attributes
    ----------
    net_ : skorch.NeuralNetRegressor
        The trained skorch net, for standardised features and target.
    module_ : BlockNetwork
        The trained torch module of `net_`.
    n_iter_ : int
        Number of epochs that were run.
    best_epoch_ : int
        Number, counted from 1, of the epoch whose weights are kept: the last one
        without early stopping.
    loss_curve_ : list of float of length `n_iter_`
        Mean training loss of each epoch, for the standardised target.
    validation_scores_ : list of float of length `n_iter_`
        Share of the best constant's loss that is explained on the held-out rows, which
        is :math:`R^2` for the squared error; NaN without early stopping.
    is_categorical_ : ndarray of bool of shape (`n_features_in_`,)
        Which features were taken as categories.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where `X` had string names.

    See Also
    --------
    QuadraticGramRegressor : The same network around the quadratic form.
    sk_quadratic.compare : Compares two regressors over paired seeds.

    Notes
    -----
    With :math:`x` the stream, a block computes
    :math:`x + c + \sum_i a_i \, \mathrm{act}(u_i \cdot x + c_i)`.

    References
    ----------
    .. [1] I. Loshchilov, F. Hutter, "Decoupled weight decay regularization",
       International Conference on Learning Representations, 2019.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.model_selection import train_test_split
    >>> from sk_quadratic import BranchMLPRegressor
    >>> X, y = make_friedman1(n_samples=600, noise=1.0, random_state=0)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = BranchMLPRegressor(random_state=0).fit(X_train, y_train)
    >>> bool(model.score(X_test, y_test) > 0.8)
    True
    """

    def __init__(
        self,
        *,
        width: int | None = 32,
        n_blocks: int = 1,
        n_branches: int = 64,
        activation: str = "gelu",
        loss: str = "squared_error",
        quantile: float | list[float] | None = None,
        categorical_features: Any = "from_dtype",
        learning_rate: float = 0.005,
        learning_rate_schedule: str = "cosine",
        weight_decay: float = 0.01,
        batch_size: int | str = "auto",
        max_epochs: int = 200,
        early_stopping: bool | str = "auto",
        validation_fraction: float = 0.15,
        n_iter_no_change: int = 40,
        tol: float = 0.0,
        device: str | torch.device = "auto",
        random_state: int | RandomState | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        callbacks: list[Any] | None = None,
    ) -> None:
        self.width = width
        self.n_blocks = n_blocks
        self.n_branches = n_branches
        self.activation = activation
        self.loss = loss
        self.quantile = quantile
        self.categorical_features = categorical_features
        self.learning_rate = learning_rate
        self.learning_rate_schedule = learning_rate_schedule
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.device = device
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.callbacks = callbacks

    def _make_block(self) -> Callable[..., nn.Module]:
        return partial(
            BranchSumBlock, n_branches=int(self.n_branches), activation=self.activation
        )
