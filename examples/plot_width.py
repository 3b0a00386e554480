"""
What do more branches cost?
===========================

A sum of branches costs as much as it has branches. In the quadratic form they matter
only through the Gram matrix of their weights, whose size is that of the input. What a
form of any number of branches can do, one of few can do too.
"""

# %%
# One scalar function of 32 inputs: as a sum of branches, as a form that trains the
# weights of all branches, and as that form factored to its width. For the last one the
# Gram matrix ``M = W W^T`` is split into the smallest factor that gives the same M. It
# has as many columns as there are inputs.

import matplotlib.pyplot as plt
import torch

from sk_quadratic import BranchSumBlock, QuadraticGramBlock, module_costs

WIDTH = 32
scalar = {"residual": False, "out_features": 1}


def branch_sum(n_branches):
    return BranchSumBlock(WIDTH, n_branches=n_branches, **scalar)


def form(n_branches):
    generator = torch.Generator().manual_seed(0)
    return QuadraticGramBlock(
        WIDTH, n_heads=1, n_branches=n_branches, generator=generator, **scalar
    )


def factored(n_branches):
    many = form(n_branches)
    few = form(min(n_branches, WIDTH))
    values, vectors = torch.linalg.eigh(many.gram().detach().double())
    W = (vectors * values.clamp(min=0.0).sqrt().unsqueeze(-2)).float()
    few.load_state_dict({**many.state_dict(), "branch_weights": W})
    return few


# %%
# Nothing is lost: the outputs are the same but for the rounding of float32.

x = torch.randn(1000, WIDTH, generator=torch.Generator().manual_seed(1))
with torch.no_grad():
    many, few = form(16384)(x), factored(16384)(x)
difference = ((many - few).abs().max() / many.abs().max()).item()
print(f"largest difference over largest output: {difference:.1e}")

# %%
# :func:`~sk_quadratic.module_costs` counts without computing anything. FLOPs and bytes
# are those of a further row. What is done once a call is not in them: the form of all
# branches has to build M in every step, which is why its step gets slower too.

n_branches = [64, 256, 1024, 4096, 16384]
models = {
    "branch sum": branch_sum,
    "form, free branch weights": form,
    "form, factored to its width": factored,
}
costs = {
    name: [module_costs(build(d), WIDTH) for d in n_branches]
    for name, build in models.items()
}
for name, rows in costs.items():
    print(name)
    for d, cost in zip(n_branches, rows, strict=True):
        print(f"{d:8}  {cost}")

# %%
# Both forms cost the same per row, so one of their lines hides the other there.

fig, axes = plt.subplots(ncols=3, figsize=(10.0, 4.0), layout="constrained")
counts = {
    "n_parameters": "trainable parameters",
    "flops_per_row": "FLOPs a row",
    "saved_bytes_per_row": "bytes a row saved for backward",
}
for ax, (count, title) in zip(axes, counts.items(), strict=True):
    for (name, rows), style in zip(costs.items(), ("o-", "s-", "^--"), strict=True):
        ax.plot(n_branches, [getattr(c, count) for c in rows], style, label=name)
    ax.set(xscale="log", yscale="log", xlabel="branches", title=title)
    ax.set_xticks(n_branches, [str(d) for d in n_branches])
    ax.minorticks_off()
handles, labels = axes[0].get_legend_handles_labels()
fig.legend(handles, labels, loc="outside lower center", ncols=3)
plt.show()

# %%
# With few branches the sum is the cheaper one. This many of them cost as much as the
# form of one head:

(form_flops,) = {c.flops_per_row for c in costs["form, factored to its width"]}
per_branch = costs["branch sum"][0].flops_per_row / n_branches[0]
print(
    f"{form_flops / per_branch:.0f} branches, {form_flops / per_branch / WIDTH:.1f} n"
)
