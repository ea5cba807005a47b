"""One page of several machines: a table with prices, a strip each, and what each machine's own repeats show."""

import json
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bundle_builder import about_box, rewrite, write_box, write_bundle, write_runs, write_speed

from reports.page.content import gather_everything
from reports.page.report import render_report
from reports.results import reference_systems
from reports.results.provenance import repetition_key
from rules.records.codec import decode
from rules.records.kept.bundle import BUNDLE_FILE
from rules.records.run_set import RunSetRecord

pytestmark = pytest.mark.usefixtures("temporary")
RECORD = Path("extra") / "run_set.json"
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def bundles(tmp_path: Path) -> Iterator[Path]:
    """Two systems, of which the second is 2.5 times as fast; each has runs and throughput."""
    folder = tmp_path / "bundles"
    for number, (name, speed) in enumerate({"slow": 4_000.0, "fast": 10_000.0}.items()):
        about = about_box(number + 1)
        runs = write_runs(tmp_path / name / f"dlrm_tiny-{name}-20261121T030000Z", speed, seed=7 * number, **about)
        rate = write_speed(tmp_path / name / f"dlrm_tiny-{name}-speed-20261121T030000Z", speed / 5, **about)
        write_bundle(folder / f"{name}.zip", runs, rate)
    yield folder
    reference_systems.close_systems()


def text_of(page: Path) -> str:
    return " ".join(re.sub("<[^>]+>", " ", page.read_text()).split())


def machines_of(page: Path) -> list[str]:
    """The first cells of the tables of machines, from the first down."""
    tables = re.findall(r'<table[^>]*id="[^"]*machines-table".*?</table>', page.read_text(), re.DOTALL)
    return [name for table in tables for name in re.findall(r'<th scope="row">(\w+)', table)]


