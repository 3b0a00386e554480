"""The command line: output, files, exit codes, interruption."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _regressors import Descent, Failing

from sk_quadratic import _models
from sk_quadratic.__main__ import main
from sk_quadratic._progress import ProgressLine

SMALL = ["--train-rows", "60", "--test-rows", "30", "--learning-rates", "0.01", "0.1"]
NAMES = ("branch MLP", "branch sum in trunk", "quadratic form", "full structure")

# Runs the command line with models that take a while, and without importing torch.
DRIVER = """\
import sys
from types import SimpleNamespace
sys.path.insert(0, {tests!r})
from _regressors import Sleepy
from sk_quadratic.__main__ import main
models = {{"a": Sleepy(), "b": Sleepy(n_steps=5)}}
sys.modules["sk_quadratic._models"] = SimpleNamespace(default_models=lambda n: models)
sys.exit(main())
"""


class Epochs(Descent):
    """Descent with a number of epochs, as the networks have one."""

    def __init__(
        self,
        *,
        learning_rate: float = 0.1,
        n_steps: int = 20,
        random_state: int | None = None,
        max_epochs: int = 100,
    ) -> None:
        super().__init__(
            learning_rate=learning_rate, n_steps=n_steps, random_state=random_state
        )
        self.max_epochs = max_epochs


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the checkpoints, apart from the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Failing.plan.clear()
    return tmp_path / "cache" / "sk_quadratic"


@pytest.fixture
def fast_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put fast models in the place of the default ones."""

    def models(n_features: int) -> dict[str, Any]:
        assert n_features in (10, 2)
        return {name: Epochs(n_steps=3 + i) for i, name in enumerate(NAMES)}

    monkeypatch.setattr(_models, "default_models", models)


