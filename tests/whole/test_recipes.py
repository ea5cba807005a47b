"""CONTRIBUTING.md: each recipe is followed in a copy of the product, touches what it says, and then works."""

import json
import re
import shutil
import tomllib
from compileall import compile_dir
from pathlib import Path

import pytest
from contributing import EXAMPLES, ROOT, TEXT, Tree, added_lines, apply_change, read_recipes
from dense_logistic import install, write_definition
from goldens import lay_data
from log_builder import make_records, make_runs, to_text, with_record, write_set
from measured_builder import write_measured
from own_order import ORDER, PLAN, STOP_RULE
from waiting import needs_two_cpus

from rules.benchmarks.loader import load_benchmark
from rules.logs import keys

RECIPES = read_recipes()
WRITTEN = {
    "rules/README.md",
    "tests/whole/cli_surface.txt",
    "harness/cli/README.md",
    "mine.toml",
    "reference_models/dense_logistic/model.py",
}
"""By commands of the document, or by the example's tests."""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A copy whose modules need not be compiled again in each copy of it."""
    made = Tree(tmp_path_factory.mktemp("compiled"))
    for package in ("harness", "reference_models", "reports", "rules"):
        compile_dir(made.folder / package, quiet=1)
    return made


@pytest.fixture
def tree(compiled: Tree, tmp_path: Path) -> Tree:
    return Tree(tmp_path / "tree", compiled.folder)


def test_the_document_has_a_recipe_for_each_thing_to_add() -> None:
    assert list(RECIPES) == [
        "A rule", "A benchmark", "A kind of data", "A metric", "A model", "An implementation",
        "A kind of measurement", "A companion of a process", "An extension", "What a kind shows of its own",
        "A study", "A verb", "A section of the page", "An output format",
    ]  # fmt: skip


def test_all_files_that_it_names_exist() -> None:
    made = {path for recipe in RECIPES.values() for path in recipe.shown}
    words = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", TEXT, flags=re.MULTILINE | re.DOTALL))
    names = {name for word in words for name in word.split() if "/" in name and name[0].isalpha() and "<" not in name}
    names |= set(re.findall(r"\]\(([^)]+)\)", TEXT))
    assert len(names) > 12
    assert {name for name in names - made if not (ROOT / name).exists()} == set()


@pytest.mark.parametrize("path", sorted({path for recipe in RECIPES.values() for path in recipe.shown}))
def test_what_is_shown_of_a_file_is_a_part_of_what_is_followed(path: str) -> None:
    shown = next(recipe.shown[path] for recipe in RECIPES.values() if path in recipe.shown)
    assert len(shown.splitlines()) <= 15
    assert shown in (EXAMPLES / path).read_text(encoding="utf-8")


def test_every_example_is_shown() -> None:
    shown = {path for recipe in RECIPES.values() for path in recipe.shown}
    assert {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.py")} == shown


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_names_the_files_that_it_touches(title: str) -> None:
    recipe = RECIPES[title]
    named = [*re.findall(r"`([\w./]+)`", TEXT), *recipe.shown, *recipe.changes]
    for path in (*recipe.shown, *recipe.changes):
        assert any(path == name or (name.endswith("/") and path.startswith(name)) for name in named), path


def test_a_change_that_fits_nowhere_or_twice_is_an_error() -> None:
    assert apply_change("a\nb\n", " a\n+c\n") == "a\nc\nb\n"
    assert apply_change("a\nb\n", "-a\n+c\n@@\n b\n+d\n") == "c\nb\nd\n"
    for content in ("b\n", "a\na\n"):
        with pytest.raises(AssertionError, match="expected once"):
            apply_change(content, " a\n+c\n")


@pytest.mark.slow
def test_a_rule(tree: Tree) -> None:
    recipe = RECIPES["A rule"]
    tree.follow(recipe)
    assert tree.touched() == {"rules/checks/run_log/timing.py", "tests/builders/rule_cases.py"}
    handbook, explain, cases = recipe.commands
    assert tree.run(handbook).returncode == 0
    assert tree.touched() == {*recipe.changes, "rules/README.md"}
    assert "TI199" in (tree.folder / "rules" / "README.md").read_text()
    explained = tree.run(explain)
    assert explained.returncode == 0 and "a run ends within a day" in explained.stdout, explained.stderr
    tested = tree.run(cases)
    assert tested.returncode == 0 and "3 passed" in tested.stdout, tested.stdout
    records = with_record(
        make_records(load_benchmark("dlrm_tiny"), num_evals=4),
        keys.RUN_STOP,
        time_ms=make_records(load_benchmark("dlrm_tiny"), num_evals=4)[-1]["time_ms"] + 90_000_000,
    )
    (tree.folder / "slow.txt").write_text(to_text(records))
    judged = tree.run("dlrmbench check slow.txt --no-second-opinion")
    assert judged.returncode == 3 and "TI199" in judged.stdout, judged.stderr


@pytest.mark.slow
def test_a_benchmark(tree: Tree, data_root: Path) -> None:
    show, plan, run = RECIPES["A benchmark"].commands
    assert tree.run(show).returncode == 0
    tree.change(RECIPES["A benchmark"])
    assert tree.touched() == set()
    planned = tree.run(plan, "--data", data_root, "--format", "json", "--no-measure")
    assert planned.returncode == 0, planned.stderr
    assert json.loads(planned.stdout)["benchmark"] == "mine"
    shown = tree.run("dlrmbench show ./mine.toml --format json")
    assert json.loads(shown.stdout)["quality"]["target"] == 0.7
    done = tree.run(run, "--data", data_root, "--seed", 1, "-q")
    assert done.returncode == 0 and "mine on" in done.stdout, done.stderr


@pytest.mark.long
def test_a_kind_of_data(tree: Tree, data_root: Path) -> None:
    recipe = RECIPES["A kind of data"]
    tree.follow(recipe)
    own = {name for name in tree.touched() if name.startswith("reference_models/data/preferences/")}
    assert tree.touched() - own == set(recipe.changes)
    text = tree.run("dlrmbench show dlrm_tiny --format toml").stdout
    before, _, after = text.partition("[data]")
    rest = after.partition("\n[train]")[2]
    definition = before.replace('name = "dlrm_tiny"', 'name = "liked"').replace("target = 0.905", "target = 0.6")
    data = """[data]
