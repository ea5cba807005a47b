"""Extensions are behind a wall: nothing names them but their lines, and the product goes on without any of them."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from bundle_builder import write_runs, write_speed
from deletion import PACKAGES, ROOT, delete_models, link_product, with_those_that_need, without_lines
from goldens import lay_data
from measured_builder import write_measured
from records_builder import group_content, write_group
from waiting import HANG_S

from harness.cli import COMMANDS
from harness.foundation.files import write_record
from harness.foundation.study import make_study, make_table
from rules.extensions import EXTENSIONS, Extension, find_places, load_extensions, load_place
from rules.records.measure import ProcessMeasurement

FOLDER = ROOT / "harness" / "extensions"
PREFIX = "harness.extensions."
MAY_IMPORT = {
    "extension.py": ("rules.extensions",),
    "records.py": ("rules.",),
    "documents.py": ("rules.", "reports.", "{own}.records"),
    "shown.py": ("rules.", "reports.", "{own}.records", "{own}.shown"),
}
"""What a file of an extension may import of the product, by its name, or what those of a folder of that name may; all
others may import what harness may."""


def python_files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*.py")) if "__pycache__" not in path.parts]


def imports_of(path: Path) -> Iterator[str]:
    """Yield the full name of every module that a file imports, and every name that it takes out of one."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def extensions_of(names: Collection[str]) -> set[str]:
    """Return the extensions that modules or places are of."""
    return {name.removeprefix(PREFIX).partition(".")[0] for name in names if name.startswith(PREFIX)}


def places_of(extension: Extension) -> dict[str, tuple[str, str]]:
    """Return every place that an extension names, as module:name, with its field and its name in it."""
    found: dict[str, tuple[str, str]] = {}
    for field in ("records", "documents", "shown", "relations", "sections", "stop_rules", "tables", "functions"):
        found |= {place: (field, name) for name, place in getattr(extension, field).items()}
    found |= {verb.command: ("verbs", name) for name, verb in extension.verbs.items()}
    found |= {kind.record: ("records", name) for name, kind in extension.kinds.items()}
    found |= {f"{kind.job}:KIND": ("jobs", name) for name, kind in extension.kinds.items()}
    return found | {f"{job}:KIND": ("jobs", name) for name, job in extension.jobs.items()}


PLACES = {place: told for extension in load_extensions().values() for place, told in places_of(extension).items()}


def test_each_folder_is_an_extension_with_a_page_and_a_line() -> None:
    assert {path.parent.name for path in FOLDER.glob("*/__init__.py")} == set(EXTENSIONS)
    for name, module in EXTENSIONS.items():
        assert module == f"{PREFIX}{name}.extension"
        assert (FOLDER / name / "README.md").read_text(encoding="utf-8").startswith(f"# {name}\n")
        assert extensions_of(places_of(load_extensions()[name])) == {name}


@pytest.mark.once("nothing names an extension")
def test_nothing_of_the_core_imports_an_extension_or_spells_its_place() -> None:
    wrong = []
    for path in (path for package in PACKAGES for path in python_files(ROOT / package)):
        if FOLDER in path.parents and path.parent != FOLDER:
            continue
        place, text = path.relative_to(ROOT), path.read_text(encoding="utf-8")
        if re.search(r"harness\s*(\.|import\b.*)\s*extensions\b", text):  # it is parsed where it may import one
            wrong += [f"{place} imports {name}" for name in extensions_of(list(imports_of(path)))]
        if PREFIX in text and place != Path("rules/extensions.py"):
            wrong.append(f"{place} spells {PREFIX}")
    assert wrong == []


@pytest.mark.parametrize("name", EXTENSIONS)
def test_an_extension_imports_of_others_what_it_needs(name: str) -> None:
    used = {other for path in python_files(FOLDER / name) for other in extensions_of(list(imports_of(path)))}
    assert used - {name} == set(load_extensions()[name].needs)


def test_no_extension_needs_itself() -> None:
    left = {name: set(extension.needs) for name, extension in load_extensions().items()}
    while free := {name for name, needs in left.items() if not needs}:
        left = {name: needs - free for name, needs in left.items() if name not in free}
    assert left == {}


@pytest.mark.parametrize(
    ("gone", "now"), [pytest.param(*each, id=each[0]) for each in find_places("renamed").items()]
)
def test_an_option_that_went_away_is_named_as_it_is_now(
    gone: str, now: tuple[str, ...], command: Callable[..., tuple[int, str, str]]
) -> None:
    verb, option = gone.split()
    code, out, err = command(verb, option)
    said = " ".join(err.split())
    assert (code, out) == (2, "") and f"No such option '{option}'. It is now 'dlrmbench {now[0]}'" in said
    for words in now:
        assert f"'dlrmbench {words}'" in said
        kept = load_place(COMMANDS[words.split()[0]].command)
        known = {name for parameter in kept.params for name in parameter.opts}
        assert {word for word in words.split() if word.startswith("-")} <= known


