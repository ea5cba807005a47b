"""`init` begins definitions that are valid and explained; the page of all keys is made of the records."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import tomli_w
from click.testing import CliRunner
from places import ROOT

from harness.cli import cli
from harness.config.catalog import load_entry
from harness.config.reference import SECTIONS, list_keys, render_page
from reference_models.data.registry import examples, find_data
from rules.benchmarks.loader import list_workload_names, load_benchmark, read_definition, read_toml, shipped_names

PAGE = ROOT / "rules" / "benchmarks" / "README.md"
Call = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("kind", examples())
def test_a_definition_of_each_kind_is_valid_and_says_what_its_base_says(
    kind: str, command: Call, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    code, out, _ = command("init", path, "--kind", kind)
    assert code == 0 and f"dlrmbench plan {path}" in out
    assert (f"dlrmbench data prepare {path} --train FILE…" in out) == (kind == "criteo")
    assert ("First its data." in out) == (find_data(kind).generate is None)
    base = read_definition(load_benchmark(examples()[kind]).path)
    made = read_toml(path)
    if find_data(kind).is_prepared:  # of files of the user's: another dataset
        base["data"]["name"], base["quality"]["target"] = "mine", 0.6
    for section in set(base) - {"benchmark"}:
        assert made[section] == base[section], section
    assert (made["benchmark"]["name"], made["benchmark"]["status"]) == ("mine", "own")
    assert load_entry(path).workload.data.kind == kind


def test_what_closed_allows_is_kept_whatever_its_form(command: Call, tmp_path: Path) -> None:
    tables = read_definition(load_benchmark("dlrm_tiny").path)
    tables["benchmark"]["name"] = "like"
    tables["closed"] |= {
        "precision": {"one_of": ["fp32", 'a "b"']},
        "opt_base_learning_rate": {"min": 1e-9, "max": 0.5},
        "opt_sparse_base_learning_rate": {"same_as": "opt_base_learning_rate"},
        "is_so": True,
    }
    (tmp_path / "like.toml").write_text(tomli_w.dumps(tables))
    code, _, err = command("init", tmp_path / "mine.toml", "--like", tmp_path / "like.toml")
    assert code == 0, err
    assert read_toml(tmp_path / "mine.toml")["closed"] == tables["closed"]


def test_sections_that_may_be_left_out_are_kept_and_explained(command: Call, tmp_path: Path) -> None:
    tables = read_definition(load_benchmark("dlrm_tiny").path)
    tables["benchmark"]["name"] = "like"
    tables["id_map"], tables["checkpoint"] = {"kind": "hash", "budget": 0.5}, {"every": "10%"}
    (tmp_path / "like.toml").write_text(tomli_w.dumps(tables))
    code, _, err = command(
        "init", tmp_path / "mine.toml", "--like", tmp_path / "like.toml", "--set", "id_map.budget=0.2"
    )
    assert code == 0, err
    made = read_toml(tmp_path / "mine.toml")
    assert made["id_map"] == {"kind": "hash", "budget": 0.2} and made["checkpoint"] == {"every": "10%"}
    assert "# Share of a table's rows that remain" in (tmp_path / "mine.toml").read_text()


def test_another_model_is_put_on_the_data_of_a_benchmark(command: Call, tmp_path: Path) -> None:
    path, wukong = tmp_path / "mine.toml", read_definition(load_benchmark("wukong_small").path)
    code, _, err = command("init", path, "--like", "dlrm_small", "--data-of", "wukong_small")
    assert code == 0, err
    made = read_toml(path)
    assert made["data"] == wukong["data"] and made["data"]["sha256"]
    assert made["model"] == read_definition(load_benchmark("dlrm_small").path)["model"]
    for key in ("train_samples", "eval_samples"):
        assert made["closed"][key] == wukong["closed"][key]
    assert load_entry(path).workload.data == load_entry("wukong_small").workload.data
    code, _, err = command("init", tmp_path / "files.toml", "--like", "dlrm_small", "--data-of", "dlrm_kaggle")
    assert code == 0, err
    assert "train_samples" not in read_toml(tmp_path / "files.toml")["closed"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--data-of", "rm2_deeprecsys"), "data.kind is 'made_up', which is no dataset"),
        (("--data-of", "nope"), "unknown benchmark 'nope'"),
        (("--data-of", "dlrm_tiny", "--kind", "criteo"), "leave --kind out"),
        (("--like", "dlrmv4_small", "--data-of", "dlrm_tiny"), "expected 'click_sequence'"),
    ],
)
def test_data_that_cannot_be_shared_is_refused(
    arguments: tuple[str, ...], words: str, command: Call, tmp_path: Path
) -> None:
    code, _, err = command("init", tmp_path / "mine.toml", *arguments)
    assert code == 2 and words in err
    assert not (tmp_path / "mine.toml").exists()


@pytest.mark.parametrize("kind", examples())
def test_every_key_is_explained_and_what_is_left_out_is_a_comment(kind: str, command: Call, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    command("init", path, "--kind", kind)
    text = path.read_text()
    assert max(map(len, text.splitlines())) <= 118
    model = f"of `{load_benchmark(examples()[kind]).model}`"
    for name, variant, record in SECTIONS:
        read = (("data", "in files"), ("model", model))
        if name in ("benchmark", "quality", "score", "runtime") or (name, variant) in read:
            for key in list_keys(record):
                listed = re.search(rf"(?m)^# .+\n(# )?{key.name} =", text)
                assert listed or key.allowed.startswith("a table"), key.name


def test_comments_with_values_hold_the_defaults(command: Call, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    command("init", path, "--kind", "criteo")
    before = load_entry(path)
    path.write_text(re.sub(r"(?m)^# (\w+ = .+)$", r"\1", path.read_text()))
    after = load_entry(path)
    assert after.workload == before.workload
    assert after.benchmark.stated_quality == before.benchmark.stated_quality


def test_values_are_taken_and_changed_data_has_no_digest(command: Call, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    given = ("--like", "dlrm_tiny", "--name", "other", "--title", "One line", "--target", "0.75")
    settings = ("--set", "data.train_samples=4096", "--set", "model.top_mlp=[8, 1]")
    code, _, err = command("init", path, *given, *settings)
    assert code == 0, err
    entry = load_entry(path)
    assert (entry.benchmark.name, entry.benchmark.title, entry.benchmark.quality.target) == (
        "other",
        "One line",
        0.75,
    )
    assert (entry.workload.data.train_samples, entry.workload.data.sha256) == (4096, None)
    assert entry.workload.data.name == "other"
    assert entry.benchmark.closed["train_samples"].value == 4096
    assert entry.workload.model.top_mlp == (8, 1)


def test_a_key_inside_a_table_is_taken_and_the_others_stay(command: Call, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    settings = ("--set", "data.parameters.split=files", "--set", "data.parameters.min_frequency=3")
    code, _, err = command("init", path, "--kind", "criteo", *settings)
    assert code == 0, err
    parameters = read_definition(load_benchmark(examples()["criteo"]).path)["data"]["parameters"]
    changed = {**parameters, "split": "files", "min_frequency": 3}
    assert changed.pop("num_days") and read_toml(path)["data"]["parameters"] == changed  # the days of split = "days"
    assert " --eval FILE…" in command("init", tmp_path / "other.toml", "--like", path)[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "data.parameters.bais=1"), "Did you mean 'bias'"),
        (("--kind", "criteo", "--set", "data.parameters.split=thirds"), "data.parameters.split is 'thirds'"),
        (
            ("--kind", "criteo", "--set", "data.parameters.num_days=9", "--set", "data.parameters.split=files"),
            "data.parameters.num_days is 9, expected nothing, except with split = 'days'",
        ),
        (("--set", "data.seed.first=1"), "data.seed is 1, no table with a key 'first'. Expected data.seed=VALUE"),
        (("--name", "dlrm_tiny"), "is the name of a shipped benchmark"),
        (("--name", "No Name"), "lower case letters"),
        (("--target", "2"), "quality.target is 2.0"),
        (("--like", "dlrm_teeny"), "unknown benchmark"),
        (("--set", "train.batch_size=3"), "It is called train.global_batch_size"),
        (("--set", "model.bottom_mlp=[3]"), "a last width of model.embedding_dim"),
    ],
)
def test_what_no_definition_may_hold_is_refused_and_nothing_written(
    arguments: tuple[str, ...], message: str, command: Call, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    code, _, err = command("init", path, *arguments)
    assert (code, path.exists()) == (2, False)
    assert message in err


def test_a_new_definition_names_the_command_that_explains_every_key(command: Call, tmp_path: Path) -> None:
    """Who installed a package has no source tree to look into."""
    command("init", tmp_path / "mine.toml")
    (named,) = re.findall("'dlrmbench (.*?)' explains every key", (tmp_path / "mine.toml").read_text())
    assert command(*named.split())[1].rstrip() == render_page().rstrip()


def test_nothing_is_overwritten(command: Call, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("precious")
    code, _, err = command("init", path)
    assert (code, path.read_text()) == (2, "precious") and "Nothing is overwritten" in err
    assert command("init", tmp_path / "mine.json")[0] == 2


def test_a_terminal_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("harness.cli.init._is_terminal", lambda: True)
    path = tmp_path / "mine.toml"
    done = CliRunner().invoke(cli, ["init", str(path)], input="criteo\n\nMy clicks\n0.79\n")
    assert done.exit_code == 0, done.output
    tables = tomllib.loads(path.read_text())
    assert (tables["data"]["kind"], tables["benchmark"]["name"]) == ("criteo", "mine")
    assert (tables["benchmark"]["title"], tables["quality"]["target"]) == ("My clicks", 0.79)


@pytest.mark.parametrize(("name", "variant", "record"), SECTIONS)
def test_every_key_has_a_meaning(name: str, variant: str, record: type[object]) -> None:
    assert [key.name for key in list_keys(record) if len(key.meaning) < 10 or not key.allowed] == []


@pytest.mark.parametrize("name", [*shipped_names(), *list_workload_names()])
def test_every_key_of_a_shipped_definition_is_on_the_page(name: str) -> None:
    text, tables = PAGE.read_text(), read_definition(load_benchmark(name).path)
    for section in ("benchmark", "quality", "score", "model", "data", "train", "runtime"):
        for key in tables.get(section, {}) if name != "dlrmv4" else ():
            assert f"| `{key}` |" in text, (section, key)
