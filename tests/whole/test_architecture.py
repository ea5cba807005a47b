"""The layout and the import rules that hold the product together, read from the source."""

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

PACKAGES = ("harness", "reference_models", "reports", "rules")
MAY_IMPORT = {
    "harness": {"harness", "reference_models", "reports", "rules"},
    "reference_models": {"reference_models"},
    "reports": {"reports", "rules"},
    "rules": {"rules"},
}
NEVER_IMPORTS = {
    "harness": {"pandas"},
    "reference_models": {"click", "jinja2", "mlperf_logging", "pandas"},
    "reports": {"click", "mlperf_logging", "torch"},
    "rules": {"click", "jinja2", "pandas", "torch"},
}
TOP_LEVEL = {
    ".ci", ".github", ".gitignore", ".gitlab-ci.yml", "CONTRIBUTING.md", "LICENSE", "MANIFEST.in", "Makefile",
    "README.md", "harness", "pyproject.toml", "reference_models", "reports", "rules",
    "tests",
}  # fmt: skip


def source_files(package: str) -> list[Path]:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files, package
    return files


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def import_statements(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """Those inside functions and types included."""
    return tuple(node for node in ast.walk(parse(path)) if isinstance(node, ast.Import | ast.ImportFrom))


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """(line, full module name) of every import statement in a file."""
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        else:
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            yield node.lineno, node.module or ""


def tracked_files() -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: nothing says which files belong to the product")
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "package", [pytest.param(name, marks=[pytest.mark.slow] * (name != "rules")) for name in PACKAGES]
)
def test_imports_run_downwards_only(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in source_files(package)
        for line, name in imported(path)
        if name.split(".")[0] in set(PACKAGES) - MAY_IMPORT[package] | NEVER_IMPORTS[package]
    ]
    assert wrong == []


def product_modules() -> dict[str, Path]:
    """Every module of the four packages by its full name, a package by that of its folder."""
    paths = [path for package in PACKAGES for path in source_files(package)]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def import_graph(modules: dict[str, Path]) -> dict[str, set[str]]:
    """From every module to the modules of the product that it imports anywhere, inside functions too."""
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        names = set()
        for node in import_statements(path):
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif node.module is not None:
                names.update(f"{node.module}.{alias.name}" for alias in node.names)
        owners = {name if name in modules else name.rpartition(".")[0] for name in names}
        graph[module] = owners & set(modules) - {module}
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """What is left of a graph when, again and again, everything is taken out that nothing left leads to, or that
    leads to nothing left: the nodes of its circles and those between them."""
    left = {node: set(targets) for node, targets in graph.items()}
    while True:
        used = {target for targets in left.values() for target in targets}
        kept = {node: targets & set(left) for node, targets in left.items() if targets & set(left) and node in used}
        if kept == left:
            return [[node, *sorted(targets)] for node, targets in sorted(left.items())]
        left = kept


def test_a_circle_is_seen_and_a_tree_is_none() -> None:
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
    found = circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()})
    assert found == [["b", "c"], ["c", "b"]]


@pytest.mark.slow
def test_no_files_import_each_other_in_a_circle() -> None:
    modules = product_modules()
    graph = import_graph(modules)
    assert sum(map(len, graph.values())) > len(graph)
    assert circles(graph) == []


def test_no_folders_import_each_other_in_a_circle() -> None:
    modules = product_modules()
    files = {module: path for module, path in modules.items() if path.name != "__init__.py"}
    folders: dict[str, set[str]] = {str(path.parent.relative_to(ROOT)): set() for path in files.values()}
    for module, targets in import_graph(modules).items():
        if module in files:
            here = str(files[module].parent.relative_to(ROOT))
            folders[here] |= {str(files[one].parent.relative_to(ROOT)) for one in targets if one in files} - {here}
    assert circles(folders) == []


def folder_of(module: str) -> tuple[str, str]:
    """The package of a module, and the folder or file of it that holds the module."""
    package, _, rest = module.partition(".")
    return package, rest.partition(".")[0]