kind = "preferences"
name = "liked"
train_samples = 327680
eval_samples = 8192
num_dense = 2
num_embeddings = [10, 10]
seed = 1
parameters = { agreement = 0.9 }
"""
    (tree.folder / "liked.toml").write_text(f"{definition}{data}\n[train]{rest}")
    generate, run = recipe.commands
    made = tree.run(generate, "--data", data_root)
    assert made.returncode == 0, made.stderr
    verified = tree.run("dlrmbench data verify ./liked.toml", "--data", data_root)
    assert verified.returncode == 0 and "and the definition" in verified.stdout, verified.stderr
    done = tree.run(run, "--data", data_root, "--seed", 1, "-q")
    assert done.returncode == 0 and "1 of 1 reached the target" in done.stdout, done.stdout + done.stderr


@pytest.mark.long
def test_a_metric(tree: Tree) -> None:
    recipe = RECIPES["A metric"]
    tree.follow(recipe)
    assert tree.touched() == {*recipe.shown, *recipe.changes} and len(recipe.changes) == 3
    source = (ROOT / "tests" / "builders" / "dense_logistic.py").read_text()
    source = source.replace('name = "plain"\n', 'name = "plain"\n        metric = "average_precision"\n')
    (tree.folder / "mine.py").write_text(
        source.replace("parse=parse_model,", 'parse=parse_model, metric="average_precision",')
    )
    tree.environment["PYTHONPATH"] += f":{tree.folder / 'tests' / 'builders'}"
    definition = write_definition(tree.folder, target=0.5)
    text = definition.read_text().replace('model = "dense_logistic"', 'model = "mine"')
    definition.write_text(text.replace('metric = "roc_auc"', 'metric = "average_precision"'))
    words = ("--model", "mine.py:SPEC", "--seed", 1, "-q")
    done = tree.run("dlrmbench run", definition, "-n", 1, *words)
    assert done.returncode == 0 and "1 of 1 reached the target" in done.stdout, done.stdout + done.stderr
    (page,) = (tree.folder / "results").glob("logistic_tiny-*/report.html")
    assert "Average precision on the held-out split" in page.read_text()
    measured = tree.run("dlrmbench run", definition, "--quality", 2048, *words)
    assert measured.returncode == 0 and "Average precision" in measured.stdout, measured.stdout + measured.stderr


@pytest.mark.slow
def test_a_model(tree: Tree) -> None:
    recipe = RECIPES["A model"]
    tree.follow(recipe)
    folder = tree.folder / "reference_models" / "dense_logistic"
    shutil.copy(ROOT / "tests" / "builders" / "dense_logistic.py", folder / "model.py")
    assert len(added_lines(recipe.changes["reference_models/registry.py"])) == 1
    outside = {name for name in tree.touched() if not name.startswith("reference_models/dense_logistic/")}
    assert outside == {"reference_models/registry.py"}
    definition = write_definition(tree.folder)
    done = tree.run("dlrmbench run", definition, "-n", 1, "--implementation", "reference", "-q")
    assert done.returncode == 0 and "1 of 1 reached the target" in done.stdout, done.stdout + done.stderr
    (serve,) = recipe.commands
    done = tree.run(serve, "--queries", "fixed:2", "--percentile", 50, "--train", 2048, "-o", "served", "--verbose")
    assert done.returncode == 0 and "mean service time" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
def test_a_model_and_an_implementation_of_another_package(tree: Tree) -> None:
    (toml,) = [text for kind, text in RECIPES["A model"].blocks if kind == "toml"]
    lines: list[str] = []
    for group, points in tomllib.loads(toml)["project"]["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    tree.environment["PYTHONPATH"] += f":{install(tree.folder / 'site', *lines)}"
    definition = write_definition(tree.folder)
    shown = tree.run("dlrmbench show", definition, "--format", "json")
    assert shown.returncode == 0 and json.loads(shown.stdout)["size"]["num_parameters"] == 5, shown.stderr
    planned = tree.run("dlrmbench plan dlrm_tiny --implementation plain --no-measure")
    assert planned.returncode == 0, planned.stderr
    assert tree.touched() == set()


@pytest.mark.long
def test_an_implementation(tree: Tree, data_root: Path) -> None:
    recipe = RECIPES["An implementation"]
    tree.follow(recipe)
    assert tree.touched() == {"reference_models/dlrm/careful.py", "reference_models/dlrm/spec.py"}
    (run,) = recipe.commands
    done = tree.run(run, "--data", data_root, "--seed", 1, "-q")
    assert done.returncode == 0, done.stderr
    (log,) = (tree.folder / "results").rglob("result_0.txt")
    assert '"implementation", "value": "careful"' in log.read_text()


@needs_two_cpus
@pytest.mark.long
def test_a_kind_of_measurement(tree: Tree, data_root: Path) -> None:
    recipe = RECIPES["A kind of measurement"]
    tree.follow(recipe)
    (registry,) = recipe.changes
    assert tree.touched() == {*recipe.shown, registry}
    assert set(recipe.shown) == {"rules/records/copying.py", "harness/measure/copying.py"}
    assert len(added_lines(recipe.changes[registry])) == 1
    (run,) = recipe.commands
    for name in ("base", "new"):
        done = tree.run(run, "--data", data_root, "--name", name, "--seed", "1")
        assert done.returncode == 0 and "Copy rate" in done.stdout, done.stderr
        assert done.stderr.count("B/s") == 5
    base, new = (next((tree.folder / "results").glob(f"*-{name}-*")) for name in ("base", "new"))
    record = json.loads((base / "extra" / "copying.json").read_text())
    record["processes"] = [
        {**process, "bytes_per_s": 4e9 + index} for index, process in enumerate(record["processes"])
    ]
    (base / "extra" / "copying.json").write_text(json.dumps(record))
    for process in record["processes"]:
        process["bytes_per_s"] *= 1.25
    (new / "extra" / "copying.json").write_text(json.dumps(record))
    compared = tree.run(f"dlrmbench compare {base} {new}")
    assert compared.returncode == 0 and "Better: Copy rate 1.25x" in compared.stdout, (
        compared.stdout + compared.stderr
    )
    document = json.loads(tree.run(f"dlrmbench compare {base} {new} --format json").stdout)
    (factor,) = document["comparisons"][0]["factors"]
    assert (factor["factor"], factor["unit"], round(factor["ratio"], 6)) == ("copying", "B/s", 1.25)
    # The same parts as any other kind's, without a line in reports.
    assert tree.run("dlrmbench report results -o page.html").returncode == 0
    page = (tree.folder / "page.html").read_text()
    assert 'id="copying"' in page and "Copying alone" in page and "5.00 GB/s" in page
    assert page.count('class="spots') > 0 and "Copy rate of every process" in page
    assert "Against the baseline" in page and "1.25" in page
    for part in ("Every process", "Noise and environment", "Systems and configurations", "Reproduce and verify"):
        assert f">{part}</h2>" in page
    tree.follow(RECIPES["What a kind shows of its own"])
    assert tree.touched() == {*recipe.shown, registry, "reports/kinds/copying.py"}
    assert tree.run("dlrmbench report results -o page.html").returncode == 0
    page = (tree.folder / "page.html").read_text()
    assert "read once and written once" in page and "<dt>Copy rate</dt>" in page
    resumed = tree.run(f"dlrmbench resume {new} -q")
    assert resumed.returncode == 0, resumed.stderr
    assert "copying" in tree.run("dlrmbench history results").stdout
    assert tree.run(f"dlrmbench diff {base} {new}").returncode == 0


@pytest.mark.long
@needs_two_cpus
def test_a_kind_of_measurement_is_swept_and_paired_by_the_command_and_by_python(tree: Tree, data_root: Path) -> None:
    tree.follow(RECIPES["A kind of measurement"])
    swept = tree.run("dlrmbench sweep dlrm_tiny --axis runtime.threads=1,2 --copying 65536 -q --data", data_root)
    assert swept.returncode == 0 and "Copy rate" in swept.stdout, swept.stderr
    (tree.folder / "ask.py").write_text(_ASK_FOR_COPIES.format(data=str(data_root)))
    asked = tree.run("python ask.py")
    assert asked.returncode == 0 and "copying" in asked.stdout, asked.stderr
    pair = Path(asked.stdout.split()[-1])
    assert {path.parts[-3] for path in (tree.folder / pair).glob("*/extra/copying.json")} == {"base", "new"}
    (tree.folder / pair / "new" / "extra" / "copying_4" / "measured.json").unlink()
    assert tree.run("dlrmbench resume", pair, "-q").returncode == 0
    assert (tree.folder / pair / "new" / "extra" / "copying_4" / "measured.json").exists()


@pytest.fixture
def extended(tree: Tree) -> Tree:
    """A copy with the made-up extension and its page."""
    tree.follow(RECIPES["An extension"])
    (tree.folder / "harness" / "extensions" / "sorting" / "README.md").write_text("# sorting\n\nAn example.\n")
    return tree


def write_sorted(folder: Path) -> Path:
    """Write a set of the made-up extension's kind."""
    write_measured(folder, "throughput", [1.0] * 5, options={"num_values": 1000})
    record = folder / "extra" / "run_set.json"
    record.write_text(record.read_text().replace('"kind": "throughput"', '"kind": "sorting"'))
    processes = [{"num_values": 1000, "values_per_s": 1e6 + index} for index in range(5)]
    (folder / "extra" / "throughput.json").unlink()
    (folder / "extra" / "sorting.json").write_text(json.dumps({"schema_version": 1, "processes": processes}))
    return folder