def test_a_folder_of_bundles_is_one_page_with_a_table_of_machines(
    command: Command, bundles: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    code, _, err = command("report", bundles, "-o", page, "--no-second-opinion")
    assert code == 0, err
    text = text_of(page)
    assert machines_of(page) == ["fast", "slow"] * 2, "of runs and of throughput, by speed"
    assert "Machines are ordered by speed; differences in speed below 30 % may be drift alone" in text
    assert "AMD EPYC, AuthenticAMD family 25 model 2, 2 cores, 2 threads" in text
    assert page.read_text().count("machines-chart") >= 2 and "Price per hour" not in text
    for name in ("fast", "slow"):
        assert f"{name}: fewer than 3 sets of this machine repeat one configuration" in text
    assert not list(Path(tempfile.gettempdir()).iterdir())


def test_prices_of_systems_rank_by_what_training_costs(command: Command, bundles: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    prices = ("--price-per-hour", "fast=5USD", "--price-per-hour", "slow=1USD")
    code, _, err = command("report", bundles, "-o", page, "--no-second-opinion", *prices)
    assert code == 0, err
    text = text_of(page)
    assert machines_of(page)[:2] == ["slow", "fast"]
    assert "Machines are ordered by cost to train (prices as given)" in text
    assert "5 USD" in text and "1 USD" in text
    scores = [json.loads(command("report", bundles / f"{name}.zip", "--format", "json", "--no-second-opinion")[1])
              for name in ("slow", "fast")]  # fmt: skip
    means_s = [found["configurations"][0]["olympic_mean_s"] for found in scores]
    costs = [mean_s / 3600 * price for mean_s, price in zip(means_s, (1, 5), strict=True)]
    assert costs[0] < costs[1] and all(f"{cost:,.4g}" in text for cost in costs)
    assert f"; cheapest to train: slow, {costs[0]:,.4g} USD" in text
    code, _, err = command("report", bundles, "-o", page, "--price-per-hour", "fats=5")
    assert code == 2 and "fats" in err


@pytest.mark.slow
def test_bundles_stand_beside_ones_own_sets_and_one_bundle_alone(
    command: Command, bundles: Path, tmp_path: Path
) -> None:
    mine = write_runs(tmp_path / "mine", 6_000.0, seed=21, **about_box(17))
    page = tmp_path / "page.html"
    assert command("report", mine, bundles / "fast.zip", "-o", page, "--no-second-opinion")[0] == 0
    assert machines_of(page) == ["fast", "box"]
    shutil.copytree(mine, bundles / "mine")
    assert command("report", bundles, "-o", page, "--no-second-opinion")[0] == 0
    assert machines_of(page)[:3] == ["fast", "box", "slow"], "a folder's own sets stay"
    assert command("report", bundles / "fast.zip", "-o", page, "--no-second-opinion")[0] == 0
    assert machines_of(page) == [], "one machine needs no table of them"


def _edit(members: dict[str, bytes]) -> None:
    members["system.toml"] += b"\n"


def test_a_file_that_is_no_bundle_is_no_log_either(command: Command, bundles: Path, tmp_path: Path) -> None:
    cut = bundles / "fast.zip"
    cut.write_bytes(cut.read_bytes()[:-30])
    code, _, err = command("report", cut, "-o", tmp_path / "page.html")
    assert code == 8 and "found no ZIP archive that can be read" in err and not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("change", ["edited", "noisy"])
def test_a_bundle_that_is_none_stops_the_page(change: str, command: Command, bundles: Path, tmp_path: Path) -> None:
    if change == "edited":
        rewrite(bundles / "slow.zip", _edit)
    else:
        write_box(bundles / "slow.zip", tmp_path / "noisy", spread=0.08)
    page = tmp_path / "page.html"
    code, _, err = command("report", bundles, "-o", page)
    said = "system.toml: found a file of digest" if change == "edited" else "its speed varies by a CV of 6.3 %"
    assert code == 8 and said in err and not page.exists()


def test_archives_that_are_no_bundles_are_passed_over_in_a_folder(
    command: Command, bundles: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(bundles / "package.zip", "w") as archive:
        archive.writestr("result_0.txt", "hello")
    (bundles / "text.zip").write_text("hello")
    assert command("report", bundles, "-o", tmp_path / "page.html", "--no-second-opinion")[0] == 0
    assert BUNDLE_FILE not in (tmp_path / "page.html").read_text()


def test_two_machines_at_the_same_time_take_no_turns(command: Command, tmp_path: Path) -> None:
    """Equal seeds at equal moments: each drifts by itself, so that what drift may do is in the verdict."""
    sides = [write_runs(tmp_path / name, 1e4 + model, **about_box(model)) for name, model in (("a", 1), ("b", 17))]
    code, out, _ = command("compare", *sides, "--format", "json")
    (comparison,) = json.loads(out)["comparisons"]
    assert code == 0 and comparison["is_cross_system"] and comparison["is_paired"]
    assert not comparison["is_interleaved"] and comparison["is_one_after_the_other"]
    same = write_runs(tmp_path / "c", 10_100.0, **about_box(1))
    assert json.loads(command("compare", sides[0], same, "--format", "json")[1])["comparisons"][0]["is_interleaved"]


def test_sets_of_processors_that_are_called_alike_repeat_each_other_on_one_alone(tmp_path: Path) -> None:
    keys = {
        model: repetition_key(
            decode(write_runs(tmp_path / str(model), 1e4, **about_box(model)) / RECORD, RunSetRecord)  # type: ignore[arg-type]
        )
        for model in (1, 17)
    }
    again = decode(write_runs(tmp_path / "again", 2e4, seed=4, **about_box(1)) / RECORD, RunSetRecord)
    assert isinstance(again, RunSetRecord) and repetition_key(again) == keys[1] != keys[17]


def sets_of(work: Path, name: str, speeds: list[float], first: int, **about: Any) -> list[Path]:
    """Sets of one machine one after the other, of these speeds."""
    return [
        write_runs(work / f"{name}-{number}", speed, seed=2 * (first + number), **about)
        for number, speed in enumerate(speeds)
    ]


def test_each_machine_says_what_its_own_repeats_show(tmp_path: Path) -> None:
    """Sets of equal configuration: four of one machine that differ by 12 %, and two of another."""
    here = sets_of(tmp_path, "here", [10_000.0, 10_300.0, 11_200.0, 10_000.0], 0, **about_box(1))
    there = sets_of(tmp_path, "there", [20_000.0, 20_100.0], 10, **about_box(17))
    page = " ".join(
        re.sub("<[^>]+>", " ", render_report(gather_everything([*here, *there], second_opinion=False))).split()
    )
    assert "box (AuthenticAMD family 25 model 17): fewer than 3 sets of this machine repeat one configuration" in page
    (width,) = re.findall(
        r"box \(AuthenticAMD family 25 model 1\): 4 sets made within .*? two more are less than (\d+) % apart", page
    )
    assert 12 <= int(width) <= 60, "no narrower than two of the sets lie apart"
    alone = render_report(gather_everything(here, second_opinion=False))
    assert "machines-table" not in alone
