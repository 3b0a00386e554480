"""Fit a wide sum of near-zero branches by branches and by quadratic forms.

The teacher is a sum of two-layer branches ``a * act(u . x)`` with weights w = (a, u) of
size epsilon. Three students have 112 parameters each: 16 branches; the quadratic form
of 16 branches, whose A(x) is the fixed expansion of the branch function; and a
QuadraticGramBlock, which learns its structure.

The published run states its size and its errors, and no more: the set-up is our own,
and epsilon was chosen so that the error before training is near the published one.
Run ``python benchmarks/toy_fit.py --json FILE``; it takes about a minute.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from sk_quadratic import QuadraticGramBlock
from sk_quadratic._checkpoint import package_versions
from sk_quadratic.modules import ACTIVATIONS

WIDTH = 6  # inputs
N_WEIGHTS = WIDTH + 1  # a and u
N_BRANCHES = 16  # of the students: 16 * 7 = 112 parameters
N_TEACHER_BRANCHES = 256
EPSILON = 0.32
STUDENT_SCALE = 0.1  # epsilon of the students' initial branch weights
LEARNING_RATE = 0.02
OTHER_RATES = (0.005, 0.05)
STEPS = (0, 99, 249, 499)
STUDENTS = ("branch", "quadratic", "block")
SMALL_EPSILON = 0.1  # the slope is that of the limits up to here

PUBLISHED = {
    "branch": (0.08170, 9.22e-05, 2.14e-05, 1.16e-05),
    "quadratic": (0.08175, 0.01447, 0.01447, 0.01447),
}


@dataclass(frozen=True)
class Sizes:
    """How much is run."""

    n_rows: int = 1024
    n_teachers: int = 5
    steps: tuple[int, ...] = STEPS
    sweep_lengths: tuple[int, ...] = (500, 2000, 8000)  # steps of a run


QUICK = Sizes(n_rows=64, n_teachers=2, steps=(0, 9), sweep_lengths=(10, 20))


@dataclass(frozen=True)
class Trace:
    """Mean squared errors of one student on the way."""

    teacher: int
    epsilon: float
    learning_rate: float
    student: str
    n_parameters: int
    steps: tuple[int, ...]
    mse: tuple[float, ...]
    fresh_mse: float  # after the last step, on rows that it was not fitted to


@dataclass(frozen=True)
class Limit:
    """The best that the fixed quadratic form can do, against the teacher's epsilon."""

    activation: str
    epsilon: tuple[float, ...]
    mse: tuple[float, ...]
    slope: float  # of log mse against log epsilon, where epsilon is small
    predicted_slope: float
    leading: tuple[float, ...]  # what the first term beyond the quadratic one predicts


