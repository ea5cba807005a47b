"""Where a machine stands beside reference systems: told beyond what drift may make, and no number within it."""

import math
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundle_builder import about_box, write_box, write_runs, write_speed
from drift_builder import NOISES, Scene, shares, simulate
from examples import examples

from reports.comparison.drift_tolerance import SET_OFFSET
from reports.comparison.standing import TOLERANCE, find_standings, is_alike, stand, strip_text
from reports.page.content import gather_everything
from reports.page.report import render_report
from reports.results import reference_systems
from reports.results.measured import read_measured
from reports.results.result import Repetition, Result
from reports.views.measurement import measured_blocks
from reports.views.score import finished_blocks, finished_document
from rules.records.codec import decode
from rules.records.run_set import RunSetRecord

pytestmark = pytest.mark.usefixtures("temporary")
NUM_CASES = examples(1000)
Bundle = Callable[..., Path]


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of bundles that are known, of which none is there yet."""
    folder = tmp_path / "bundles"
    monkeypatch.setattr(reference_systems, "FOLDER", tmp_path / "shipped")
    monkeypatch.setenv("DLRMBENCH_SYSTEMS", str(folder))
    yield folder
    reference_systems.close_systems()


def runs_of(folder: Path) -> Result:
    (result,) = gather_everything([folder], second_opinion=False).sets
    return result


@pytest.mark.parametrize(
    ("speed", "told", "ratio"),
    [
        (4_000.0, "slower", 0.4),
        (16_000.0, "faster", 1.6),
        (10_000.0, "about as fast", None),
        (8_700.0, "about as fast", None),
        (11_800.0, "about as fast", None),
    ],
)
def test_a_number_is_told_only_beyond_the_tolerance(
    speed: float, told: str, ratio: float | None, known: Path, tmp_path: Path
) -> None:
    write_box(known / "box.zip", tmp_path / "sets", 10_000.0)
    mine = runs_of(write_runs(tmp_path / "mine", speed, seed=3, **about_box(17)))
    (standing,) = find_standings(mine)
    assert (standing.system, standing.told) == ("box", told)
    assert standing.ratio == (None if ratio is None else pytest.approx(ratio, rel=1e-3))
    assert "AMD EPYC, AuthenticAMD family 25 model 1, 2 cores, 2 threads" in standing.words
    numbers = set(re.findall(r"\d\.\d\d", standing.words))
    assert numbers == (set() if ratio is None else {f"{ratio:.2f}"})
    assert strip_text([standing]).count("o") == (ratio is not None)
    assert not list(Path(tempfile.gettempdir()).iterdir()) and reference_systems.system_of(mine) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"config": {"runtime.implementation": {"value": "optimized", "source": "option"}}},
        {"config": {"runtime.precision": {"value": "bf16", "source": "option"}}},
        {"benchmark": {"name": "dlrm_tiny", "version": 2, "status": "own", "definition_sha256": "b" * 64}},
        {"division": "open"},
    ],
)
def test_only_like_is_held_with_like(changes: dict[str, Any], tmp_path: Path) -> None:
    """The number of threads alone may be another."""

    def record(name: str, **about: Any) -> RunSetRecord:
        found = decode(write_speed(tmp_path / name, 1.0, **about) / "extra" / "run_set.json", RunSetRecord)
        assert isinstance(found, RunSetRecord)
        return found

    threads = {"config": {"runtime.threads": {"value": 8, "source": "option"}}, "num_threads": 8}
    assert is_alike(record("mine"), record("threads", **threads))
    assert not is_alike(record("this"), record("other", **changes))


def test_other_threads_and_code_are_said(known: Path, tmp_path: Path) -> None:
    write_box(known / "box.zip", tmp_path / "sets", 10_000.0)
    mine = runs_of(write_runs(tmp_path / "mine", 4_000.0, seed=3, num_threads=8, **about_box()))
    (standing,) = find_standings(mine)
    assert standing.notes == ("8 threads here",) and standing.words.endswith("; 8 threads here")


def test_a_set_too_noisy_to_tell_has_no_number(known: Path, tmp_path: Path) -> None:
    write_box(known / "box.zip", tmp_path / "sets", 10_000.0)
    (standing,) = find_standings(runs_of(write_runs(tmp_path / "mine", 4_000.0, spread=0.9, seed=3, **about_box())))
    assert (
        standing.told == "not told"
        and standing.ratio is None
        and "not shown to be faster or slower" in standing.words
    )


def test_no_bundle_or_a_broken_or_noisy_one_leaves_the_line_out(known: Path, tmp_path: Path) -> None:
    mine = runs_of(write_runs(tmp_path / "mine", 4_000.0, seed=3, **about_box()))
    assert find_standings(mine) == ()
    known.mkdir()
    (known / "broken.zip").write_bytes(b"PK")
    write_box(known / "noisy.zip", tmp_path / "noisy", spread=0.08)
    assert find_standings(mine) == ()
    page = render_report(gather_everything([tmp_path / "mine"], second_opinion=False))
    assert "Where this machine stands" not in page


def test_a_run_and_its_page_have_the_line_and_the_strip(known: Path, tmp_path: Path) -> None:
    write_box(known / "box.zip", tmp_path / "sets", 10_000.0)
    folder = write_runs(tmp_path / "mine", 4_000.0, seed=3, **about_box(17))
    words = "0.40 times the samples/s of box (AMD EPYC"
    (part,) = finished_blocks(runs_of(folder), "here", folder, folder / "report.html")
    facts = {fact.name: fact.value for fact in part.blocks[0].facts}  # type: ignore[union-attr]
    assert words in facts["beside box"] and "o" in facts["strip"]
    (beside,) = finished_document(runs_of(folder), "here", folder, folder / "report.html").beside
    assert (beside.system, beside.told, beside.ratio) == ("box", "slower", pytest.approx(0.4, rel=0.02))
    page = render_report(gather_everything([folder], second_opinion=False))
    assert "Where this machine stands" in page and words in page
    speed = read_measured(write_speed(tmp_path / "speed", 4_000.0, **about_box(17)), "throughput")
    (part,) = measured_blocks(speed, tmp_path)
    facts = {fact.name: fact.value for fact in part.blocks[0].facts}  # type: ignore[union-attr]
    assert "2.00 times the samples/s of box" in facts["beside box"]


# A machine against itself at another hour.

OFFSETS: Mapping[str, Callable[[np.random.Generator], Any]] = {
    "uniform": lambda rng: rng.uniform(-SET_OFFSET, SET_OFFSET, 2),
    "extreme": lambda rng: rng.choice([-SET_OFFSET, SET_OFFSET], 2),
    "normal": lambda rng: SET_OFFSET * rng.standard_normal(2),
}
"""Offsets of two whole sets: up to 8 %, 8 % always, or with that standard deviation."""


@pytest.fixture
def theirs_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A set that is called so is a reference system's."""
    name = "reports.comparison.drift_tolerance.system_of"
    monkeypatch.setattr(name, lambda result: "box" if result.label == "theirs" else None)


