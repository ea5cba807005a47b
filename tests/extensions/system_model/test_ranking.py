"""`plan-system --rank`: the order by what is modelled, and the error of the model where the truth is known."""

import json
from pathlib import Path

import pytest
from bundle_builder import about_box, rates_text, write_box, write_bundle, write_speed
from command import Command

from harness.config.run_config import Override, resolve
from harness.extensions.system_model.ranking import describe_error, describe_ranking, read_known_steps
from reports.results import reference_systems
from rules.benchmarks.loader import load_benchmark

TINY = load_benchmark("dlrm_tiny")
BENCHMARK = {
    "name": "dlrm_tiny", "version": TINY.version, "status": "own", "definition_sha256": TINY.definition_sha256,
}  # fmt: skip


def config_of(**changed: object) -> dict[str, dict[str, object]]:
    """A configuration as run_set.json has it."""
    overrides = [Override(key=key.replace("__", "."), value=value, source="here") for key, value in changed.items()]
    return resolve("dlrm_tiny", overrides).values()


def bundle(path: Path, speed: float, rate: float, **about: object) -> Path:
    """A system of these rates, where so many samples a second of dlrm_tiny's reference were measured."""
    known = {"benchmark": BENCHMARK, "config": config_of(), **about_box(), **about}
    return write_bundle(path, write_speed(path.with_suffix("") / "speed", speed, **known), rates=rates_text(rate))


def test_the_error_is_that_of_the_systems_whose_truth_is_known_by_hand() -> None:
    words = describe_error({"a": 1.0, "b": 4.0, "c": 9.0}, {"a": 2.0, "b": 4.0})
    assert "On the 2 systems where" in words and "0.50 to 1.00 of the measured step (geometric mean 0.71)" in words
    assert "orders 1 of 1 pair as measured" in words
    assert "orders 1 of 3 pairs as measured" in describe_error(
        {"a": 1.0, "b": 4.0, "c": 9.0}, {"a": 5.0, "b": 4.0, "c": 4.5}
    )
    assert "one system tells nothing about the order" in describe_error({"a": 1.0}, {"a": 2.0})
    assert "The model's error is not known: " in describe_error({"a": 1.0}, {"b": 2.0})


def test_steps_are_known_of_the_very_configuration_alone(tmp_path: Path) -> None:
    config = resolve("dlrm_tiny", [])
    batch_size = config.workload.train.global_batch_size
    same = bundle(tmp_path / "same.zip", 2_000.0, 1e9)
    threads = bundle(tmp_path / "threads.zip", 1_000.0, 1e9, config=config_of(runtime__threads=7))
    other = bundle(tmp_path / "other.zip", 2_000.0, 1e9, config=config_of(runtime__implementation="optimized"))
    problem = bundle(tmp_path / "problem.zip", 2_000.0, 1e9, benchmark=BENCHMARK | {"definition_sha256": "0" * 64})
    runs = write_box(tmp_path / "runs.zip", tmp_path / "runs", benchmark=BENCHMARK, config=config_of())
    known = read_known_steps(map(str, (same, threads, other, problem, runs)), config)
    reference_systems.close_systems()
    assert known == {
        "same": pytest.approx(batch_size / 2_000, rel=0.01),
        "threads": pytest.approx(batch_size / 1_000, rel=0.01),
        "runs": pytest.approx(batch_size / 10_000, rel=0.01),
    }


@pytest.mark.slow
def test_systems_are_ranked_by_time_and_by_cost(inside: Command, tmp_path: Path) -> None:
    (tmp_path / "known").mkdir()
    bundle(tmp_path / "known" / "slow.zip", 2_000.0, 1e9)
    bundle(tmp_path / "known" / "fast.zip", 4_000.0, 2e9)
    words = ("plan-system", "dlrm_tiny", "--rank", "known", "--format", "json")
    done = inside(*words)
    assert done.returncode == 0, done.stderr
    study = json.loads(done.stdout)
    assert [row[0] for row in study["tables"][0]["rows"]] == ["fast", "slow"]
    assert study["findings"][0] == "By modelled time to train, the least first: fast, slow."
    assert "On the 2 systems where this configuration was measured" in study["findings"][1]
    assert "orders 1 of 1 pair as measured" in study["findings"][1]
    names = [column["name"] for column in study["tables"][0]["columns"]]
    assert names[-2:] == ["Measured step", "Modelled over measured"]
    done = inside(*words, "--price-per-hour", "slow=1", "--price-per-hour", "fast=3")
    study = json.loads(done.stdout)
    assert [row[0] for row in study["tables"][0]["rows"]] == ["slow", "fast"]
    assert study["findings"][0] == "By modelled cost to train, the least first: slow, fast."


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--rank",), 2, "no reference system is known here"),
        (("--rank", "absent"), 8, "absent: no such directory"),
        (("--rank", "known", "--price-per-hour", "bx=1"), 2, "expected the name of a system, each once: box"),
        (("--rank", "known", "--price-per-hour", "box=1", "--price-per-hour", "box=2"), 2, "each once: box"),
        (("--rank", "known", "--price-per-hour", "box=-1"), 2, "expected a number above 0"),
        (("--rank", "known", "--price-per-hour", "1", "--price-per-hour", "2"), 2, "given 2 times, for 1 systems"),
        (("--with", "broken"), 2, "is no reference system"),
        (("--with", "known/box.zip", "--with", "known/box.zip"), 2, "twice"),
    ],
)
def test_what_does_not_go_together_is_refused(
    words: tuple[str, ...], code: int, said: str, inside: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference_systems, "FOLDER", tmp_path / "shipped")
    bundle(tmp_path / "known" / "box.zip", 2_000.0, 1e9)
    done = inside("plan-system", "dlrm_tiny", *words)
    assert done.returncode == code and said in " ".join(done.stderr.split()), done.stderr


def test_where_nothing_fits_the_sentence_begins_with_that() -> None:
    assert describe_ranking([], "time", ["small"]) == "Not ranked, since no run fits there: small."