def law_of(path: Path) -> str:
    """Return the name that says what a file of an extension may import: shown.py of those in a folder `shown`."""
    return f"{path.relative_to(FOLDER).parts[1].removesuffix('.py')}.py"


@pytest.mark.parametrize(
    "path", [path for path in python_files(FOLDER) if path.parent != FOLDER and law_of(path) in MAY_IMPORT], ids=str
)
def test_files_that_the_core_asks_for_import_what_their_name_allows(path: Path) -> None:
    own = path.relative_to(FOLDER).parts[0]
    allowed = [each.format(own=f"{PREFIX}{own}") for each in MAY_IMPORT[law_of(path)]]
    names = [name for name in imports_of(path) if name.partition(".")[0] in PACKAGES]
    assert [name for name in names if not any(f"{name}.".startswith(each) for each in allowed)] == []


def test_places_are_in_the_files_that_their_field_asks_for() -> None:
    files = {"records": "records", "documents": "documents", "shown": "shown", "tables": "records"}
    wrong = [
        place
        for place, (field, _) in PLACES.items()
        if field in files and place.partition(":")[0].rpartition(".")[2] != files[field]
    ]
    assert wrong == []


def test_kinds_of_extensions_are_measured_in_processes_and_say_the_table_of_their_own() -> None:
    for extension in load_extensions().values():
        records = [load_place(kind.record) for kind in extension.kinds.values()]
        assert all(issubclass(record, ProcessMeasurement) and not record.IS_LOGGED for record in records)
        details = [record.DETAILS for record in records if record.DETAILS is not None]
        assert {table.name: table for table in details} == {
            name: load_place(place) for name, place in extension.tables.items()
        }


def test_sections_of_extensions_are_no_part_of_a_problem() -> None:
    for name, place in find_places("sections").items():
        section = load_place(place)
        assert section.name == name and section.asked_by and not section.is_of_problem


MODULES = sorted({place.partition(":")[0] for place in PLACES})
IMPORTED_ALONE = [name for name in MODULES if name.rpartition(".")[2] in ("records", "documents")]
"""What `check` imports; the others of extensions are imported first in `make test-all`."""


@pytest.mark.parametrize(
    "module", [pytest.param(name, marks=[pytest.mark.slow] * (name not in IMPORTED_ALONE)) for name in MODULES]
)
def test_each_place_is_found_where_it_is_imported_first(module: str) -> None:
    """What an import of another place would hide, such as a circle, shows where this one is the first."""
    told = {place: field for place, (field, _) in PLACES.items() if place.partition(":")[0] == module}
    code = (
        "import sys\nfrom rules.extensions import load_place\n"
        "for place in sys.argv[1:]:\n    assert load_place(place) is not None, place\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))\n"
    )
    done = run_python(ROOT, code, *told)
    heavy = {"torch"} if set(told.values()) != {"records"} else {"torch", "click", "pandas", "jinja2"}
    assert not heavy & set(done.stdout.split())