_IMPORTED = """
import sys
from harness.cli import main
try:
    main(sys.argv[1:])
finally:
    of_sorting = [name for name in sys.modules if name.startswith("harness.extensions.sorting.")]
    print("IMPORTED", *sorted(name.rpartition(".")[2] for name in of_sorting))
"""


@pytest.mark.slow
def test_an_extension(extended: Tree) -> None:
    recipe = RECIPES["An extension"]
    assert extended.touched() == {
        *recipe.shown,
        "rules/extensions.py",
        "harness/extensions/sorting/__init__.py",
        "harness/extensions/sorting/README.md",
    }
    assert len(added_lines(recipe.changes["rules/extensions.py"])) == 1
    limit, _, tests = recipe.commands
    done = extended.run(limit)
    assert (done.returncode, done.stdout) == (0, "8529 comparisons, computed\n"), done.stderr
    held = extended.run(tests, "-k", "not does_without")
    assert held.returncode == 0, held.stdout
    (extended.folder / "imported.py").write_text(_IMPORTED)
    benchmark = load_benchmark("dlrm_tiny")
    write_set(extended.folder / "trained", benchmark, make_runs(benchmark))
    write_sorted(extended.folder / "sorted")
    for words, imported in (
        ("--help", "extension"),
        ("list", "extension"),
        ("check trained --no-second-opinion", "extension"),
        ("report trained --no-second-opinion -o page.html", "extension"),
        ("history trained", "extension"),
        ("report sorted -o sorted.html", "extension records shown"),
        ("history sorted", "extension records"),
    ):
        done = extended.run(f"python imported.py {words}")
        assert done.stdout.splitlines()[-1] == f"IMPORTED {imported}", (words, done.stdout[-500:], done.stderr)
    page = (extended.folder / "sorted.html").read_text()
    assert "Sorting rate" in page and "Numbers that are sorted in a second." in page
    assert "sorting" in extended.run("dlrmbench schema").stdout
    assert "--sorting" in extended.run("dlrmbench run --help").stdout


