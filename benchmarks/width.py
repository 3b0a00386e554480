"""What more branches cost: the branch sum against the quadratic form.

One scalar function of `WIDTH` inputs, as a sum of d two-layer branches and as a form of
d branches: with free branch weights, with the Gram matrix M known, and with the branch
weights replaced by the smallest factor of the same M, `WIDTH` columns at most. Costs
are counted per row and per call; a training step is timed.

Run ``python benchmarks/width.py --json FILE``; it takes a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from sk_quadratic import BranchSumBlock, QuadraticGramBlock, module_costs
from sk_quadratic._checkpoint import package_versions

WIDTH = 32
MODELS = ("branch sum", "free", "known", "factored")
LABELS = {
    "branch sum": "branch sum",
    "free": "form, free branch weights",
    "known": "form, M known",
    "factored": "form, factored to its width",
}


@dataclass(frozen=True)
class Sizes:
    """How much is run."""

    n_branches: tuple[int, ...] = (64, 256, 1024, 4096, 16384)
    n_heads: tuple[int, ...] = (1, 8)
    batch_sizes: tuple[int, ...] = (64, 1024)
    n_rounds: int = 31
    least_seconds: float = 0.02  # of a timed sample


QUICK = Sizes(
    n_branches=(64, 128), n_heads=(1,), batch_sizes=(16,), n_rounds=3, least_seconds=0.0
)


class KnownGramBlock(QuadraticGramBlock):
    """A block whose Gram matrices are given and stay as they are.

    Parameters
    ----------
    block : QuadraticGramBlock
        Its Gram matrices and its other weights are taken.
    """

    def __init__(self, block: QuadraticGramBlock) -> None:
        super().__init__(**shape_of(block), n_branches=block.width)
        weights = {k: v for k, v in block.state_dict().items() if k != "branch_weights"}
        self.load_state_dict(weights, strict=False)
        del self.branch_weights
        self.register_buffer("known_gram", block.gram().detach().clone())

    def gram(self) -> Tensor:
        return self.known_gram


def shape_of(block: QuadraticGramBlock) -> dict:
    """Parameters of a block that stands for this one, whose weights replace its own."""
    return {
        "width": block.width,
        "n_heads": block.n_heads,
        "residual": False,
        "out_features": 1,
        "generator": torch.Generator(),  # leaves torch's global one alone
    }


def factor_to_width(block: QuadraticGramBlock) -> QuadraticGramBlock:
    """The same block with the smallest branch weights of the same Gram matrices.

    With ``M = Q L Q^T`` these are ``Q L^(1/2)``: `width` columns, whatever the number
    of branches was.
    """
    factored = QuadraticGramBlock(**shape_of(block), n_branches=block.width)
    values, vectors = torch.linalg.eigh(block.gram().detach().double())
    weights = vectors * values.clamp(min=0.0).sqrt().unsqueeze(-2)
    state = {**block.state_dict(), "branch_weights": weights.float()}
    factored.load_state_dict(state)
    return factored


def build(model: str, n_branches: int, n_heads: int) -> nn.Module:
    """One of `MODELS`; the three forms are the same function, but for rounding."""
    generator = torch.Generator().manual_seed(0)
    if model == "branch sum":
        return BranchSumBlock(
            WIDTH,
            n_branches=n_branches,
            residual=False,
            out_features=1,
            generator=generator,
        )
    block = QuadraticGramBlock(
        WIDTH,
        n_heads=n_heads,
        n_branches=n_branches,
        # Keeps M, and with it the size of the output, the same for every d.
        init_scale=n_branches**-0.5,
        residual=False,
        out_features=1,
        generator=generator,
    )
    if model == "free":
        return block
    return KnownGramBlock(block) if model == "known" else factor_to_width(block)


@dataclass(frozen=True)
class Cost:
    """What one model costs at one number of branches."""

    model: str
    n_branches: int
    n_heads: int
    n_parameters: int  # trainable ones
    flops_per_row: int
    flops_per_call: int  # whatever the number of rows
    saved_bytes_per_row: int
    difference: float  # from the form of free weights, largest over largest output


@dataclass(frozen=True)
class Timing:
    """CPU time of a training step, relative to others of the same rounds."""

    model: str
    n_branches: int
    batch_size: int
    milliseconds: float  # median
    growth: tuple[float, float, float]  # over the fewest branches: quartiles
    ratio: tuple[float, float, float]  # over the form with M known: quartiles


def measure_cost(model: str, n_branches: int, n_heads: int) -> Cost:
    module = build(model, n_branches, n_heads)
    costs = module_costs(module, WIDTH)
    x = torch.randn(256, WIDTH, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        difference = 0.0
        if model in ("known", "factored"):
            free = build("free", n_branches, n_heads)(x)
            difference = ((module(x) - free).abs().max() / free.abs().max()).item()
    return Cost(
        model=model,
        n_branches=n_branches,
        n_heads=n_heads,
        n_parameters=costs.n_parameters,
        flops_per_row=costs.flops_per_row,
        flops_per_call=flops_per_call(module, costs.flops_per_row),
        saved_bytes_per_row=costs.saved_bytes_per_row,
        difference=difference,
    )


def flops_per_call(module: nn.Module, flops_per_row: int) -> int:
    n_rows = 64
    x = torch.zeros(n_rows, WIDTH)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        module(x)
    return counter.get_total_flops() - n_rows * flops_per_row


def training_step(module: nn.Module, batch_size: int) -> Callable[[], None]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch_size, WIDTH, generator=generator)
    y = torch.randn(batch_size, 1, generator=generator)
    # A rate this small leaves the weights where they are: every step is the same work.
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-8, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        F.mse_loss(module(x), y).backward()
        optimizer.step()

    return step


def cpu_seconds(step: Callable[[], None], n_steps: int) -> float:
    """CPU time of one step, in which other processes count less than in wall time."""
    start = time.process_time()
    for _ in range(n_steps):
        step()
    return (time.process_time() - start) / n_steps


def measure_timings(sizes: Sizes, batch_size: int) -> list[Timing]:
    """Time one head of every model in turn, round after round.

    The machine's speed drifts, so that only times of the same round are compared. A
    step is slower after one that has filled the caches, so each round has an order of
    its own.
    """
    keys = [(model, d) for model in MODELS for d in sizes.n_branches]
    steps = {key: training_step(build(*key, 1), batch_size) for key in keys}
    n_steps = {}
    for key, step in steps.items():
        cpu_seconds(step, 2)  # the first step allocates the optimiser's state
        n_steps[key] = 1 + int(sizes.least_seconds / cpu_seconds(step, 2))
    rounds = []
    for i in range(sizes.n_rounds):
        print(f"{batch_size} rows, round {i + 1} of {sizes.n_rounds}", file=sys.stderr)
        order = random.Random(i).sample(keys, len(keys))
        rounds.append({key: cpu_seconds(steps[key], n_steps[key]) for key in order})
    fewest = sizes.n_branches[0]
    return [
        Timing(
            model=model,
            n_branches=d,
            batch_size=batch_size,
            milliseconds=1e3 * statistics.median(r[model, d] for r in rounds),
            growth=quartiles([r[model, d] / r[model, fewest] for r in rounds]),
            ratio=quartiles([r[model, d] / r["known", d] for r in rounds]),
        )
        for model, d in keys
    ]


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def run(sizes: Sizes) -> dict:
    """Measure everything; plain numbers, ready for JSON."""
    costs = [
        measure_cost(model, d, n_heads)
        for n_heads in sizes.n_heads
        for model in MODELS
        if model != "branch sum" or n_heads == sizes.n_heads[0]
        for d in sizes.n_branches
    ]
    timings = [t for size in sizes.batch_sizes for t in measure_timings(sizes, size)]
    return {
        "settings": {
            "width": WIDTH,
            "dtype": "float32",
            "optimizer": "Adam, fused",
            "time": "CPU time of forward pass, backward pass and optimiser step",
            "n_threads": torch.get_num_threads(),
            "vector_instructions": torch.backends.cpu.get_cpu_capability(),
            # How the C library keeps freed memory decides what large steps cost.
            "allocator": {k: v for k, v in os.environ.items() if "MALLOC" in k},
            **asdict(sizes),
        },
        "costs": [asdict(cost) for cost in costs],
        "timings": [asdict(timing) for timing in timings],
        "versions": package_versions(),
    }


def report(result: dict) -> str:
    """Tables of the result."""
    lines = [
        f"{'':30}{'branches':>9}{'heads':>6}{'parameters':>11}{'FLOPs/row':>11}"
        f"{'FLOPs/call':>12}{'saved B/row':>12}{'difference':>12}"
    ]
    for cost in result["costs"]:
        lines.append(
            f"{LABELS[cost['model']]:30}{cost['n_branches']:9}{cost['n_heads']:6}"
            f"{cost['n_parameters']:11}{cost['flops_per_row']:11}"
            f"{cost['flops_per_call']:12}{cost['saved_bytes_per_row']:12}"
            f"{cost['difference']:12.1e}"
        )
    head = f"{'':30}{'rows':>6}{'branches':>9}{'step ms':>10}  growth, over M known"
    lines += ["", head]
    for timing in result["timings"]:
        growth, ratio = (
            "{1:.2f} ({0:.2f} to {2:.2f})".format(*timing[name])
            for name in ("growth", "ratio")
        )
        lines.append(
            f"{LABELS[timing['model']]:30}{timing['batch_size']:6}"
            f"{timing['n_branches']:9}{timing['milliseconds']:10.3f}  {growth}, {ratio}"
        )
    versions = ", ".join(f"{k} {v}" for k, v in result["versions"].items())
    return "\n".join([*lines, "", f"Versions: {versions}"])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers")
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes, to see that it runs"
    )
    options = parser.parse_args(arguments)
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        result = run(QUICK if options.quick else Sizes())
    finally:
        torch.set_num_threads(n_threads)
    print(report(result))
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
