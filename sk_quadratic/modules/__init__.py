r"""Torch modules: the quadratic Gram form, the branch sum, and one network around them.

The modules are plain :class:`torch.nn.Module` and need nothing but torch. Blocks take
inputs of shape ``(..., width)``: rows of a table, pixels of a channels-last feature
map, or tokens. Weights are drawn on the CPU from an explicit generator, so that the
same seed gives the same initial weights on every device.
"""

from sk_quadratic.modules._layers import ACTIVATIONS
from sk_quadratic.modules.branches import BranchSumBlock
from sk_quadratic.modules.embedding import TableEmbedding
from sk_quadratic.modules.network import BlockNetwork
from sk_quadratic.modules.quadratic import QuadraticGramBlock

__all__ = [
    "ACTIVATIONS",
    "BlockNetwork",
    "BranchSumBlock",
    "QuadraticGramBlock",
    "TableEmbedding",
]