_ENDS = """
import sys
from pathlib import Path
from scripted_commands import run_scripted_command
from scripted_workers import Ending, Moment, ScriptedWorkers

place, moment = Path.cwd() / "place", Moment()
axis = "train.opt_base_learning_rate=0.03,0.04,0.06"
for words, endings in (
    (f"ends dlrm_tiny --threads 1 --seed 5 --axis {axis} -n 1 -q", {1: Ending(raises=KeyboardInterrupt)}),
    ("resume latest", {}),
    ("report latest -o page.html", {}),
    ("compare", {}),
):
    moment.passed_s += 60
    workers = ScriptedWorkers(moment, endings, num_evals=1)
    if words.startswith("compare"):
        words = f"compare {' '.join(map(str, sorted((place / 'results/latest/').glob('0*'))))}"
    ended = run_scripted_command(words.split(), place, workers)
    print(ended.code, len(workers.launches), words.split()[0])
    print(ended.out, ended.err, file=sys.stderr)
"""


@pytest.mark.slow
def test_a_relation_of_an_extension_runs_resumes_and_is_reported_and_compared(
    extended: Tree, data_root: Path
) -> None:
    lay_data(data_root, extended.folder / "place")
    (extended.folder / "ends.py").write_text(_ENDS)
    extended.environment["PYTHONPATH"] += f":{extended.folder / 'tests' / 'builders'}"
    done = extended.run("python ends.py")
    assert done.stdout.splitlines() == ["130 2 ends", "0 1 resume", "0 0 report", "0 0 compare"], done.stderr
    (folder,) = (extended.folder / "place" / "results").glob("ends-*")
    record = json.loads((folder / "experiment.json").read_text())
    assert (record["relation"], record["reads_as"]) == ("ends", "table")
    assert record["axes"] == [{"key": "train.opt_base_learning_rate", "values": ["0.03", "0.06"]}]
    assert "Sweep: " in (extended.folder / "place" / "page.html").read_text()


