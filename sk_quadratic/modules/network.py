"""One trunk around either block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from sk_quadratic.modules._layers import Linear, check_sizes
from sk_quadratic.modules.quadratic import QuadraticGramBlock


class BlockNetwork(nn.Module):
    """One trunk around either block, so that a comparison changes one thing.

    Runs ``embedding -> stem -> n_blocks x block -> head``. The stem is an affine map to
    `width`, the head an affine map to the outputs. With ``width=None`` there is
    neither: one block without residual maps the features to the outputs, which makes
    a :class:`BranchSumBlock` the plain two-layer perceptron.

    Parameters
    ----------
    n_features : int
        Number of input features.
    n_outputs : int, default=1
        Number of outputs.
    block : callable, default=QuadraticGramBlock
        Makes a block from its width and the keywords `residual`, `out_features`,
        `generator`, `device` and `dtype`: a block class, or a
        :func:`functools.partial` of one.
    width : int or None, default=32
        Width of the stream between the stem and the head, or None for neither.
    n_blocks : int, default=1
        Number of blocks; 1 with ``width=None``.
    embedding : callable or None, default=None
        Makes a module that is applied to the features before the stem, from the
        keywords `generator`, `device` and `dtype`: a :func:`functools.partial` of
        :class:`~sk_quadratic.modules.TableEmbedding`, for example. The module has an
        attribute `out_features`, the length of its output.
    generator : torch.Generator, int or None, default=None
        CPU generator of the initial weights, or a seed for one; None is torch's global
        generator.
    device, dtype : optional
        Where and in which type the parameters are kept, as in :class:`torch.nn.Linear`.

    Attributes
    ----------
    blocks : ModuleList
        The blocks, in the order of their application.

    Raises
    ------
    ValueError
        If a size is below 1, or more than one block comes with ``width=None``.

    Examples
    --------
    >>> import torch
    >>> from sk_quadratic import BlockNetwork
    >>> network = BlockNetwork(10, width=11, generator=0)
    >>> network(torch.zeros(5, 10)).shape
    torch.Size([5, 1])
    """

    def __init__(
        self,
        n_features: int,
        n_outputs: int = 1,
        *,
        block: Callable[..., nn.Module] = QuadraticGramBlock,
        width: int | None = 32,
        n_blocks: int = 1,
        embedding: Callable[..., nn.Module] | None = None,
        generator: torch.Generator | int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_sizes(n_features=n_features, n_outputs=n_outputs, n_blocks=n_blocks)
        if width is None and n_blocks != 1:
            raise ValueError(
                "n_blocks must be 1 with width=None, where one block maps the inputs "
                f"to the outputs; got {n_blocks}."
            )
        if isinstance(generator, int):
            generator = torch.Generator("cpu").manual_seed(generator)
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.n_features = n_features
        self.embedding: nn.Module = nn.Identity()
        n_inputs = n_features
        if embedding is not None:
            self.embedding = embedding(generator=generator, **factory)
            n_inputs = cast(int, self.embedding.out_features)
        if width is None:
            stem: nn.Module = nn.Identity()
            head: nn.Module = nn.Identity()
            blocks = [
                block(
                    n_inputs,
                    residual=False,
                    out_features=n_outputs,
                    generator=generator,
                    **factory,
                )
            ]
        else:
            stem = Linear(n_inputs, width, **factory)
            blocks = [
                block(width, generator=generator, **factory) for _ in range(n_blocks)
            ]
            head = Linear(width, n_outputs, **factory)
        for layer in (stem, head):
            if isinstance(layer, Linear):
                layer.reset_parameters(generator)
        self.stem = stem
        self.blocks = nn.ModuleList(blocks)
        self.head = head

    def forward(self, X: Tensor) -> Tensor:
        """Predict.

        Parameters
        ----------
        X : Tensor of shape (..., n_features)
            Inputs.

        Returns
        -------
        Tensor of shape (..., n_outputs)
            Outputs.
        """
        x = self.stem(self.embedding(X))
        for block in self.blocks:
            x = block(x)
        return self.head(x)