@pytest.mark.parametrize("package", PACKAGES)
def test_the_arrows_of_the_contributing_page_are_those_of_the_imports(package: str) -> None:
    """Of 'a ← b, c ← d' each imports from what is left of its arrow alone, and all that there is appears there."""
    (line,) = re.findall(rf"^ +- `{package}`: (.+)$", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.MULTILINE)
    floors = {name: floor for floor, names in enumerate(line.split(" ← ")) for name in names.split(", ")}
    graph = import_graph(product_modules())
    inner = {folder_of(module)[1] for module in graph if folder_of(module)[0] == package} - {"", "__main__"}
    assert set(floors) == inner
    wrong = [
        f"{module} imports {target}"
        for module, targets in graph.items()
        for target in targets
        if (here := folder_of(module)) != (there := folder_of(target))
        and here[0] == there[0] == package
        and here[1] in floors
        and there[1] in floors
        and floors[there[1]] >= floors[here[1]]
    ]
    assert wrong == []


@pytest.mark.parametrize("package", PACKAGES)
def test_the_product_never_imports_its_tests_or_test_tools(package: str) -> None:
    tools = {"tests", "pytest", "hypothesis", "sklearn", "jsonschema", "conftest"}
    names = {name.split(".")[0] for path in source_files(package) for _, name in imported(path)}
    assert names & tools == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_says_what_it_is_for(package: str) -> None:
    silent = [str(path.relative_to(ROOT)) for path in source_files(package) if not ast.get_docstring(parse(path))]
    assert silent == []


def test_the_top_level_holds_what_the_design_names_and_nothing_else() -> None:
    assert {name.split("/")[0] for name in tracked_files()} <= TOP_LEVEL
    assert all((ROOT / package / "py.typed").exists() for package in PACKAGES)


def test_no_folder_of_tests_is_named_like_a_package() -> None:
    """It would hide the package from the modules beside it."""
    folders = {Path(name).parts[1] for name in tracked_files() if name.startswith("tests/") and name.count("/") > 1}
    assert folders & {*PACKAGES, "tests"} == set()


def setuptools_table() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    return table


def test_every_folder_with_code_is_a_package_of_the_distribution() -> None:
    """As setuptools finds them: folders with an __init__.py, below others that have one, in the four packages."""
    find = setuptools_table()["packages"]["find"]
    assert find == {"include": [name for one in PACKAGES for name in (one, f"{one}.*")], "namespaces": False}
    folders = {path.parent for package in PACKAGES for path in source_files(package)}
    folders |= {
        parent for folder in folders for parent in folder.parents if parent.is_relative_to(ROOT) and parent != ROOT
    }
    assert [str(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_every_other_file_of_a_package_is_in_the_distribution() -> None:
    data = setuptools_table()["package-data"]
    packages = {path.parent.relative_to(ROOT) for package in PACKAGES for path in source_files(package)}
    for name in tracked_files():
        path = Path(name)
        if path.parts[0] not in PACKAGES or path.suffix == ".py":
            continue
        holder = max((package for package in packages if path.is_relative_to(package)), key=lambda p: len(p.parts))
        inner = path.relative_to(holder)
        patterns = [*data["*"], *data.get(".".join(holder.parts), [])]
        assert any(inner.match(pattern) and len(inner.parts) == len(Path(pattern).parts) for pattern in patterns), (
            name
        )


@pytest.mark.slow
def test_the_code_changes_no_setting_of_the_interpreter_that_others_share() -> None:
    wrong = []
    for package in PACKAGES:
        for path in source_files(package):
            for node in ast.walk(parse(path)):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Name)
                    and node.func.id in ("eval", "exec")
                ):
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} calls {node.func.id}")
                if isinstance(node, ast.Global):
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} has a global that changes")
    assert wrong == []


def test_reports_do_not_name_what_an_extension_measures() -> None:
    files = [path for end in ("py", "j2", "js", "css") for path in (ROOT / "reports").rglob(f"*.{end}")]
    named = (path for path in files if re.search(r"\b(?i:serve|served|serving)\b", path.read_text(encoding="utf-8")))
    assert list(named) == []