_SECTION = """
from harness.config.run_config import read_set_option
from harness.measure.kinds import find_kind

def resolve(kind, *given):
    return find_kind(kind).resolve("./mine.toml", [read_set_option(text) for text in given], None)

sorted_, trained = resolve("sorting"), resolve("training")
assert sorted_.values()["sorting.order"] == {"value": "falling", "source": "definition"}
assert sorted_.benchmark.definition_sha256 == trained.benchmark.definition_sha256
assert "sorting" not in trained.tables and not any(key.startswith("sorting") for key in trained.values())
sorted_.tables["sorting"].clear()
assert sorted_.values()["sorting.order"] == {"value": "random", "source": "default"}
for kind, text in ("training", "order=rising"), ("sorting", "order=fallin"), ("sorting", "up=1"):
    try:
        resolve(kind, f"sorting.{text}")
    except Exception as error:
        print(type(error).__name__, error)
"""


@pytest.mark.slow
def test_a_section_of_an_extension_is_explained_overridden_and_recorded(extended: Tree) -> None:
    begun = extended.run("dlrmbench init mine.toml --like dlrm_tiny --set sorting.order=falling")
    assert begun.returncode == 0, begun.stderr
    text = (extended.folder / "mine.toml").read_text()
    assert "# How they lie before they are sorted. Allowed: falling, random, rising." in text
    assert "[sorting]" in text and 'order = "falling"' in text
    page = extended.run("dlrmbench schema keys_page").stdout
    assert "## [sorting]" in page and "`[sorting]`" in page.partition("## [benchmark]")[0]
    schema = json.loads(extended.run("dlrmbench schema dlrm_definition").stdout)
    assert schema["properties"]["sorting"] == {"anyOf": [{"$ref": "#/$defs/SortingConfig"}]}
    (extended.folder / "sections.py").write_text(_SECTION)
    done = extended.run("python sections.py")
    assert done.stdout.splitlines() == [
        "ConfigError --set sorting.order: sorting.order is only for --sorting.",
        "ConfigError --set sorting.order: sorting.order is 'fallin'. Did you mean 'falling'?",
        "ConfigError --set sorting.up: unknown key 'sorting.up'. Known: order.",
    ], done.stdout + done.stderr
    refused = extended.run("dlrmbench run ./mine.toml -n 1 --set sorting.order=rising")
    assert refused.returncode == 2 and "is only for --sorting" in refused.stderr, refused.stderr
    planned = extended.run("dlrmbench sweep ./mine.toml --sorting 1000 --axis sorting.order=random,rising --dry-run")
    assert planned.returncode == 0 and "rising" in planned.stdout, planned.stderr


