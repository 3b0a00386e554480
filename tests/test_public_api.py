"""The public names, what importing them costs, and which file may import which."""

import ast
import importlib
import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import sk_quadratic

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "sk_quadratic"

# What each of these may import from outside the standard library; "." stands for the
# parts of the same module. The others are free but for the rules below.
ALLOWED = {
    "modules": {"torch", "."},
    "costs": {"torch", "modules"},
    "stats": {"numpy", "scipy", "matplotlib", "."},
    "estimators": {"_base", "_sklearn_compat", "modules", "numpy", "torch"},
}


# Names ----------------------------------------------------------------------


@pytest.mark.parametrize("name", sk_quadratic.__all__)
def test_public_name_can_be_imported_and_has_a_docstring(name):
    assert getattr(sk_quadratic, name).__doc__


def test_dir_lists_the_public_names():
    assert {*sk_quadratic.__all__, "__version__"} <= set(dir(sk_quadratic))


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        _ = sk_quadratic.no_such_name


def test_version_is_that_of_the_installed_distribution():
    assert sk_quadratic.__version__ == importlib.metadata.version("sk-quadratic")


def test_documented_names_are_the_public_names():
    text = (ROOT / "docs" / "api.rst").read_text(encoding="utf-8")
    tables = re.findall(r"\.\. autosummary::\n(?:   :.*\n)*\n((?:   \S+\n)+)", text)
    documented = [name for table in tables for name in table.split()]
    results = [name for name in documented if "." in name]  # in modules of their own
    assert sorted({*documented} - {*results}) == sorted(sk_quadratic.__all__)
    for name in results:
        module, _, member = name.rpartition(".")
        assert member in importlib.import_module(f"sk_quadratic.{module}").__all__


def test_lazy_and_typed_imports_agree():
    """Type checkers read the imports under TYPE_CHECKING, users get those of _HOMES."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    typed = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and "sk_quadratic." in (node.module or "")
        for alias in node.names
    }
    lazy = {name: f"sk_quadratic.{home}" for name, home in sk_quadratic._HOMES.items()}
    assert lazy == typed
    assert sorted(lazy) == sk_quadratic.__all__


# What an import costs -------------------------------------------------------

STATISTICS = "import sk_quadratic as s; s.paired_permutation_test([1, 2, 4], [2, 4, 7])"


def imported_by(*arguments: str) -> set[str]:
    """Top-level names that a fresh interpreter imports."""
    run = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    names = re.findall(r"^import time:.*\| +([\w.]+)$", run.stderr, re.MULTILINE)
    return {name.split(".")[0] for name in names}


@pytest.mark.parametrize(
    "arguments",
    [
        ("-c", "import sk_quadratic"),
        ("-c", STATISTICS),
        ("-m", "sk_quadratic", "--help"),
    ],
    ids=["package", "statistics", "help"],
)
def test_torch_is_not_imported_without_need(arguments):
    names = imported_by(*arguments)
    assert "sk_quadratic" in names
    assert names.isdisjoint({"torch", "skorch", "sklearn", "pandas", "matplotlib"})


def test_torch_is_imported_by_the_modules():
    """Shows that the test above would see it."""
    assert "torch" in imported_by("-c", "import sk_quadratic as s; s.BranchSumBlock")


# Import directions ----------------------------------------------------------


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
SOURCES = sorted(set(FILES) - {"sk_quadratic"})


@cache
def imports(module: str) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """Import statements that a file runs, those inside functions too."""
    found, waiting = [], [ast.parse(FILES[module].read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(node)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting.extend(node.orelse)  # the body is read by type checkers alone
        else:
            waiting.extend(ast.iter_child_nodes(node))
    return tuple(found)


def imported_names(module: str) -> Iterator[str]:
    """Dotted names of what a file imports: ``from a.b import c`` gives ``a.b.c``."""
    for node in imports(module):
        source = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        yield from (source + alias.name for alias in node.names)


def own_imports(module: str) -> set[str]:
    """Modules of this package that a file imports."""
    found = set()
    for name in imported_names(module):
        while name not in FILES and "." in name:
            name = name.rpartition(".")[0]
        if name in FILES:
            found.add(name)
    return found


def is_in(module: str, *homes: str) -> bool:
    """Whether a module is one of these or a part of one."""
    return f"{module}.".startswith(tuple(f"sk_quadratic.{home}." for home in homes))


@pytest.mark.parametrize("module", SOURCES)
def test_imports_are_absolute(module):
    assert not [n for n in imports(module) if isinstance(n, ast.ImportFrom) and n.level]


@pytest.mark.parametrize("module", SOURCES)
def test_nothing_imports_from_the_package_itself(module):
    assert "sk_quadratic" not in own_imports(module)


def test_imports_point_one_way():
    graph = {module: own_imports(module) - {module} for module in SOURCES}
    order = list(TopologicalSorter(graph).static_order())  # CycleError if there is one
    assert order.index("sk_quadratic._base") < order.index("sk_quadratic.estimators")


@pytest.mark.parametrize(
    "module", [m for m in SOURCES if not is_in(m, "_base", "_training")]
)
def test_only_base_and_training_import_skorch(module):
    assert not [n for n in imported_names(module) if n.split(".")[0] == "skorch"]


@pytest.mark.parametrize(
    "module", [m for m in SOURCES if not is_in(m, "_sklearn_compat")]
)
def test_only_compat_imports_underscore_names_of_scikit_learn(module):
    names = [n.split(".") for n in imported_names(module)]
    assert not [n for n in names if n[0] == "sklearn" and any(p[0] == "_" for p in n)]


@pytest.mark.parametrize("home", ALLOWED)
def test_imports_of_the_layers(home):
    modules = [m for m in SOURCES if is_in(m, home)]
    assert modules
    for module in modules:
        outside = {n.split(".")[0] for n in imported_names(module)}
        outside -= {*sys.stdlib_module_names, "sk_quadratic"}
        inside = {
            "." if is_in(m, home) else m.removeprefix("sk_quadratic.").split(".")[0]
            for m in own_imports(module)
        }
        assert outside | inside <= ALLOWED[home], module


@pytest.mark.parametrize("module", [m for m in SOURCES if is_in(m, "stats")])
def test_statistics_import_matplotlib_inside_functions_only(module):
    tree = ast.parse(FILES[module].read_text(encoding="utf-8"))
    top = ast.unparse(
        [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
    )
    assert "matplotlib" not in top


@pytest.mark.parametrize("module", SOURCES)
def test_comparison_is_imported_by_the_command_line_only(module):
    imports_it = "sk_quadratic.comparison" in own_imports(module)
    assert imports_it == is_in(module, "__main__")