def drawn(label: str, speed: float, cv: float, rng: np.random.Generator, known: Result) -> Result:
    """Five processes around a speed; everything else is as in a set that was read."""
    values = speed * np.exp(rng.normal(0, cv, 5))
    repetitions = tuple(
        Repetition(seed=int(rng.integers(1 << 31)), values={"throughput": float(value)}, steps={"throughput": 1e-6})
        for value in values
    )
    return Result(
        label=label, source="records", kind="throughput", quantities=("throughput",), benchmark="dlrm_tiny",
        repetitions=repetitions, asked=known.asked, measured=known.measured, place=known.place,
    )  # fmt: skip


@pytest.mark.parametrize("cv", [0.001, 0.03])
@pytest.mark.parametrize("offsets", OFFSETS)
def test_a_machine_is_not_told_from_itself_an_hour_later(
    offsets: str, cv: float, theirs_is_known: None, tmp_path: Path
) -> None:
    """Simulated: a bundle's processes vary by no more than a CV of 3 %."""
    known, rng = read_measured(write_speed(tmp_path / "set", 2_000.0), "throughput"), np.random.default_rng(5)
    told = 0
    for _ in range(NUM_CASES):
        mine, theirs = (
            drawn(label, 2_000.0 * np.exp(off), cv, rng, known)
            for label, off in zip(("mine", "theirs"), OFFSETS[offsets](rng), strict=True)
        )
        told += stand(mine, theirs, "box").told in ("faster", "slower")
    assert told <= 0.05 * NUM_CASES


@pytest.mark.slow
def test_no_factor_of_a_machine_is_told_from_itself_an_hour_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated: runs to the target, of a set and of one whose offset differs, of which every factor is compared."""
    name = "reports.comparison.drift_tolerance.system_of"
    monkeypatch.setattr(name, lambda result: "box" if result.label == "set 0" else None)
    found = shares(simulate(Scene(noise=NOISES["offsets 8 %"]), NUM_CASES, 7, is_described=False))
    assert found["any"].get("called", 0.0) <= 0.05, found


def test_a_machine_that_is_much_faster_is_told_at_any_offset(theirs_is_known: None, tmp_path: Path) -> None:
    """The tolerance does not hide everything."""
    known, rng = read_measured(write_speed(tmp_path / "set", 2_000.0), "throughput"), np.random.default_rng(6)
    for ours, its in product((-SET_OFFSET, SET_OFFSET), repeat=2):
        mine = drawn("mine", 2_000.0 * 1.7 * (1 + ours), 0.01, rng, known)
        assert stand(mine, drawn("theirs", 2_000.0 * (1 + its), 0.01, rng, known), "box").told == "faster"
    assert math.sqrt(2) * 2.326 * SET_OFFSET == pytest.approx(math.log1p(TOLERANCE), abs=0.005)