@pytest.mark.slow
def test_a_made_up_extension_is_deleted_as_those_that_are_here(extended: Tree) -> None:
    done = extended.run(
        "python -m pytest -q -p no:cacheprovider tests/whole/test_extensions.py -k 'without_an_extension and sorting'"
    )
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout


@needs_two_cpus
@pytest.mark.long
def test_a_kind_of_an_extension_is_measured_and_compared(extended: Tree, data_root: Path) -> None:
    _, run, _ = RECIPES["An extension"].commands
    for name in ("base", "new"):
        done = extended.run(run, "--data", data_root, "--name", name, "--seed", "1")
        assert done.returncode == 0 and "Sorting rate" in done.stdout, done.stderr
    base, new = (next((extended.folder / "results").glob(f"*-{name}-*")) for name in ("base", "new"))
    compared = extended.run(f"dlrmbench compare {base} {new}")
    assert compared.returncode == 0 and "Sorting rate" in compared.stdout, compared.stdout + compared.stderr
    assert extended.run(f"dlrmbench resume {new} -n 6 -q").returncode == 0


_MEASURE = """
from pathlib import Path
from harness.config.catalog import load_entry
from harness.measure.quality import QualityJob, train_and_evaluate
from harness.measure.throughput import ThroughputJob, measure_throughput
from harness.run_sets.dataset import ensure_dataset
from reference_models.process.world import SingleProcess
from rules.benchmarks.loader import read_toml
entry = load_entry("dlrm_tiny")
data = ensure_dataset(entry.workload.data, Path({data!r}), num_threads=1)
path = entry.benchmark.path
members = dict(tables=read_toml(path), definition_path=str(path), data_dir=str(data), seed=1, folder=".")
job = ThroughputJob(**members, num_steps=1, warm_up_steps=1)
(process,) = measure_throughput(job, SingleProcess(), lambda event: None).processes
print(process.num_page_faults, process.energy is not None, process.peak_rss_bytes > 0)
job = QualityJob(**members, num_samples=4096)
(process,) = train_and_evaluate(job, SingleProcess(), lambda event: None).processes
print(hasattr(process, "num_page_faults"), process.energy is not None, process.peak_rss_bytes > 0)
"""


@pytest.mark.slow
def test_a_companion_of_a_process(tree: Tree, data_root: Path) -> None:
    recipe = RECIPES["A companion of a process"]
    tree.follow(recipe)
    assert tree.touched() == {*recipe.shown, *recipe.changes} and len(recipe.shown) == 1
    assert [len(added_lines(change)) for change in recipe.changes.values()] == [1, 1]
    (tree.folder / "measure.py").write_text(_MEASURE.format(data=str(data_root)))
    done = tree.run("python measure.py")
    assert done.returncode == 0, done.stderr
    # It is recorded where a record has the member, and those without it go on as before.
    assert re.fullmatch(r"\d+ True True\nFalse True True\n", done.stdout), done.stdout
    assert "num_page_faults" in tree.run("dlrmbench schema throughput").stdout


_ASK_FOR_COPIES = """
import json
from harness import api
base = api.run("dlrm_tiny", kinds={{"copying": 65536}}, settings={{"runtime.threads": 1}}, data={data!r})
pair = api.run(beside=base, settings={{"runtime.threads": 1}}, data={data!r})
print(json.loads((pair / "base" / "extra" / "run_set.json").read_text())["kind"], pair)
"""


