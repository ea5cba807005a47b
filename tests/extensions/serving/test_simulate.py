"""`simulate`: the table of a simulated queue from times measured now, as a study with a page."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from inside import use_study_workers_inside
from made_sets import made_in
from waiting import HANG_S

from harness.foundation.errors import ExitCode
from rules.records.codec import decode
from rules.records.study import StudyRecord

Command = Callable[..., "subprocess.CompletedProcess[str]"]
ASKED = ("--queries", "fixed:8", "--percentile", "50", "--threads", "1", "--seed", "3", "-q", "-o", "out")
"""Half of the queries within a limit that a model of microseconds meets at some rate under any load."""


@pytest.mark.slow
def test_the_table_is_a_study_and_its_page_is_what_report_shows(
    inside: Command, data_root: Path, tmp_path: Path
) -> None:
    words = ("simulate", "dlrm_tiny", "--target-latency", "10s", *ASKED, "--data", data_root)
    done = inside(*words, "--format", "json")
    assert done.returncode == 0, done.stderr
    (folder,) = made_in(tmp_path / "out")
    study = decode(folder / "study.json", StudyRecord)
    assert isinstance(study, StudyRecord) and json.loads(done.stdout)["kind"] == study.kind == "queue"
    assert {column.origin for column in study.tables[0].columns} == {"given", "computed", "simulated"}
    assert "within 10000 ms at p50, simulated" in study.title and all(check.is_passed for check in study.checks)
    values = {parameter.name: parameter.value for parameter in study.parameters}
    assert values["limit"] == 10.0 and "overhead" not in values
    rates = [row[0] for row in study.tables[0].rows]
    assert rates == sorted(set(rates)) and len(rates) > 20
    shown = inside("report", folder / "study.json", "-o", "page.html")
    assert shown.returncode == 0, shown.stderr
    for page in (folder / "report.html", tmp_path / "page.html"):
        assert "limit 10.00 s" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("-n", "5", "--target-latency", "1s"), ExitCode.USAGE, "No such option"),
        (("--colocate", "2", "--target-latency", "1s"), ExitCode.USAGE, "No such option"),
        (("--scenario", "offline"), ExitCode.USAGE, "scenario offline has none"),
        pytest.param(
            ("--target-latency", "1us"),
            ExitCode.INCONCLUSIVE,
            "no rate meets the limit: a query alone takes",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_cannot_be_simulated_leaves_nothing(
    words: tuple[str, ...], code: int, said: str, inside: Command, data_root: Path, tmp_path: Path
) -> None:
    done = inside("simulate", "dlrm_tiny", *words, *ASKED, "--data", data_root)
    assert done.returncode == code and said in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()


def test_what_only_the_process_can_refuse_is_said_in_its_words(
    inside: Command, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_study_workers_inside(monkeypatch)
    done = inside("simulate", "dlrm_tiny", "--target-latency", "1s", *ASKED, "--train", 10**9, "--data", data_root)
    assert done.returncode == ExitCode.USAGE and done.stdout == ""
    (said,) = (line for line in done.stderr.splitlines() if not line.startswith("warning: "))
    assert said.startswith("dlrmbench: error: serve.train_samples is 1000000000, but the training split holds ")


@pytest.mark.slow
def test_the_command_itself_imports_no_torch_and_says_one_line(data_root: Path, tmp_path: Path) -> None:
    code = (
        "import sys\nfrom harness.cli import main\n"
        "try:\n    main(sys.argv[1:])\nfinally:\n    print('torch' in sys.modules)\n"
    )
    words = ["simulate", "dlrm_tiny", *ASKED, "--target-latency", "1us", "--data", str(data_root)]
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert (done.returncode, done.stdout) == (ExitCode.INCONCLUSIVE, "False\n"), done.stderr
    said = [line for line in done.stderr.split("\n") if line and not line.startswith("warning: ")]
    assert len(said) == 1
    assert list(tmp_path.iterdir()) == []