def run(*arguments: str, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sk_quadratic", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    """Return a CSV file of 90 rows, two numeric columns and one of words."""
    rng = np.random.default_rng(0)
    rows = [f"{a:.3f},{b:.3f},x,{a + b:.3f}" for a, b in rng.normal(size=(90, 2))]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["a,b,word,y", *rows]))
    return path


def test_help_imports_no_torch_and_no_scikit_learn() -> None:
    code = (
        "import sys\n"
        "from sk_quadratic.__main__ import main\n"
        "try:\n    main(['compare', '--help'])\n"
        "except SystemExit as error:\n    assert error.code == 0\n"
        "assert not {'torch', 'sklearn', 'skorch', 'numpy'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    for option in ("--data", "--csv", "--target", "--seeds", "--jobs", "--plot"):
        assert option in done.stdout


def test_version_is_that_of_the_package() -> None:
    from importlib import metadata

    done = run("--version")
    assert done.stdout == f"sk-quadratic {metadata.version('sk-quadratic')}\n"


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "compare" in capsys.readouterr().out


@pytest.mark.usefixtures("fast_models")
def test_report_on_stdout_and_progress_on_stderr(
    capsys: pytest.CaptureFixture[str], cache: Path
) -> None:
    assert main(["compare", "--data", "friedman1", *SMALL]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(
        "friedman1: 10 features, 60 training and 30 test rows, 8 pair"
    )
    for name in NAMES:
        assert name in out
    assert "Verdicts\n- " in out
    # Two rates by four tuning seeds, and eight seeds, for each of four models.
    assert re.search(r"^\[3/64\] branch MLP, learning_rate=0\.01, tuning", err)
    assert "[64/64] full structure, seed 8\n" in err
    assert len(err.splitlines()) <= 22
    assert list(cache.iterdir()) == []


@pytest.mark.usefixtures("fast_models")
def test_options_reach_the_comparison(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "r.json"
    options = ["--seeds", "3", "--tuning-seeds", "2", "--random-state", "7"]
    options += ["--models", "Quadratic-Form", "branch_mlp", "--max-epochs", "9"]
    options += ["--baseline", "branch-mlp", "--json", str(file)]
    assert main(["compare", "--data", "friedman1", *SMALL, *options]) == 0
    content = json.loads(file.read_text())
    assert [m["name"] for m in content["models"]] == ["quadratic form", "branch MLP"]
    assert [p["baseline"] for p in content["pairs"]] == ["branch MLP"]
    assert "max_epochs=9" in content["models"][0]["estimator"]
    assert len(content["seeds"]) == 3
    assert len(content["tuning_seeds"]) == 2
    arguments = content["arguments"]
    assert arguments["learning_rates"] == [0.01, 0.1]
    assert (arguments["n_train"], arguments["n_test"]) == (60, 30)
    assert arguments["random_state"] == 7
    assert "5 pairs" not in capsys.readouterr().out


@pytest.mark.usefixtures("fast_models")
def test_csv_file_is_compared_on_and_files_are_written(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("r.json", "r.md", "r.png")
    json_file, markdown, plot = (tmp_path / name for name in names)
    options = ["--csv", str(csv), "--target", "y", "--seeds", "2", "--learning-rates"]
    options += ["0.1", "--json", str(json_file), "--markdown", str(markdown)]
    assert main(["compare", *options, "--plot", str(plot)]) == 0
    out, err = capsys.readouterr()
    note = "1 column of table.csv left out as not numeric: 'word'."
    assert f"note: {note}" in err
    assert f"- {note}" in out
    assert json.loads(json_file.read_text())["data"]["n_rows"] == 90
    assert markdown.read_text().startswith("# table.csv: 2 features")
    assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("fast_models")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--csv", "{csv}"], "--csv needs --target"),
        (["--csv", "{csv}", "--target", "z"], "'z' is not in table.csv; its columns"),
        (["--csv", "none.csv", "--target", "y"], "none.csv does not exist"),
        (["--data", "diabetes", "--target", "y"], "target must not be given"),
        (["--data", "friedman1", "--seeds", "0"], "n_seeds must be at least 1; got 0"),
        (["--data", "friedman1", "--jobs", "0"], "n_jobs must be at least 1"),
        (["--data", "friedman1", "--models", "x"], "'full structure'; got 'x'"),
        (["--data", "friedman1", "--models", "branch-mlp"], "at least two regressors"),
        (["--data", "friedman1", "--baseline", "x"], "A model must be one of 'branch"),
        (
            ["--data", "friedman1", "--json", "no/r.json"],
            "The folder no for r.json doe",
        ),
        (["--data", "friedman1", "--markdown", "{tmp}"], "is a folder; a file name"),
        (["--data", "friedman1", "--plot", "r.xyz"], "; got r.xyz"),
        (
            ["--data", "friedman1", "--learning-rates", "-1"],
            "finite and above 0; got -1",
        ),
    ],
)
def test_user_errors_exit_with_2_and_a_message(
    options: list[str],
    message: str,
    csv: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    filled = [option.format(csv=csv, tmp=tmp_path) for option in options]
    assert main(["compare", *filled]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1].startswith("error: ")
    assert message in err


def test_divergence_exits_with_2_and_names_the_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    models = {"a": Failing(), "b": Descent()}
    monkeypatch.setattr(_models, "default_models", lambda n: models)
    Failing.plan[:] = [ValueError("bad luck")]
    assert main(["compare", "--data", "friedman1", *SMALL]) == 2
    err = capsys.readouterr().err
    assert err == (
        "error: bad luck\nWhile fitting a, learning_rate=0.01, tuning seed 1.\n"
    )


@pytest.mark.parametrize(
    "options",
    [
        ["--seeds", "8"],
        ["--data", "a", "--csv", "b.csv"],
        ["--data", "a", "--seeds", "x"],
        ["--data", "a", "--nonsense"],
    ],
)
def test_wrong_usage_exits_with_2(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["compare", *options])
    assert raised.value.code == 2
    assert "usage: python -m sk_quadratic" in capsys.readouterr().err


def test_errors_in_a_process_leave_no_traceback() -> None:
    done = run("compare", "--csv", "table.csv")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "error: --csv needs --target, the name of the column to predict.\n"
    )


def test_interruption_exits_with_130_and_the_same_command_resumes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], cache: Path
) -> None:
    models = {"a": Failing(), "b": Descent(n_steps=5)}
    monkeypatch.setattr(_models, "default_models", lambda n: models)
    command = ["compare", "--data", "friedman1", *SMALL]
    assert main(command) == 0
    whole = capsys.readouterr().out
    Failing.plan[:] = [None] * 5 + [KeyboardInterrupt()]
    assert main(command) == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith(
        "Interrupted. 5 of 32 fits are kept; the same command goes on from there.\n"
    )
    assert len(list(cache.iterdir())) == 1
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert err.startswith("[5/32] going on from 5 finished fits\n")
    assert without_seconds(out) == without_seconds(whole)
    assert list(cache.iterdir()) == []


def test_interruption_before_the_first_fit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    models = {"a": Failing(), "b": Descent(n_steps=5)}
    monkeypatch.setattr(_models, "default_models", lambda n: models)
    Failing.plan[:] = [KeyboardInterrupt()]
    assert main(["compare", "--data", "friedman1", *SMALL]) == 130
    assert "Interrupted. No fits are kept" in capsys.readouterr().err


def without_seconds(report: str) -> str:
    """Leave out the last two columns of the first table."""
    lines = report.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("model"))
    for i in range(start, start + 3):
        lines[i] = " ".join(lines[i].split()[:-2] if i > start else [])
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_in_a_terminal_keeps_the_finished_fits(
    tmp_path: Path, cache: Path, jobs: str
) -> None:
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER.format(tests=str(Path(__file__).parent)))
    command = [sys.executable, str(driver), "compare", "--data", "friedman1", *SMALL]
    process = subprocess.Popen(
        [*command, "--jobs", jobs],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until = time.monotonic() + 60.0
    while not (cache.is_dir() and list(cache.glob("*.json"))):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    assert "Traceback" not in err
    (file,) = cache.iterdir()
    n_kept = len(json.loads(file.read_text())["records"])
    assert 0 < n_kept < 32
    assert f"Interrupted. {n_kept} of 32 fits are kept" in err
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert f"[{n_kept}/32] going on from {n_kept} finished fits" in done.stderr
    assert not file.exists()


@pytest.mark.slow
def test_default_models_run_end_to_end(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--seeds", "2", "--tuning-seeds", "1", "--max-epochs", "2", *SMALL]
    assert main(["compare", "--data", "friedman1", *options]) == 0
    out = capsys.readouterr().out
    rows = [line for line in out.splitlines() if line.startswith(NAMES)]
    assert [next(n for n in NAMES if row.startswith(n)) for row in rows[:4]] == [*NAMES]
    for row in rows[:4]:
        assert " - " not in row  # every cost is known


class Terminal(io.StringIO):
    """Text in memory that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    progress = ProgressLine(stream)
    for i in range(1, 4):
        progress(i, 3, f"fit {i} " + 50 * "x")
    progress.close()
    progress.close()
    text = stream.getvalue()
    assert "\n" not in text
    parts = text.split("\r\x1b[K")
    assert [part[:11] for part in parts] == [
        "",
        "[1/3] fit 1",
        "[2/3] fit 2",
        "[3/3] fit 3",
        "",
    ]
    assert max(map(len, parts)) == 39


def test_progress_tells_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    progress = ProgressLine(stream)
    progress(4, 14, "resumed")
    now[0] += 20.0
    progress(6, 14, "fit")
    assert stream.getvalue().splitlines() == [
        "[4/14] going on from 4 finished fits",
        "[6/14] fit, about 1:20 left",
    ]