@pytest.mark.slow
def test_an_order_and_a_stop_rule(tree: Tree, data_root: Path) -> None:
    for name, change in (("orders", ORDER), ("stopping", STOP_RULE)):
        path = tree.folder / "harness" / "experiment" / f"{name}.py"
        path.write_text(apply_change(path.read_text(), change))
    (tree.folder / "plan.py").write_text(PLAN.format(data=str(data_root)))
    tree.environment["PYTHONPATH"] += f":{tree.folder / 'tests' / 'builders'}"
    done = tree.run("python plan.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["rounds 3", "01 02 01 02 01 02"]


@pytest.mark.slow
def test_a_study_and_its_verb(tree: Tree) -> None:
    study, verb = RECIPES["A study"], RECIPES["A verb"]
    tree.follow(study)
    assert tree.touched() == {"harness/planning/batches.py"}
    tree.follow(verb)
    assert tree.touched() == {
        "harness/planning/batches.py",
        "harness/cli/batches.py",
        "harness/cli/__init__.py",
        "tests/builders/hostile_folders.py",
        "tests/builders/measuring.py",
    }
    helped = tree.run("dlrmbench --help")
    assert "batches" in helped.stdout.split("Data")[1], helped.stderr
    page, surface = verb.commands
    assert tree.run(page).returncode == 0 and tree.run(surface).returncode == 0
    assert (
        "dlrmbench batches  --size VALUE repeatable required"
        in (tree.folder / "tests" / "whole" / "cli_surface.txt").read_text()
    )
    promised = "-k 'promised or batches or section_of'"
    tests = tree.run(f"pytest tests/whole/test_surface.py tests/whole/test_docs.py {promised}")
    assert tests.returncode == 0, tests.stdout
    walked = tree.run("pytest tests/core/cli/test_hostile_folders.py tests/core/cli/test_measuring.py -k every_verb")
    assert "2 passed" in walked.stdout, walked.stdout
    printed = tree.run("dlrmbench batches dlrm_tiny --size 512 --size 1000")
    assert printed.returncode == 0, printed.stderr
    steps, dropped = divmod(load_benchmark("dlrm_tiny").data_samples("train_samples") or 0, 1000)
    assert "Steps (computed)" in printed.stdout and str(steps) in printed.stdout
    document = json.loads(tree.run("dlrmbench batches dlrm_tiny --size 1000 --format json").stdout)
    assert document["tables"][0]["rows"] == [[1000, steps, dropped]]
    assert [check["is_passed"] for check in document["checks"]] == [True]


@pytest.mark.slow
def test_a_section_of_the_page(tree: Tree) -> None:
    recipe = RECIPES["A section of the page"]
    tree.follow(recipe)
    assert tree.touched() == {"reports/page/sections/seeds.py", "reports/page/contents.py"}
    benchmark = load_benchmark("dlrm_tiny")
    write_set(tree.folder / "set", benchmark, make_runs(benchmark))
    done = tree.run("dlrmbench report set -o page.html --no-second-opinion")
    assert done.returncode == 0, done.stderr
    page = (tree.folder / "page.html").read_text()
    assert 'id="group1-seeds"' in page and "The seeds" in page


@pytest.mark.slow
def test_an_output_format(tree: Tree) -> None:
    recipe = RECIPES["An output format"]
    tree.follow(recipe)
    assert tree.touched() == {"reports/render/tsv.py", "reports/render/forms.py"}
    (surface,) = recipe.commands
    assert tree.run(surface).returncode == 0
    surfaces = [
        tree.folder / "tests" / "whole" / "cli_surface.txt",
        *tree.folder.glob("tests/extensions/*/surface.txt"),
    ]
    promised = [line for path in surfaces for line in path.read_text().splitlines()]
    verbs = {line.split()[1] for line in promised if "--format" in line and "|tsv" in line}
    assert verbs == {
        "check", "codesign", "compare", "diff", "history", "place", "place-tasks", "profile", "report", "score",
        "serve", "simulate", "suite", "sweep", "tiers", "trace", "tune", "usage",
    }  # fmt: skip
    benchmark = load_benchmark("dlrm_tiny")
    write_set(tree.folder / "set", benchmark, make_runs(benchmark))
    for command in ("score set", "history set", "report set --no-second-opinion"):
        printed = tree.run(f"dlrmbench {command} --format tsv")
        assert printed.returncode == 0, printed.stderr
        head, first = printed.stdout.splitlines()[:2]
        assert head.count("\t") == first.count("\t") > 5, printed.stdout
    refused = tree.run("dlrmbench list --format tsv")
    assert refused.returncode == 2 and "'table', 'json'" in refused.stderr