def run_python(tree: Path, code: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run code in a tree, with the builders of this checkout's tests."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTHONPATH"] = os.pathsep.join((str(tree), str(ROOT / "tests" / "builders")))
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done


def test_a_line_of_the_registry_is_taken_out_alone() -> None:
    text = (ROOT / "rules" / "extensions.py").read_text(encoding="utf-8")
    for name, module in EXTENSIONS.items():
        assert set(text.splitlines()) - set(without_lines(text, {name}).splitlines()) == {
            f'    "{name}": "{module}",'
        }
    with pytest.raises(AssertionError):
        without_lines(without_lines(text, {name}), {name})


# Deletion: the core does all that it does, and says what it does not have.

_COMMANDS = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import harness
from harness.cli import main


def call(words):
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main(words)
        except SystemExit as leaving:
            return {"words": words, "code": leaving.code, "out": out.getvalue(), "err": err.getvalue()}


asked = json.loads(sys.argv[1])
told = [call(words) for words in asked["commands"]]
heavy = "torch" in sys.modules
from scripted_commands import run_scripted_command
from scripted_workers import Moment, ScriptedWorkers

ended = run_scripted_command(asked["run"], Path(asked["folder"]), ScriptedWorkers(Moment()))
print(json.dumps({
    "told": told, "heavy": heavy, "run": [ended.code, ended.out, ended.err], "place": harness.__file__,
    "modules": [name for name in sys.modules if name.startswith("harness.extensions.")],
}))
"""


def use_without(
    gone: set[str], folder: Path, data_root: Path, change: Callable[[Path], object] = lambda tree: None
) -> None:
    """Delete extensions, and make a change, in a copy of the product, and do there what the core does."""
    tree, place = link_product(folder / "tree", gone), folder / "place"
    change(tree)
    here = folder / "here"
    trained = [str(write_runs(here / name, 10_000.0, seed=seed)) for seed, name in enumerate(("one", "other"))]
    write_speed(here / "speed", 2_000.0)
    made = [load_extensions()[name] for name in gone]
    kinds = {kind: _write_set(folder / kind, kind) for extension in made for kind in extension.kinds}
    shown = [kind for extension in made for kind in extension.shown if kind not in kinds]
    studies = {kind: _write_study(folder / kind, kind) for kind in shown}
    groups = [_write_group(folder / name, name) for extension in made for name in extension.relations]
    page = str(folder / "page.html")
    core: list[list[str]] = [
        ["--help"], ["list"], ["show", "dlrm_tiny"], ["show", "dlrm_tiny", "--format", "toml"], ["check", str(here)],
        ["report", str(here), "-o", page], ["compare", *trained], ["schema"], ["schema", "run_set"],
        *(["report", str(path), "-o", page] for path in (*studies.values(), *groups)),
    ]  # fmt: skip
    resumed = [["resume", str(path)] for path in groups]
    absent = [words for path in kinds.values() for words in (["check", str(path)], ["report", str(path), "-o", page])]
    verbs = [[verb] for extension in made for verb in extension.verbs]
    asked = {
        "commands": [*core, *absent, *resumed, *verbs],
        "folder": str(lay_data(data_root, place)),
        "run": ["run", "dlrm_tiny", "-n", "1", "--threads", "1", "--seed", "5"],
    }
    found: dict[str, Any] = json.loads(run_python(tree, _COMMANDS, json.dumps(asked)).stdout.splitlines()[-1])
    assert Path(found["place"]).is_relative_to(tree) and not found["heavy"]
    assert found["run"][0] in (0, 7), found["run"]
    assert not extensions_of(found["modules"]) & gone
    told = {" ".join(each["words"]): each for each in found["told"]}
    for words in core:
        each = told[" ".join(words)]
        assert each["code"] == 0, each
    shipped = tomllib.loads(told["show dlrm_tiny --format toml"]["out"])
    assert not shipped.keys() & {section for extension in made for section in extension.sections}
    for words in absent:
        each = told[" ".join(words)]
        assert each["code"] == 8 and "a kind of measurement that this copy does not have" in each["err"], each
    for words in resumed:
        each = told[" ".join(words)]
        assert each["code"] == 8 and "not known to this copy" in each["err"], each
    for (verb,) in verbs:
        assert told[verb]["code"] == 2 and f"unknown command {verb!r}" in told[verb]["err"], told[verb]
        assert not re.search(rf"^  {verb} ", told["--help"]["out"], flags=re.MULTILINE)
    for record in (record for extension in made for record in extension.records):
        assert not re.search(rf"^{record} ", told["schema"]["out"], flags=re.MULTILINE)


def _write_set(folder: Path, kind: str) -> Path:
    """Write a set of a kind that nothing reads."""
    write_measured(folder, "throughput", [1.0] * 5)
    record = folder / "extra" / "run_set.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"kind": kind}))
    (folder / "extra" / "throughput.json").rename(folder / "extra" / f"{kind}.json")
    return folder


def _write_group(folder: Path, relation: str) -> Path:
    """Write two sets that belong together as a relation says, which readers need not know."""
    for name in ("a", "b"):
        write_measured(folder / name, "throughput", [1.0] * 5)
    members = [{"label": name, "folder": name, "values": {"runtime.threads": name}} for name in ("a", "b")]
    axes = [{"key": "runtime.threads", "values": ["a", "b"]}]
    content = group_content(relation, "table", members, kind="throughput", options={"num_steps": 10}, axes=axes)
    write_group(folder, content)
    return folder


def _write_study(folder: Path, kind: str) -> Path:
    """Write a study, which is shown without a chart where nothing draws one."""
    folder.mkdir()
    table = make_table("Misses", [("Cache", "share", "given"), ("Miss ratio", "share", "computed")], [(0.1, 0.5)])
    write_record(folder / "study.json", make_study(kind, "a test", None, tables=[table], parameters=(), findings=()))
    return folder


@pytest.mark.once("deletion of extensions")
def test_the_core_does_without_all_extensions(tmp_path: Path, data_root: Path) -> None:
    use_without(set(EXTENSIONS), tmp_path, data_root)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXTENSIONS)
def test_the_core_does_without_an_extension_and_those_that_need_it(
    name: str, tmp_path: Path, data_root: Path
) -> None:
    use_without(with_those_that_need({name}), tmp_path, data_root)


@pytest.mark.slow
def test_the_core_does_without_all_models_but_one(tmp_path: Path, data_root: Path) -> None:
    use_without(set(), tmp_path, data_root, delete_models)
