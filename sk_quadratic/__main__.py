"""The command line: ``python -m sk_quadratic compare``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

_EPILOG = """\
examples:
  python -m sk_quadratic compare --data friedman1 --jobs 2
  python -m sk_quadratic compare --csv houses.csv --target price --json report.json

The report goes to standard output, progress to standard error. After Ctrl-C the same
command goes on from the finished fits.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, default=None
        Arguments; None takes those of the process.

    Returns
    -------
    int
        Exit code: 0, 2 for a wrong argument or unusable data, 130 after Ctrl-C.
    """
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        parser.print_help()
        return 0
    # Imported late, so that --help and --version are fast.
    from sk_quadratic._progress import ProgressLine

    progress = ProgressLine(sys.stderr)
    try:
        _compare(arguments, progress)
    except KeyboardInterrupt:
        progress.close()
        kept = f"{progress.n_done} of {progress.n_all}" if progress.n_all else "No"
        print(
            f"Interrupted. {kept} fits are kept; the same command goes on from there.",
            file=sys.stderr,
        )
        return 130
    except (ValueError, TypeError, OSError, ImportError) as error:
        progress.close()
        print(f"error: {error}", file=sys.stderr)
        for note in getattr(error, "__notes__", ()):
            print(note, file=sys.stderr)
        return 2
    return 0


def _compare(arguments: argparse.Namespace, progress: Any) -> None:
    _check_outputs(arguments)
    from sk_quadratic._inputs import known_name, select_models
    from sk_quadratic.comparison import DEFAULT_LEARNING_RATES, compare
    from sk_quadratic.datasets import load_dataset

    data = load_dataset(arguments.csv or arguments.data, target=arguments.target)
    for note in data.notes:
        print(f"note: {note}", file=sys.stderr)
    models = select_models(arguments.models, data.n_features, arguments.max_epochs)
    baseline = arguments.baseline and known_name(arguments.baseline, models)
    result = compare(
        models,
        data,
        n_seeds=arguments.seeds,
        tuning_seeds=arguments.tuning_seeds,
        learning_rates=arguments.learning_rates or DEFAULT_LEARNING_RATES,
        baseline=baseline,
        n_train=arguments.train_rows,
        n_test=arguments.test_rows,
        random_state=arguments.random_state,
        n_jobs=arguments.jobs,
        checkpoint="auto",
        progress=progress,
    )
    progress.close()
    print(result)
    if arguments.json:
        result.to_json(arguments.json)
    if arguments.markdown:
        result.to_markdown(arguments.markdown)
    if arguments.plot:
        result.plot().figure.savefig(arguments.plot, dpi=150)


def _check_outputs(arguments: argparse.Namespace) -> None:
    """Refuse files that cannot be written before the fits, not after them."""
    for path in (arguments.json, arguments.markdown, arguments.plot):
        if path is not None and not path.parent.is_dir():
            raise ValueError(
                f"The folder {path.parent} for {path.name} does not exist."
            )
        if path is not None and path.is_dir():
            raise ValueError(f"{path} is a folder; a file name is needed.")
    if arguments.csv is not None and arguments.target is None:
        raise ValueError("--csv needs --target, the name of the column to predict.")
    if arguments.plot is not None:
        _check_plot(arguments.plot)


def _check_plot(path: Path) -> None:
    """Refuse a plot that cannot be drawn or saved."""
    try:
        import matplotlib
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError as error:
        hint = 'pip install "sk-quadratic[compare]"'
        message = f"--plot needs matplotlib. Install it with: {hint}"
        raise ImportError(message) from error
    suffixes = sorted(FigureCanvasBase.filetypes)
    if path.suffix.lower().removeprefix(".") not in suffixes:
        raise ValueError(
            f"The plot's file name must end in one of {', '.join(suffixes)}; got "
            f"{path.name}."
        )
    matplotlib.use("Agg")  # a file is wanted, no window


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sk_quadratic",
        description="Learned quadratic forms, and an honest comparison with branches.",
    )
    version = metadata.version("sk-quadratic")
    parser.add_argument(
        "--version", action="version", version=f"sk-quadratic {version}"
    )
    commands = parser.add_subparsers(dest="command", title="commands")
    command = commands.add_parser(
        "compare",
        help="compare the models on paired seeds and say which is better",
        description="Compare the models on paired seeds. The learning rate of each is "
        "tuned on validation rows of other seeds, and never on test rows.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_data(command)
    _add_protocol(command)
    _add_outputs(command)
    return parser


def _add_data(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("data")
    source = group.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--data",
        metavar="NAME",
        help="friedman1, friedman2, friedman3, diabetes, california_housing, or the "
        "name of an OpenML data set",
    )
    source.add_argument(
        "--csv", type=Path, metavar="FILE", help="a .csv, .csv.gz or .parquet file"
    )
    group.add_argument("--target", metavar="COLUMN", help="the column to predict")
    group.add_argument(
        "--train-rows",
        type=int,
        metavar="N",
        help="training rows of one seed (default: 800 generated ones, or all rows of a "
        "table that do not test)",
    )
    group.add_argument(
        "--test-rows",
        type=int,
        metavar="N",
        help="test rows of one seed (default: 400 generated ones, or a fifth of a "
        "table)",
    )


def _add_protocol(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("protocol")
    group.add_argument(
        "--models",
        nargs="+",
        metavar="MODEL",
        help='some of "branch MLP", "branch sum in trunk", "quadratic form", "full '
        'structure" (default: all)',
    )
    group.add_argument(
        "--baseline",
        metavar="MODEL",
        help="the model to compare with (default: the first)",
    )
    group.add_argument(
        "--seeds", type=int, default=8, metavar="N", help="paired seeds (default: 8)"
    )
    group.add_argument(
        "--tuning-seeds",
        type=int,
        default=4,
        metavar="N",
        help="seeds to tune the learning rate on (default: 4)",
    )
    group.add_argument(
        "--learning-rates",
        type=float,
        nargs="+",
        metavar="RATE",
        help="the learning rates to try, the same for all models",
    )
    group.add_argument(
        "--max-epochs", type=int, metavar="N", help="passes over the training rows"
    )
    group.add_argument(
        "--random-state", type=int, default=0, metavar="N", help="seed (default: 0)"
    )
    group.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="processes, or -1 for one per core (default: 1)",
    )


def _add_outputs(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("output")
    group.add_argument("--json", type=Path, metavar="FILE", help="all numbers as JSON")
    group.add_argument(
        "--markdown", type=Path, metavar="FILE", help="the report as Markdown"
    )
    group.add_argument(
        "--plot", type=Path, metavar="FILE", help="the paired scores as an image"
    )


if __name__ == "__main__":
    sys.exit(main())
