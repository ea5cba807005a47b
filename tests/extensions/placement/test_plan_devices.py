"""`plan-devices`: devices that are not here, and what is no description of them."""

from pathlib import Path

import pytest

import reference_models.spec
from harness.cli import main


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["--device-memory", "8GB"], 2, "Missing option '--devices'"),
        (["--devices", "8", "--device-memory", "141"], 2, "'141' has no unit. Write it like 141GB or 96GiB."),
        (["--devices", "8", "--device-memory", "1e9"], 2, "'1e9' is not a number with a unit"),
        (["--devices", "8", "--device-memory", "0GB"], 2, "'0GB' must be from 1 byte to below 2^63."),
        (["--devices", "8", "--device-bandwidth", "0.4B/s"], 2, "'0.4B/s' must be from 1 byte to below 2^63."),
        (["--devices", "8", "--device-memory", "99999999TB"], 2, "'99999999TB' must be from 1 byte to below 2^63."),
        (["--devices", "8", "--device-memory", "9" * 400 + "GB"], 2, "must be from 1 byte to below 2^63."),
        (["--devices", "8", "--device-memory", "8GB/s"], 2, "'8GB/s' is not a number with a unit"),
        (["--devices", "8", "--device-bandwidth", "2"], 2, "'2' has no unit. Write it like 450GB/s or 4.8TB/s."),
        (["--devices", "8"], 8, "dlrmbench data prepare dlrm_kaggle --train FILE"),
    ],
)
def test_devices_that_are_not_described_whole_are_refused(
    arguments: list[str],
    exit_code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as left:
        main(["plan-devices", "dlrm_kaggle", *arguments])
    err = capsys.readouterr().err
    assert left.value.code == exit_code, err
    assert message in " ".join(err.split())


def test_without_torchrec_one_line_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reference_models.spec, "find_spec", lambda name: None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as left:
        main(["plan-devices", "dlrm_tiny", "--devices", "8"])
    err = capsys.readouterr().err
    assert left.value.code == 2 and "torchrec-cpu.txt" in err and len(err.splitlines()) == 1, err
    assert list(tmp_path.iterdir()) == []
