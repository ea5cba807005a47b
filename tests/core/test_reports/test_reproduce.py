"""Reproduce: the commands and files of a set's page, which whoever copies them gets the same runs from."""

import html
import json
import re
import shlex
import shutil
import tomllib
from pathlib import Path

import pytest
from log_builder import make_runs
from pinned_definition import DEFINITION
from records_builder import read_data
from report_builder import write_run_set

from reports.page.content import ReportContent
from reports.page.head import provenance_of_result
from reports.page.report import render_report
from reports.results.logs import gather
from rules.benchmarks.loader import load_benchmark


def reproduced(root: Path) -> list[str]:
    """The texts to copy of a page of one set."""
    page = render_report(ReportContent(results=gather([root], second_opinion=False)))
    return [html.unescape(text) for text in re.findall(r"<pre data-copy[^>]*><code>(.*?)</code>", page, re.DOTALL)]


@pytest.mark.parametrize(
    ("command", "changes", "expected"),
    [
        ("dlrmbench run dlrm_tiny --threads 1", {}, "dlrmbench run dlrm_tiny --threads 1 -n 5 --seed 77"),
        ("dlrmbench run dlrm_tiny -n 5", {}, "dlrmbench run dlrm_tiny -n 5 --seed 77"),
        ("dlrmbench run dlrm_tiny -n 2 --seed 77", {}, "dlrmbench run dlrm_tiny -n 2 --seed 77 -n 5"),
        ("dlrmbench run dlrm_tiny --runs=5 --seed=77", {}, "dlrmbench run dlrm_tiny --runs=5 --seed=77"),
        (
            "dlrmbench run dlrm_tiny --until 0.05",
            {"until": {"width": 0.05, "min_runs": 5, "max_runs": 20}},
            "dlrmbench run dlrm_tiny --until 0.05 --seed 77",
        ),
    ],
)
def test_the_command_to_copy_makes_the_same_runs(
    tmp_path: Path, command: str, changes: dict[str, object], expected: str
) -> None:
    root = write_run_set(tmp_path / "set", changes={"command": command, "base_seed": 77, **changes})
    assert reproduced(root) == [expected]
    (result,) = gather([root], second_opinion=False)
    made = provenance_of_result(result).command
    assert made == (command if "--seed" in command else f"{command} --seed 77")


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ([{}] * 5, {"measured": "d"}),
        ([{"sha256": "e" * 64}] * 5, {"measured": "e", "recorded in the manifest, unlike the data": "d"}),
        (
            [{}, {"sha256": "e" * 64}, {}, {}, {}],
            {"measured": "de", "recorded in the manifest, unlike the data": "d"},
        ),
        ([{"scope": "blocks", "sha256": "e" * 64}] * 5, {"of blocks, measured": "e"}),
        ([None] * 5, {"recorded in the manifest, not computed by the runs": "d"}),
    ],
)
def test_the_digest_of_the_dataset_is_the_measured_one(
    tmp_path: Path, changes: list[dict[str, str] | None], shown: dict[str, str]
) -> None:
    root = write_run_set(tmp_path / "set")
    for index, change in enumerate(changes):
        copies = [] if change is None else [read_data("d" * 64) | change]
        for path in root.glob(f"extra/run_{index}/attempt_*/run.json"):
            path.write_text(json.dumps(json.loads(path.read_text()) | {"read_data": copies}))
    page = render_report(ReportContent(results=gather([root], second_opinion=False)))
    result = dict(re.findall(r"<dt>Dataset: sha256(.*?)</dt><dd><code>(.*?)</code>", page))
    assert {name.lstrip(", "): value for name, value in result.items()} == {
        name: ", ".join(letter * 64 for letter in letters) for name, letters in shown.items()
    }


@pytest.fixture
def defined(tmp_path: Path) -> Path:
    """A set of a benchmark that is not shipped, with its definition."""
    (tmp_path / "mine.toml").write_text(DEFINITION, encoding="utf-8")
    runs = make_runs(load_benchmark(str(tmp_path / "mine.toml")))
    root = write_run_set(tmp_path / "sets" / "a", runs=runs, changes={"command": "dlrmbench run mine.toml -n 5"})
    (root / "extra" / "definition.toml").write_text(DEFINITION, encoding="utf-8")
    return root


def test_a_definition_of_ones_own_is_there_to_be_copied(defined: Path) -> None:
    definition, command = reproduced(defined)
    assert tomllib.loads(definition) == tomllib.loads(DEFINITION)
    assert command.startswith("dlrmbench run mine.toml -n 5 --seed ")


def test_one_definition_of_several_sets_is_there_once(defined: Path) -> None:
    shutil.copytree(defined, defined.with_name("b"))
    texts = reproduced(defined.parent)
    assert sum("[benchmark]" in text for text in texts) == 1 and len(texts) == 3


@pytest.mark.parametrize("harm", ["a link out of the set", "not a definition", "huge", "no text", "of another"])
def test_no_other_file_is_shown_as_a_definition(defined: Path, tmp_path: Path, harm: str) -> None:
    copy = defined / "extra" / "definition.toml"
    copy.unlink()
    if harm == "a link out of the set":
        copy.symlink_to(tmp_path / "mine.toml")
    elif harm == "no text":
        copy.write_bytes(b"\xff\xfe\x00")
    else:
        texts = {
            "not a definition": "secret = 1\n",
            "huge": DEFINITION + "# long\n" * 20_000,
            "of another": DEFINITION.replace('"pinned"', '"another"'),
        }
        copy.write_text(texts[harm], encoding="utf-8")
    assert len(reproduced(defined)) == 1


def test_control_characters_of_a_definition_are_escaped(defined: Path) -> None:
    with (defined / "extra" / "definition.toml").open("a", encoding="utf-8") as file:
        file.write("# </script><img src=x>\u202e\n")
    definition, _ = reproduced(defined)
    assert definition.endswith("# </script><img src=x>\\u202e")


def test_what_files_and_variables_gave_is_beside_the_command(tmp_path: Path) -> None:
    given = {
        "train.global_batch_size": (1024, "file my cfg.toml"),
        "model.bottom_mlp": ([64, 16], "file my cfg.toml"),
        "data.name": ("a\u202eb\nc", "file my cfg.toml"),
        "data.bad": ([None, {}], "file my cfg.toml"),
        "runtime.threads": (2, "environment DLRMBENCH_RUNTIME_THREADS"),
        "runtime.device": ("cpu", "option --device"),
    }
    config = {key: {"value": value, "source": source} for key, (value, source) in given.items()}
    fields = {"submitter": {"value": "My 'Org'", "source": "environment DLRMBENCH_SUBMISSION_SUBMITTER"}}
    fields["cooling"] = {"value": "air", "source": "file my cfg.toml"}
    changes = {"command": "dlrmbench run dlrm_tiny -c 'my cfg.toml'", "config": config, "submission": fields}
    content, command = reproduced(write_run_set(tmp_path / "set", changes=changes))
    assert tomllib.loads(content) == {
        "train": {"global_batch_size": 1024},
        "model": {"bottom_mlp": [64, 16]},
        "submission": {"cooling": "air"},
        "data": {"name": "a\\u202eb c"},
    }
    *exports, last = command.split("\n")
    assert last.startswith("dlrmbench run dlrm_tiny -c 'my cfg.toml' -n 5 --seed ")
    assert [shlex.split(line) for line in exports] == [
        ["export", "DLRMBENCH_RUNTIME_THREADS=2"],
        ["export", "DLRMBENCH_SUBMISSION_SUBMITTER=My 'Org'"],
    ]
