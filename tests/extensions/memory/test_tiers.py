"""`tiers`: a study of a trace, without torch; questions that have no answer are refused."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command import Command
from waiting import HANG_S

from harness.extensions.memory import pooling
from harness.extensions.memory.tier import TIERS, Tier
from harness.extensions.memory.trace import KeptTrace, keep_trace
from reference_models.data.traces.trace import AccessTrace
from rules.benchmarks.loader import load_benchmark


@pytest.fixture(autouse=True)
def few_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooling, "NUM_QUERIES", 5_000)
    monkeypatch.setattr(pooling, "NUM_UNLOADED", 500)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A trace of rm1_deeprecsys: t, as the commands here name it."""
    rows = np.random.default_rng(0).zipf(1.5, 8 * 50 * 80) % 40_000
    trace = AccessTrace(num_rows=(40_000,) * 8, num_bags=50, indices=rows, offsets=np.arange(0, 32_001, 80))
    about = {
        "source": "a test",
        "benchmark": "rm1_deeprecsys",
        "dataset_sha256": None,
        "seed": None,
        "row_bytes": 128,
        "definition_sha256": load_benchmark("rm1_deeprecsys").definition_sha256,
    }
    keep_trace(KeptTrace(trace=trace, about=about), tmp_path / "t")
    return tmp_path / "t"


@pytest.mark.slow
def test_a_cache_over_two_tiers_is_printed_and_kept(inside: Command, kept: Path) -> None:
    done = inside(
        "tiers", "rm1_deeprecsys", "--trace", "t", "--tier", "nand,3dxp", "--cache", "1%,5%,20%", "--rate", 200,
        "--hit-rate", "50%", "--fit-cache", "1MB", "--fleet", 1e6, "10MB", 500, "--watts", 300, 0.4, 12, "--verbose",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stdout.split())
    assert "AnandTech 11209" in words and "computed" in words and "simulated" in words
    (folder,) = (kept.parent / "results").iterdir()
    study = json.loads((folder / "study.json").read_text())
    assert (study["kind"], study["benchmark"], len(study["tables"])) == ("tiers", "rm1_deeprecsys", 6)
    assert "Miss ratio by cache size" in (folder / "report.html").read_text()


def test_a_terminal_is_shown_the_sentence_that_closes(inside: Command, kept: Path) -> None:
    done = inside("tiers", "--trace", "t", "--cache", "5%,20%")
    said = " ".join(done.stdout.split())
    assert done.returncode == 0 and "computes no saving of power: give --fleet and --watts" in said


