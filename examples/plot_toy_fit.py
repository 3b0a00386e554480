"""
Can a quadratic form learn a sum of branches?
=============================================

A teacher is a wide sum of two-layer branches with small weights. A sum of few branches
learns it. The fixed quadratic form of as many branches stops at an error that no
training gets below: what the teacher has beyond its quadratic part. The same form with
a learned structure does not stop there. All three have 112 parameters.
"""

# %%
# The teacher has 256 branches ``a * gelu(u . x)`` of 6 inputs, with weights w = (a, u)
# of size epsilon.

import math

import matplotlib.pyplot as plt
import torch

from sk_quadratic import QuadraticGramBlock

gelu = torch.nn.functional.gelu
generator = torch.Generator().manual_seed(0)


def normal(*shape):
    return torch.randn(shape, generator=generator, dtype=torch.float64)


x = normal(1024, 6)
teacher_weights = normal(7, 256) / math.sqrt(7)
initial_weights = normal(7, 16) / math.sqrt(7)


def branch_sum(W):
    return gelu(x @ W[1:]) @ W[0]


# %%
# The form's A(x) is half the Hessian of one branch at zero weights. It is computed once
# and stays as it is. For these branches it holds x itself, so that the form is linear
# in x, and least squares give the smallest error that it can have.


def branch(w, row):
    return w[0] * gelu(w[1:] @ row)


hessian = torch.func.jacrev(torch.func.jacrev(branch))
hessian = torch.func.vmap(hessian, in_dims=(None, 0))
A = hessian(torch.zeros(7, dtype=x.dtype), x).flatten(1) / 2


def form_limit(epsilon):
    target = branch_sum(epsilon * teacher_weights).unsqueeze(1)
    solution = torch.linalg.lstsq(A, target, driver="gelsd").solution
    return (A @ solution - target).square().mean().item()


# %%
# The students are 16 branches, the form of 16 branches, and a
# :class:`~sk_quadratic.QuadraticGramBlock`, which learns its structure with the rest.
# Weights and learning rates go with epsilon, so that small teachers are no harder.

REFERENCE = 0.32
STUDENTS = {
    "branch": "16 branches",
    "quadratic": "form, fixed structure",
    "block": "form, learned structure",
}


def fit(student, epsilon, n_steps, cosine=False):
    """Number of parameters, and the error before each step and after the last."""
    target = branch_sum(epsilon * teacher_weights)
    scale = target.square().mean()
    rate = 0.02 * epsilon / REFERENCE
    if student == "block":
        state = torch.Generator()
        state.set_state(generator.get_state())  # the same initial weights every time
        block = QuadraticGramBlock(
            6,
            n_heads=2,
            n_branches=1,
            residual=False,
            out_features=1,
            generator=state,
            dtype=x.dtype,
        )
        parameters, rate = list(block.parameters()), 0.02
    else:
        W = (0.1 * epsilon / REFERENCE * initial_weights).requires_grad_()
        parameters = [W]
    optimizer = torch.optim.Adam(parameters, lr=rate)
    errors = []
    for step in range(n_steps + 1):
        if student == "branch":
            prediction = branch_sum(W)
        elif student == "quadratic":
            prediction = A @ (W @ W.T).flatten()
        else:
            prediction = scale.sqrt() * block(x).squeeze(1)
        loss = (prediction - target).square().mean()
        errors.append(loss.item())
        if cosine:
            factor = (1.0 + math.cos(math.pi * step / n_steps)) / 2.0
            optimizer.param_groups[0]["lr"] = rate * factor
        optimizer.zero_grad()
        (loss / scale).backward()
        optimizer.step()
    return sum(p.numel() for p in parameters), errors


STEPS = (0, 99, 249, 499)
curves = {}
for student in STUDENTS:
    n_parameters, curves[student] = fit(student, REFERENCE, STEPS[-1])
    shown = "".join(f"{curves[student][step]:11.2e}" for step in STEPS)
    print(f"{student:10}{n_parameters} parameters: {shown}")

# %%
# Teachers of several sizes, and longer runs whose learning rate falls to zero.

epsilons = [REFERENCE / 8, REFERENCE / 4, REFERENCE / 2, REFERENCE]
final = {
    student: [fit(student, epsilon, 2000, cosine=True)[1][-1] for epsilon in epsilons]
    for student in STUDENTS
}
limits = [form_limit(epsilon) for epsilon in epsilons]

# %%
# On the left the published errors are diamonds, and the dashed line is the limit of the
# fixed form. On the right this limit falls as the sixth power of epsilon: the first
# term that the form lacks is of the third order in the weights, and the error is
# squared.

fig, (left, right) = plt.subplots(ncols=2, figsize=(9.0, 4.6), layout="constrained")
PUBLISHED = {
    "branch": (0.08170, 9.22e-05, 2.14e-05, 1.16e-05),
    "quadratic": (0.08175, 0.01447, 0.01447, 0.01447),
}
for (student, label), marker in zip(STUDENTS.items(), "os^", strict=True):
    (line,) = left.plot(curves[student], label=label)
    if student in PUBLISHED:
        left.plot(STEPS, PUBLISHED[student], "D", color=line.get_color(), ms=5)
    right.plot(epsilons, final[student], marker, color=line.get_color())
left.plot([], "D", color="gray", ms=5, label="published")
left.axhline(limits[-1], color="black", ls="--", lw=1, label="least of fixed structure")
left.set(
    yscale="log",
    xlabel="step",
    ylabel="mean squared error",
    title=f"Teacher of epsilon {REFERENCE}",
)
right.plot(epsilons, limits, "k--", lw=1)
sixth = [limits[0] * (epsilon / epsilons[0]) ** 6 for epsilon in epsilons]
right.plot(epsilons, sixth, color="gray", ls=":", label="sixth power")
right.set(
    xscale="log",
    yscale="log",
    xlabel="epsilon of the teacher",
    title="After 2000 steps with a falling rate",
)
right.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
right.minorticks_off()
fig.legend(loc="outside lower center", ncols=3)
plt.show()

# %%
# Small teachers are nearly quadratic, and there the fixed form is nearly right. At the
# size of the published run it is not, and a longer training does not help it.
