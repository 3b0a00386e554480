"""Data sets by name and tables from files, and what is said about unusable ones."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets
from sklearn.datasets import make_friedman1, make_friedman2, make_friedman3

from sk_quadratic.datasets import Dataset, load_dataset


@pytest.fixture
def frame() -> pd.DataFrame:
    """Return five rows with text, a gap in the features and one in the target."""
    return pd.DataFrame(
        {
            "size": [1, 2, 3, 4, 5],
            "kind": ["a", "None", "NA", "b", "c"],
            "age": [0.5, None, 1.5, 2.5, 3.5],
            "new": [True, False, True, True, False],
            "price": [10.0, 20.0, 30.0, None, 50.0],
        }
    )


@pytest.fixture(params=["table.csv", "table.CSV.GZ", "table.parquet", "table.pq"])
def path(request: pytest.FixtureRequest, frame: pd.DataFrame, tmp_path: Path) -> Path:
    """Return a file with the frame, once for each format."""
    path = tmp_path / request.param
    if "csv" in path.name.lower():
        gz = path.name.lower().endswith(".gz")
        frame.to_csv(path, index=False, compression="gzip" if gz else None)
    else:
        frame.to_parquet(path)
    return path


@pytest.mark.parametrize(
    ("name", "make", "noise", "n_features"),
    [
        ("friedman1", make_friedman1, 1.0, 10),
        ("friedman2", make_friedman2, 125.0, 4),
        ("friedman3", make_friedman3, 0.1, 4),
    ],
)
def test_friedman_rows_are_scikit_learns(
    name: str, make: Any, noise: float, n_features: int
) -> None:
    data = load_dataset(name)
    X, y = data.sample(30, random_state=3)
    expected_X, expected_y = make(30, noise=noise, random_state=3)
    np.testing.assert_array_equal(X, expected_X)
    np.testing.assert_array_equal(y, expected_y)
    assert data.n_features == X.shape[1] == n_features
    assert data.n_rows is None
    assert data.X.shape == (len(data.y), n_features)


def test_friedman_noise_is_about_a_third_of_the_signal() -> None:
    for make, noise in ((make_friedman2, 125.0), (make_friedman3, 0.1)):
        signal = make(20_000, noise=0.0, random_state=0)[1].std()
        # Friedman (1991) rounds: the ratios are 3.0 and 3.2.
        assert 2.7 < signal / noise < 3.3


def test_diabetes_is_scikit_learns() -> None:
    data = load_dataset("diabetes")
    expected = sklearn.datasets.load_diabetes()
    np.testing.assert_array_equal(data.X, expected.data)
    np.testing.assert_array_equal(data.y, expected.target)
    assert data.feature_names == tuple(expected.feature_names)
    assert data.n_rows == 442
    assert data.notes == ()


def test_sample_of_a_finite_table_repeats_no_row() -> None:
    data = load_dataset("diabetes")
    X, y = data.sample(442, random_state=0)
    assert sorted(y) == sorted(data.y)
    assert sorted(X[:, 0]) == sorted(data.X[:, 0])
    np.testing.assert_array_equal(y[:5], data.sample(5, random_state=0)[1])
    assert list(y[:20]) != list(data.sample(20, random_state=1)[1])


@pytest.mark.parametrize(
    ("name", "n", "message"),
    [
        ("diabetes", 443, "at least 1 and at most 442; got 443"),
        ("diabetes", 0, "at least 1 and at most 442; got 0"),
        ("friedman1", 0, "n must be at least 1; got 0"),
    ],
)
def test_impossible_samples_are_refused(name: str, n: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_dataset(name).sample(n, random_state=0)


def test_own_generator_can_be_given() -> None:
    def generator(n_samples: int, random_state: int) -> tuple[np.ndarray, np.ndarray]:
        X = np.random.default_rng(random_state).normal(size=(n_samples, 2))
        return X, X[:, 0]

    X, y = generator(5, 0)
    data = Dataset("own", X, y, ("a", "b"), generator=generator)
    assert data.n_rows is None
    np.testing.assert_array_equal(data.sample(7, random_state=1)[1], generator(7, 1)[1])


def test_file_gives_numeric_columns_and_complete_rows(path: Path) -> None:
    data = load_dataset(path, target="price")
    assert data.feature_names == ("size", "age", "new")
    np.testing.assert_array_equal(data.X, [[1, 0.5, 1], [3, 1.5, 1], [5, 3.5, 0]])
    np.testing.assert_array_equal(data.y, [10.0, 30.0, 50.0])
    assert data.X.dtype == data.y.dtype == np.float64
    assert data.name == path.name
    assert data.notes == (
        f"1 column of {path.name} left out as not numeric: 'kind'.",
        f"2 of 5 rows of {path.name} left out for missing values.",
    )
    as_text = load_dataset(str(path), target="price")
    np.testing.assert_array_equal(as_text.X, data.X)


def test_words_such_as_na_are_values_and_keep_a_column_from_being_numeric(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,y\n1,NA,2\n3,4,5\n,6,7\n")
    data = load_dataset(path, target="y")
    assert data.feature_names == ("a",)
    np.testing.assert_array_equal(data.y, [2.0, 5.0])


def test_empty_columns_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,y\n1,,2\n3,,5\n")
    data = load_dataset(path, target="y")
    assert data.feature_names == ("a",)
    assert data.notes == ("1 column of t.csv left out as empty: 'b'.",)


def test_nullable_and_odd_columns_of_parquet(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "count": pd.array([1, None, 3], dtype="Int64"),
            "when": pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-03"]),
            "word": pd.Categorical(["a", "b", "c"]),
            "y": pd.array([1.0, 2.0, 3.0], dtype="Float64"),
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    data = load_dataset(tmp_path / "t.parquet", target="y")
    np.testing.assert_array_equal(data.X, [[1.0], [3.0]])
    assert data.notes[0].endswith("left out as not numeric: 'when', 'word'.")
    assert "2 columns of" in data.notes[0]


def test_missing_target_column_lists_the_columns(path: Path) -> None:
    message = (
        r"target column 'prize' is not in .*; its columns are 'size', 'kind', 'age', "
        r"'new', 'price'. Did you mean 'price'\?"
    )
    with pytest.raises(ValueError, match=message):
        load_dataset(path, target="prize")


def test_file_without_a_target_lists_the_columns(path: Path) -> None:
    with pytest.raises(ValueError, match=r"must name the column of .* 'size', 'kind'"):
        load_dataset(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a;y\n1;2\n", r"columns are 'a;y'\. The fields of the file must be separated"),
        ("a,y\n1,b\n", "target column 'y' of t.csv must be numeric; got "),
        ("a,y\nb,1\n", "at least one numeric column beside the target 'y'; got 'a'"),
        ("y\n1\n", "at least one numeric column beside the target 'y'; got none"),
        ("a,y\ninf,1\n", "t.csv must be finite; got infinite values in 'a'"),
        ("a,y\n1,\n", "t.csv has no row without missing values; got 1"),
        ("a,y\n", "t.csv has no rows"),
        ("", r"Cannot read .*t\.csv as CSV: No columns to parse"),
        ("a,y\n1,2\n1,2,3,4\n", r"Cannot read .*t\.csv as CSV: .*tokenizing"),
    ],
)
def test_unusable_csv_files_are_refused(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        load_dataset(path, target="y")


@pytest.mark.parametrize("name", ["t.csv.gz", "t.parquet"])
def test_files_of_another_format_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("a,y\n1,2\n")
    kind = "CSV" if "csv" in name else "Parquet"
    with pytest.raises(ValueError, match=f"Cannot read .*{name} as {kind}: "):
        load_dataset(tmp_path / name, target="y")


def test_many_columns_are_not_all_listed(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(",".join(f"c{i}" for i in range(50)) + "\n" + ",".join("1" * 50))
    with pytest.raises(ValueError, match=r"'c29' and 20 more\."):
        load_dataset(path, target="y")


def test_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.csv does not exist"):
        load_dataset(tmp_path / "none.csv", target="y")
    with pytest.raises(FileNotFoundError, match=r"none\.csv does not exist"):
        load_dataset("none.csv", target="y")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileNotFoundError, match="is a folder, not a file"):
        load_dataset(tmp_path / "folder.csv", target="y")


def test_unknown_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"end in one of \.csv, \.csv\.gz.*got .*xlsx"):
        load_dataset(tmp_path / "t.xlsx", target="y")


def test_files_without_pandas_name_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    message = r'needs pandas\. Install it with: pip install "sk-quadratic\[compare\]"'
    with pytest.raises(ImportError, match=message):
        load_dataset(tmp_path / "t.csv", target="y")
    with pytest.raises(ImportError, match=message):
        load_dataset("abalone")


def test_parquet_without_pyarrow_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path) -> None:
        raise ImportError("no engine")

    (tmp_path / "t.parquet").touch()
    monkeypatch.setattr(pd, "read_parquet", fail)
    with pytest.raises(ImportError, match=r"needs pyarrow.*sk-quadratic\[compare\]"):
        load_dataset(tmp_path / "t.parquet", target="y")


def test_target_of_a_named_data_set_is_fixed() -> None:
    with pytest.raises(ValueError, match=r"must not be given for 'diabetes'.*got 'y'"):
        load_dataset("diabetes", target="y")


def test_names_must_be_text() -> None:
    with pytest.raises(TypeError, match="must be a str or a Path; got int"):
        load_dataset(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must not be empty"):
        load_dataset(" ")


def test_california_housing_is_fetched_by_scikit_learn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bunch = SimpleNamespace(
        data=np.ones((3, 2)), target=np.arange(3.0), feature_names=["a", "b"]
    )
    fetch = "fetch_california_housing"
    monkeypatch.setattr(sklearn.datasets, fetch, lambda: bunch)
    data = load_dataset("california_housing")
    assert data.feature_names == ("a", "b")
    np.testing.assert_array_equal(data.y, [0.0, 1.0, 2.0])

    def fail() -> None:
        raise OSError("no network")

    monkeypatch.setattr(sklearn.datasets, fetch, fail)
    with pytest.raises(
        OSError, match=r"not be downloaded \(no network\). A local file"
    ):
        load_dataset("california_housing")


def fake_openml(frame: pd.DataFrame, calls: list[dict[str, Any]]) -> Any:
    def fetch(name: str, **options: Any) -> SimpleNamespace:
        calls.append({"name": name, **options})
        column = options["target_column"]
        column = "price" if column == "default-target" else column
        return SimpleNamespace(frame=frame, target=frame[column])

    return fetch


def test_other_names_come_from_openml(
    frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fake_openml(frame, calls))
    data = load_dataset("houses")
    assert calls[0] == {
        "name": "houses",
        "target_column": "default-target",
        "as_frame": True,
    }
    assert data.feature_names == ("size", "age", "new")
    assert load_dataset("houses", target="size").feature_names == (
        "age",
        "new",
        "price",
    )


@pytest.mark.parametrize("target", [None, pd.DataFrame({"a": [1], "b": [2]})])
def test_openml_without_one_target_lists_the_columns(
    monkeypatch: pytest.MonkeyPatch, target: Any
) -> None:
    bunch = SimpleNamespace(frame=pd.DataFrame({"a": [1], "b": [2]}), target=target)
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", lambda *a, **k: bunch)
    with pytest.raises(
        ValueError, match=r"target must name one column of 'houses' .*'b'"
    ):
        load_dataset("houses")


@pytest.mark.parametrize(
    ("name", "error", "raised", "message"),
    [
        ("freidman1", OSError("offline"), OSError, r"offline.*mean 'friedman1'\?"),
        ("zzz", OSError("offline"), OSError, "offline.*need no OpenML are friedman1, "),
        ("zzz", ValueError("No active dataset"), ValueError, "No active dataset"),
        ("zzz", KeyError("Could not find y"), ValueError, "OpenML: Could not find y"),
    ],
)
def test_errors_of_openml_are_passed_on_with_a_hint(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    error: Exception,
    raised: type[Exception],
    message: str,
) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fail)
    with pytest.raises(raised, match=message):
        load_dataset(name)