class Teacher:
    """Inputs and a draw of branch weights, to be scaled by epsilon."""

    def __init__(self, seed: int, n_rows: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.x = self._normal(n_rows, WIDTH)
        self.weights = self._normal(N_WEIGHTS, N_TEACHER_BRANCHES)
        self.initial = self._normal(N_WEIGHTS, N_BRANCHES)
        fresh = torch.Generator().manual_seed(10_000 + seed)
        self.fresh_x = torch.randn(n_rows, WIDTH, generator=fresh, dtype=torch.float64)

    def _normal(self, *shape: int) -> Tensor:
        scale = 1.0 if shape[-1] == WIDTH else 1.0 / math.sqrt(N_WEIGHTS)
        draw = torch.randn(shape, generator=self.generator, dtype=torch.float64)
        return scale * draw

    def target(self, epsilon: float, activation: str = "gelu") -> Tensor:
        return branch_sum(epsilon * self.weights, self.x, ACTIVATIONS[activation])

    def fresh_target(self, epsilon: float) -> Tensor:
        return branch_sum(epsilon * self.weights, self.fresh_x, ACTIVATIONS["gelu"])


def branch_sum(W: Tensor, x: Tensor, act: Callable[[Tensor], Tensor]) -> Tensor:
    """Sum of the branches ``a * act(u . x)``, shape (n_rows,)."""
    return act(x @ W[1:]) @ W[0]


def expansion(x: Tensor, act: Callable[[Tensor], Tensor]) -> Tensor:
    """A(x): half the Hessian of a branch at zero weights, shape (n_rows, 7, 7)."""

    def branch(w: Tensor, row: Tensor) -> Tensor:
        return w[0] * act(w[1:] @ row)

    zero = torch.zeros(N_WEIGHTS, dtype=x.dtype)
    # Not torch.func.hessian: forward mode warns of deprecated parts of torch.
    hessian = torch.func.jacrev(torch.func.jacrev(branch))
    return torch.func.vmap(hessian, in_dims=(None, 0))(zero, x) / 2


def quadratic_limit(A: Tensor, target: Tensor) -> float:
    """Smallest mean squared error of ``Tr[M A(x)]`` over all M.

    It is a linear regression on the entries of A(x). Any of its solutions can be made
    positive semi-definite here: A(x) has zeros on the diagonal, so large diagonal
    entries of M cost nothing, and the 16 branches suffice for every 7 x 7 matrix M.
    """
    features = A.flatten(1)
    # gelsd: most entries of A(x) are zero or come twice.
    fit = torch.linalg.lstsq(features, target.unsqueeze(1), driver="gelsd")
    return (target - (features @ fit.solution).squeeze(1)).square().mean().item()


def leading_term(teacher: Teacher, activation: str) -> tuple[int, Tensor]:
    """Order in W and values of the first term of the teacher beyond the quadratic one.

    A branch is ``sum_k act^(k)(0) / k! * a * (u . x)^k``. Its term of k = 1 is the
    quadratic one, so k = 2 is cubic in (a, u).
    """
    derivative = torch.func.grad(ACTIVATIONS[activation])
    zero = torch.zeros((), dtype=torch.float64)
    a, u = teacher.weights[0], teacher.weights[1:]
    for k in (2, 3):
        derivative = torch.func.grad(derivative)
        value = derivative(zero).item()
        if abs(value) > 1e-12:
            term = value / math.factorial(k) * (teacher.x @ u) ** k @ a
            return k + 1, term
    raise ValueError(f"No term of order 3 or 4; got activation {activation!r}.")


def measure_limit(
    teacher: Teacher, activation: str, epsilons: Sequence[float]
) -> Limit:
    A = expansion(teacher.x, ACTIVATIONS[activation])
    mse = [quadratic_limit(A, teacher.target(e, activation)) for e in epsilons]
    order, term = leading_term(teacher, activation)
    coefficient = quadratic_limit(A, term)
    points = zip(epsilons, mse, strict=True)
    small = [(math.log(e), math.log(v)) for e, v in points if e <= SMALL_EPSILON]
    return Limit(
        activation=activation,
        epsilon=tuple(epsilons),
        mse=tuple(mse),
        slope=line_slope(small),
        predicted_slope=2.0 * order,
        leading=tuple(coefficient * e ** (2 * order) for e in epsilons),
    )


def line_slope(points: Sequence[tuple[float, float]]) -> float:
    x, y = torch.tensor(points, dtype=torch.float64).T
    x, y = x - x.mean(), y - y.mean()
    return (x @ y / (x @ x)).item()


Predict = Callable[[Tensor], Tensor]


def build_student(
    student: str, teacher: Teacher, epsilon: float
) -> tuple[list[Tensor], Predict]:
    """Parameters and prediction of a student.

    Weights scale with the teacher's epsilon, and the block predicts the target over
    its root mean square, so that no student finds small teachers harder.
    """
    if student == "block":
        block = QuadraticGramBlock(
            WIDTH,
            n_heads=2,
            n_branches=1,
            residual=False,
            out_features=1,
            generator=teacher.generator,
            dtype=torch.float64,
        )
        size = teacher.target(epsilon).square().mean().sqrt()
        return list(block.parameters()), lambda x: size * block(x).squeeze(1)
    W = (STUDENT_SCALE * epsilon / EPSILON * teacher.initial).requires_grad_()
    if student == "branch":
        return [W], lambda x: branch_sum(W, x, ACTIVATIONS["gelu"])
    A = expansion(teacher.x, ACTIVATIONS["gelu"]).flatten(1)

    def quadratic(x: Tensor) -> Tensor:
        # A(x) is fixed: it is expanded once for the rows of all steps.
        rows = A if x is teacher.x else expansion(x, ACTIVATIONS["gelu"]).flatten(1)
        return rows @ (W @ W.T).flatten()

    return [W], quadratic


def train(
    seed: int,
    n_rows: int,
    student: str,
    steps: Sequence[int],
    epsilon: float = EPSILON,
    learning_rate: float = LEARNING_RATE,
    cosine: bool = False,
) -> Trace:
    """Adam on all rows at once, to the last of the steps.

    The rate is constant, or falls to zero as a
    cosine: at a constant one the smallest errors come and go with the steps.
    """
    teacher = Teacher(seed, n_rows)
    target = teacher.target(epsilon)
    parameters, predict = build_student(student, teacher, epsilon)
    # The block's weights do not scale with epsilon, those of the others do.
    rate = learning_rate * (1.0 if student == "block" else epsilon / EPSILON)
    optimizer = torch.optim.Adam(parameters, lr=rate)
    n_steps = max(steps)
    scale = target.square().mean()  # Adam's step has an absolute eps
    mse = []
    for step in range(n_steps + 1):
        loss = (predict(teacher.x) - target).square().mean()
        if step in steps:
            mse.append(loss.item())
        if step < n_steps:
            if cosine:
                factor = (1.0 + math.cos(math.pi * step / n_steps)) / 2.0
                optimizer.param_groups[0]["lr"] = rate * factor
            optimizer.zero_grad()
            (loss / scale).backward()
            optimizer.step()
    with torch.no_grad():
        error = predict(teacher.fresh_x) - teacher.fresh_target(epsilon)
    return Trace(
        teacher=seed,
        epsilon=epsilon,
        learning_rate=learning_rate,
        student=student,
        n_parameters=sum(p.numel() for p in parameters),
        steps=tuple(steps),
        mse=tuple(mse),
        fresh_mse=error.square().mean().item(),
    )


def run(sizes: Sizes) -> dict:
    """Measure everything; plain numbers, ready for JSON."""
    n_rows = sizes.n_rows
    traces = []
    for seed in range(sizes.n_teachers):
        print(f"teacher {seed + 1} of {sizes.n_teachers}", file=sys.stderr)
        traces += [train(seed, n_rows, s, sizes.steps) for s in STUDENTS]
    rates = [
        train(0, n_rows, student, sizes.steps, learning_rate=rate)
        for rate in OTHER_RATES
        for student in STUDENTS
    ]
    epsilons = [EPSILON * 2.0 ** (k / 2) for k in range(-10, 4)]  # 0.01 to 0.9
    teacher = Teacher(0, n_rows)
    limits = [measure_limit(teacher, act, epsilons) for act in ("gelu", "tanh")]
    sweep = []
    for epsilon in (EPSILON / 8, EPSILON / 4, EPSILON / 2, EPSILON):
        print(f"training at epsilon {epsilon:g}", file=sys.stderr)
        sweep += [
            train(0, n_rows, student, (length,), epsilon, cosine=True)
            for student in STUDENTS
            for length in sizes.sweep_lengths
        ]
    return {
        "settings": {
            "width": WIDTH,
            "n_teacher_branches": N_TEACHER_BRANCHES,
            "n_student_branches": N_BRANCHES,
            "epsilon": EPSILON,
            "student_scale": STUDENT_SCALE,
            "optimizer": f"Adam, learning rate {LEARNING_RATE}, all rows at each step",
            "n_threads": torch.get_num_threads(),
            **asdict(sizes),
        },
        "published": PUBLISHED,
        "traces": [asdict(trace) for trace in traces],
        "rates": [asdict(trace) for trace in rates],
        "limits": [asdict(limit) for limit in limits],
        "sweep": [asdict(trace) for trace in sweep],
        "versions": package_versions(),
    }


def report(result: dict) -> str:
    """Tables of the result."""
    return "\n\n".join(
        [
            _report_traces(result),
            _report_rates(result),
            _report_limits(result),
            _report_sweep(result),
            "Versions: " + ", ".join(f"{k} {v}" for k, v in result["versions"].items()),
        ]
    )


def _report_traces(result: dict) -> str:
    traces = result["traces"]
    steps = traces[0]["steps"]
    sizes = ", ".join(str(n) for n in sorted({t["n_parameters"] for t in traces}))
    lines = [
        f"Mean squared error of the students, {sizes} parameters each",
        f"{'':22}" + "".join(f"{f'step {s}':>12}" for s in steps) + "  fresh rows",
    ]
    for student in STUDENTS:
        mine = [[*t["mse"], t["fresh_mse"]] for t in traces if t["student"] == student]
        if student in PUBLISHED:
            published = result["published"][student][: len(steps)]
            lines.append(_row(f"{student}, published", published))
        lines.append(_row(f"{student}, measured", mine[0]))
        columns = list(zip(*mine, strict=True))
        lines.append(_row(f"  least of {len(mine)}", [min(c) for c in columns]))
        lines.append(_row(f"  most of {len(mine)}", [max(c) for c in columns]))
    return "\n".join(lines)


def _report_rates(result: dict) -> str:
    lines = ["At other learning rates"]
    for trace in result["rates"]:
        name = f"{trace['student']}, {trace['learning_rate']:g}"
        lines.append(_row(name, [*trace["mse"], trace["fresh_mse"]]))
    return "\n".join(lines)


def _report_limits(result: dict) -> str:
    lines = ["Limit of the quadratic student: slope of log MSE in log epsilon"]
    for limit in result["limits"]:
        ratio = limit["mse"][0] / limit["leading"][0]
        lines.append(
            f"{limit['activation']:8}measured {limit['slope']:.3f}   predicted "
            f"{limit['predicted_slope']:g}   size at epsilon {limit['epsilon'][0]:g} "
            f"over that of its first missing term {ratio:.4f}"
        )
    return "\n".join(lines)


def _report_sweep(result: dict) -> str:
    limit = result["limits"][0]
    bounds = dict(zip(limit["epsilon"], limit["mse"], strict=True))
    lengths = result["settings"]["sweep_lengths"]
    lines = [
        "Error of runs of several lengths, and the limit of the quadratic student",
        f"{'':22}" + "".join(f"{f'{n} steps':>12}" for n in lengths) + "  fresh rows",
    ]
    for epsilon in dict.fromkeys(t["epsilon"] for t in result["sweep"]):
        lines.append(_row(f"{epsilon:g}: limit", [bounds[epsilon]]))
        for student in STUDENTS:
            runs = [
                t
                for t in result["sweep"]
                if t["epsilon"] == epsilon and t["student"] == student
            ]
            errors = [t["mse"][-1] for t in runs]
            lines.append(_row(f"  {student}", [*errors, runs[-1]["fresh_mse"]]))
    return "\n".join(lines)


def _row(name: str, values: Sequence[float]) -> str:
    return f"{name:22}" + "".join(f"{value:12.3e}" for value in values)


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