def test_a_file_named_like_a_shipped_tier_stands_beside_it(inside: Command, kept: Path) -> None:
    (kept.parent / "nand.toml").write_text(TIERS["nand"].read_text().replace("value = 76e-6", "value = 77e-6"))
    done = inside("tiers", "--trace", "t", "--tier", "nand,nand.toml", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert [row[0] for row in json.loads(done.stdout)["tables"][0]["rows"]] == ["nand", "nand.toml"]


def test_pooling_says_by_how_much_the_switch_gains(inside: Command, kept: Path) -> None:
    done = inside(
        "tiers", "rm1_deeprecsys", "--trace", "t", "--tier", "cxl", "--devices", 4, "--pool", "host,device,switch",
        "--format", "json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    study = json.loads(done.stdout)
    host, _, switch = study["tables"][0]["rows"]
    assert host[9] == 80.0 * switch[9] == 80 * 128 * 8, "bytes over the host link"
    assert "3.89× as fast as Pond (rows summed by the host)" in study["findings"][-1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--cache", "0"), "--cache"), (("--cache", "5%,101%"), "101%"), (("--tier", "nnd"), "Did you mean 'nand'"),
        (("--tier", "mine.toml"), "mine.toml"), (("--pool", "hots"), "--pool"), (("--rate", "0"), "--rate"),
        (("--fleet", "100", "450"), "--fleet"), (("--fleet", "10", "0", "10"), "--fleet"),
        (("--fleet", "nan", "1GB", "10"), "--fleet"), (("--watts", "1", "1", "1"), "Give --fleet"),
        (("--fleet", "1", "1GB", "1", "--watts", "1", "0", "1"), "--watts"),
        (("--fleet", "1e12", "1", "1e-9"), "no unit"), (("--fleet", "1e12", "1GB", "1e-9"), "more than 1e+09 hosts"),
        (("--warm-up", "100%"), "--warm-up"), (("--row-size", "2GiB"), "at most 1,073,741,824"),
        (("--rate", "nan"), "--rate"), (("--rate", "inf"), "--rate"),
        (("--local", "5"), "no unit"),
        (("--placement", "cold"), "--placement"), (("--devices", "0"), "--devices"),
        (("--hit-rate", "2"), "--hit-rate"),
    ],
)  # fmt: skip
def test_questions_that_make_no_sense_are_refused(
    arguments: tuple[str, ...], said: str, inside: Command, kept: Path
) -> None:
    done = inside("tiers", "--trace", "t", *arguments)
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert not (kept.parent / "results").exists()


def test_a_trace_of_another_definition_is_refused(inside: Command, kept: Path) -> None:
    done = inside("tiers", "rm2_deeprecsys", "--trace", "t")
    assert done.returncode == 2 and "another definition (rm1_deeprecsys" in done.stderr
    assert inside("tiers", "--trace", "t").returncode == 0


def test_a_trace_of_a_file_needs_the_size_of_a_row(inside: Command, kept: Path) -> None:
    manifest = json.loads((kept / "manifest.json").read_text())
    content = {**manifest, "definition_sha256": None, "benchmark": None, "row_bytes": None}
    (kept / "manifest.json").write_text(json.dumps(content))
    done = inside("tiers", "--trace", "t")
    assert done.returncode == 2 and "--row-size" in done.stderr
    assert inside("tiers", "--trace", "t", "--row-size", "64").returncode == 0


def test_what_is_no_trace_is_refused(inside: Command, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("name,rows\n")
    file = inside("tiers", "--trace", "p.csv")
    assert file.returncode == 8 and "p.csv: a file" in file.stderr and "Errno" not in file.stderr
    (tmp_path / "t").mkdir()
    missing = inside("tiers", "--trace", "t")
    assert missing.returncode == 8 and "manifest.json" in missing.stderr
    (tmp_path / "t" / "manifest.json").write_text(json.dumps({"schema_version": 1, "tensors": {}}))
    foreign = inside("tiers", "--trace", "t")
    assert foreign.returncode == 8 and "manifest.json" in foreign.stderr


@pytest.mark.slow
def test_tiers_import_no_torch(kept: Path) -> None:
    code = (
        "import sys\nfrom harness.cli import main\n"
        "try:\n    main(['tiers', 'rm1_deeprecsys', '--trace', 't', '--cache', '5%'])\n"
        "finally:\n    print('TORCH' if 'torch' in sys.modules else 'NONE')\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=kept.parent, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "NONE", done.stderr


SLOW_VALUES = ("9223372036854775808.0", "1e30", "1e-30", "1e-308")


@pytest.mark.parametrize(
    "value", ["1e300", "5e-324", *(pytest.param(v, marks=pytest.mark.slow) for v in SLOW_VALUES)]
)
@pytest.mark.parametrize("member", Tier.__struct_fields__[1:])
def test_numbers_of_a_tier_are_refused_or_give_a_study(
    member: str, value: str, inside: Command, kept: Path, tmp_path: Path
) -> None:
    text = TIERS["cxl"].read_text()
    changed = re.sub(rf"(?m)(^\W?{member}\b[^,]+?\bvalue = )[^,\n]+", rf"\g<1>{value}", text)
    assert changed != text
    (tmp_path / "odd.toml").write_text(changed)
    done = inside(
        "tiers", "--trace", "t", "--tier", "odd.toml", "--devices", 4, "--pool", "host,switch", "--cache", "5%",
        "--rate", 200, "--format", "json",
    )  # fmt: skip
    is_refused = done.returncode == 2 and f"odd.toml: {member}.value: found" in done.stderr
    assert is_refused or done.returncode == 0, done.stderr
