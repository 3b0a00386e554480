"""Benchmarks run at tiny sizes, and pages show the numbers of the committed results."""

import importlib.util
import json
import os
import re
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
SCRIPTS = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))
Row = list[str]
ExpectedRow = list[str | float]


# Scripts --------------------------------------------------------------------


@cache
def script(name: str) -> ModuleType:
    path = ROOT / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@cache
def committed(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def shape(value: object) -> object:
    """Nested names of a result, without its numbers; of a list, those of the first."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return None


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_writes_sizes_and_versions(name, tmp_path, capsys, monkeypatch):
    for variable in [v for v in os.environ if "MALLOC" in v]:
        monkeypatch.delenv(variable)  # results say which are set
    file = tmp_path / "result.json"
    assert script(name).main(["--quick", "--json", str(file)]) == 0
    assert "Versions: python" in capsys.readouterr().out
    result = json.loads(file.read_text(encoding="utf-8"))
    assert {"python", "numpy", "torch", "sk-quadratic"} <= set(result["versions"])
    assert result["settings"]["n_threads"] == 1
    # What was committed is what the script writes today, at its own sizes.
    old = committed(name)
    assert shape(result) == shape(old)
    sizes = json.loads(json.dumps(vars(script(name).Sizes())))
    assert {key: old["settings"][key] for key in sizes} == sizes


# Tables of the user guide ---------------------------------------------------


def list_tables(text: str) -> dict[str, list[Row]]:
    """Cells of each ``list-table`` by its title, the header first."""
    tables: dict[str, list[Row]] = {}
    rows: list[Row] = []
    for line in text.splitlines():
        if title := re.fullmatch(r"\.\. list-table:: (.+)", line):
            rows = tables[title[1]] = []
        elif cell := re.fullmatch(r"   \* - (.*)", line):
            rows.append([cell[1]])
        elif cell := re.fullmatch(r"     - (.*)", line):
            rows[-1].append(cell[1])
    return tables


def page(name: str) -> dict[str, list[Row]]:
    path = ROOT / "docs" / "user_guide" / f"{name}.rst"
    return list_tables(path.read_text(encoding="utf-8"))


def shows(cell: str, value: str | float) -> bool:
    """Whether a cell is that text, or that number rounded to the digits it shows."""
    if isinstance(value, str):
        return cell == value
    shown = Decimal(cell)
    unit = Decimal(1).scaleb(shown.as_tuple().exponent)
    return abs(Decimal(value) - shown) <= unit / 2


def wrong_cells(rows: Sequence[Row], expected: Sequence[ExpectedRow]) -> list[str]:
    assert [len(row) for row in rows] == [len(row) for row in expected]
    return [
        f"{cell} for {value}"
        for row, values in zip(rows, expected, strict=True)
        for cell, value in zip(row, values, strict=True)
        if not shows(cell, value)
    ]


STUDENTS = {
    "branch": "16 branches",
    "quadratic": "form, fixed structure",
    "block": "form, learned structure",
}


def toy_fit_tables() -> Iterator[tuple[str, list[ExpectedRow]]]:
    result = committed("toy_fit")
    gelu = result["limits"][0]

    rows: list[ExpectedRow] = []
    for student, label in STUDENTS.items():
        mine = [t for t in result["traces"] if t["student"] == student]
        errors = [[*t["mse"], t["fresh_mse"]] for t in mine]
        columns = list(zip(*errors, strict=True))
        if student in result["published"]:
            published = result["published"][student]
            rows.append([f"{label}, published", *published, "not given"])
        rows.append([f"{label}, first teacher", *errors[0]])
        rows.append([f"{label}, least of {len(mine)}", *map(min, columns)])
        rows.append([f"{label}, most of {len(mine)}", *map(max, columns)])
    steps = [f"step {step}" for step in result["settings"]["steps"]]
    yield "Mean squared error on the way", [["student", *steps, "new rows"], *rows]

    first = [t for t in result["traces"] if t["teacher"] == 0] + result["rates"]
    rows = [["learning rate", *STUDENTS.values()]]
    for rate in sorted({t["learning_rate"] for t in first}):
        last = {t["student"]: t["mse"][-1] for t in first if t["learning_rate"] == rate}
        rows.append([rate, *(last[student] for student in STUDENTS)])
    yield "Error at step 499 by learning rate", rows

    rows = [["activation", "first missing order", "predicted", "measured"]]
    for limit in result["limits"]:
        predicted = limit["predicted_slope"]
        rows.append([limit["activation"], predicted / 2, predicted, limit["slope"]])
    yield "Slope of the least error, for epsilon up to 0.1", rows

    rows = [["epsilon", "least error", "of the third-order term alone", "ratio"]]
    limits = zip(gelu["epsilon"], gelu["mse"], gelu["leading"], strict=True)
    rows += [[e, mse, term, mse / term] for e, mse, term in list(limits)[::2]]
    yield "Least error of the fixed form, gelu branches", rows

    lengths = result["settings"]["sweep_lengths"]
    rows = [["epsilon", "student", *(f"{n} steps" for n in lengths), "new rows"]]
    for epsilon in sorted({t["epsilon"] for t in result["sweep"]}):
        for student, label in STUDENTS.items():
            runs = sweep_runs(student, epsilon)
            errors = [t["mse"][-1] for t in runs]
            rows.append([epsilon, label, *errors, runs[-1]["fresh_mse"]])
    yield "Error of longer runs", rows


def sweep_runs(student: str, epsilon: float) -> list[dict]:
    """Runs of a student from the shortest to the longest."""
    runs = [
        t
        for t in committed("toy_fit")["sweep"]
        if (t["student"], t["epsilon"]) == (student, epsilon)
    ]
    return sorted(runs, key=lambda t: t["steps"][-1])


MODELS = {
    "branch sum": "branch sum",
    "free": "form, free branch weights",
    "known": "form, M known",
    "factored": "form, factored to its width",
}
COUNTS = {
    "n_parameters": "Trainable parameters by number of branches",
    "flops_per_row": "FLOPs a row",
    "saved_bytes_per_row": "Bytes a row saved for the backward pass",
    "flops_per_call": "FLOPs once a call",
}


def width_costs(model: str, count: str, n_heads: int = 1) -> list[int]:
    """One count from the fewest to the most branches."""
    costs = committed("width")["costs"]
    kind = (model, n_heads)
    return [c[count] for c in costs if (c["model"], c["n_heads"]) == kind]


def width_times(model: str, batch_size: int, what: str, file: str = "width") -> list:
    kind = (model, batch_size)
    timings = committed(file)["timings"]
    return [t[what][1] for t in timings if (t["model"], t["batch_size"]) == kind]


def width_tables() -> Iterator[tuple[str, list[ExpectedRow]]]:
    settings = committed("width")["settings"]
    n_branches = settings["n_branches"]
    head: ExpectedRow = ["model", *map(str, n_branches)]
    for count, title in COUNTS.items():
        rows = [[label, *width_costs(model, count)] for model, label in MODELS.items()]
        yield title, [head, *rows]

    rows = [["heads", "parameters", "FLOPs a row", "bytes a row"]]
    for n_heads in settings["n_heads"]:
        row: ExpectedRow = [n_heads]
        for count in ("n_parameters", "flops_per_row", "saved_bytes_per_row"):
            few, *_, many = width_costs("branch sum", count)
            per_branch = (many - few) / (n_branches[-1] - n_branches[0])
            excess = width_costs("factored", count, n_heads)[0] - few
            row.append(n_branches[0] + excess / per_branch)
        rows.append(row)
    yield "Branches of a sum that costs as much as the factored form", rows

    for size in settings["batch_sizes"]:
        rows = [head]
        for model, label in MODELS.items():
            rows.append([label, *width_times(model, size, "growth")])
            if model == "branch sum":
                kept = width_times(model, size, "growth", "width_memory_kept")
                rows.append([f"{label}, memory kept", *kept])
        yield f"Step time over that of 64 branches, {size} rows", rows
        ratios = [[MODELS[m], *width_times(m, size, "ratio")] for m in MODELS]
        title = f"Step time over that of the form with M known, {size} rows"
        yield title, [head, *ratios]


Tables = Callable[[], Iterator[tuple[str, list[ExpectedRow]]]]
PAGES: dict[str, Tables] = {"toy_fit": toy_fit_tables, "width": width_tables}


@pytest.mark.parametrize("name", PAGES)
def test_page_shows_the_committed_numbers(name):
    tables, expected = page(name), dict(PAGES[name]())
    assert set(tables) == set(expected)
    wrong = {title: wrong_cells(tables[title], expected[title]) for title in tables}
    assert not any(wrong.values()), wrong


@pytest.mark.parametrize("name", PAGES)
def test_one_unit_in_the_last_digit_of_any_cell_is_noticed(name):
    tables, expected = page(name), dict(PAGES[name]())
    n_numbers = 0
    for title, rows in tables.items():
        for row, values in zip(rows, expected[title], strict=True):
            for cell, value in zip(row, values, strict=True):
                if isinstance(value, str):
                    assert not shows(f"{cell}.", value)
                    continue
                shown = Decimal(cell)
                unit = Decimal(1).scaleb(shown.as_tuple().exponent)
                assert not shows(str(shown + unit), value)
                assert not shows(str(shown - unit), value)
                n_numbers += 1
    assert n_numbers > 100


@pytest.mark.parametrize(
    ("row", "data"),
    [
        ("Friedman #1", "friedman1"),
        ("concrete", "concrete"),
        ("kin8nm", "kin8nm"),
        ("California housing", "california_housing"),
    ],
)
def test_readme_shows_the_committed_comparisons(row, data):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (cells,) = re.findall(rf"^\| {row} \|(.*)\|$", text, re.MULTILINE)
    pairs = {(p["model"], p["baseline"]): p for p in committed(data)["pairs"]}
    columns = [
        ("branch sum in trunk", "branch MLP"),
        ("quadratic form", "branch MLP"),
        ("quadratic form", "branch sum in trunk"),
    ]
    for cell, names in zip(cells.split("|"), columns, strict=True):
        relative, pvalue = re.findall(r"([+-]?[\d.]+)", cell)
        test = pairs[names]["test"]
        assert shows(relative, 100 * test["relative"])
        assert shows(pvalue, test["pvalue"])


# What the pages say in words ------------------------------------------------


def test_fixed_form_stops_at_its_limit_and_the_others_fall():
    result = committed("toy_fit")
    limit = result["limits"][0]
    least = dict(zip(limit["epsilon"], limit["mse"], strict=True))
    for epsilon in {t["epsilon"] for t in result["sweep"]}:
        for trace in sweep_runs("quadratic", epsilon):
            assert trace["mse"][-1] == pytest.approx(least[epsilon], rel=1e-3)
        for student in ("branch", "block"):
            errors = [t["mse"][-1] for t in sweep_runs(student, epsilon)]
            assert errors == sorted(errors, reverse=True)
            assert errors[-1] < least[epsilon] / 100


def test_branches_end_lower_than_the_learned_structure_in_all_runs_but_one():
    epsilons = {t["epsilon"] for t in committed("toy_fit")["sweep"]}
    lower = [
        branch["mse"][-1] < block["mse"][-1]
        for epsilon in epsilons
        for branch, block in zip(
            sweep_runs("branch", epsilon), sweep_runs("block", epsilon), strict=True
        )
    ]
    assert (lower.count(True), lower.count(False)) == (11, 1)


def test_branches_of_all_teachers_end_above_the_published_error():
    result = committed("toy_fit")
    traces = [t for t in result["traces"] if t["student"] == "branch"]
    assert len(traces) == 5
    assert min(t["mse"][-1] for t in traces) > result["published"]["branch"][-1]


def test_slope_of_the_least_error_is_twice_the_first_missing_order():
    for limit in committed("toy_fit")["limits"]:
        # Epsilon up to 0.1 is not yet the limit: the next order bends the line.
        assert limit["slope"] == pytest.approx(limit["predicted_slope"], abs=0.05)


def test_students_have_equally_many_parameters():
    result = committed("toy_fit")
    traces = result["traces"] + result["rates"] + result["sweep"]
    assert {trace["n_parameters"] for trace in traces} == {112}


def test_branches_cost_the_known_and_the_factored_form_nothing():
    for count in COUNTS:
        for model in ("known", "factored"):
            for n_heads in committed("width")["settings"]["n_heads"]:
                assert len(set(width_costs(model, count, n_heads))) == 1
    for count in ("n_parameters", "flops_per_row"):
        few, *_, many = width_costs("branch sum", count)
        assert many == pytest.approx(256 * few, rel=0.01)  # but for one bias


def test_sum_is_the_fastest_at_few_branches_and_the_slowest_at_many():
    for size, n_faster in ((64, 2), (1024, 1)):
        ratios = {model: width_times(model, size, "ratio") for model in MODELS}
        fastest = [
            min(zip(column, MODELS, strict=True))[1]
            for column in zip(*ratios.values(), strict=True)
        ]
        assert fastest == ["branch sum"] * n_faster + ["known"] * (5 - n_faster)
        assert ratios["branch sum"][-1] == max(r[-1] for r in ratios.values())


def test_time_of_the_known_and_the_factored_form_does_not_grow():
    for size in committed("width")["settings"]["batch_sizes"]:
        for model in ("known", "factored"):
            assert max(width_times(model, size, "growth")) < 1.03
        for model in ("branch sum", "free"):
            assert width_times(model, size, "growth")[-1] > 3


def test_half_the_time_of_the_largest_step_is_for_memory():
    times = []
    for file in ("width", "width_memory_kept"):
        (timing,) = [
            t
            for t in committed(file)["timings"]
            if (t["model"], t["n_branches"], t["batch_size"])
            == ("branch sum", 16384, 1024)
        ]
        times.append(timing["milliseconds"])
    assert times[1] / times[0] == pytest.approx(0.5, abs=0.1)


def test_forms_of_the_width_benchmark_are_one_function():
    forms = [c for c in committed("width")["costs"] if c["model"] != "branch sum"]
    assert max(c["difference"] for c in forms) < 1e-6  # float32


# Examples -------------------------------------------------------------------


def run_example(name: str) -> dict:
    plt = pytest.importorskip("matplotlib.pyplot")
    try:
        return runpy.run_path(str(ROOT / "examples" / f"plot_{name}.py"))
    finally:
        plt.close("all")


def test_example_of_width_shows_the_counts_of_the_benchmark():
    example = run_example("width")
    for name, costs in example["costs"].items():
        model = next(key for key, label in MODELS.items() if label == name)
        for count in ("n_parameters", "flops_per_row", "saved_bytes_per_row"):
            assert [getattr(c, count) for c in costs] == width_costs(model, count)
    assert example["difference"] < 1e-6  # float32


@pytest.mark.slow
def test_example_of_the_toy_fit_makes_the_run_of_the_benchmark():
    example = run_example("toy_fit")
    result = committed("toy_fit")
    for trace in result["traces"]:
        if trace["teacher"] == 0:
            curve = example["curves"][trace["student"]]
            shown = [curve[step] for step in trace["steps"]]
            # Rounding differs between processors and grows with the steps.
            assert shown == pytest.approx(trace["mse"], rel=0.05)
    limit = result["limits"][0]
    least = dict(zip(limit["epsilon"], limit["mse"], strict=True))
    expected = [least[epsilon] for epsilon in example["epsilons"]]
    assert example["limits"] == pytest.approx(expected, rel=1e-6)
    for student, errors in example["final"].items():
        for epsilon, error in zip(example["epsilons"], errors, strict=True):
            (run,) = [t for t in sweep_runs(student, epsilon) if t["steps"] == [2000]]
            assert error == pytest.approx(run["mse"][-1], rel=0.5)
