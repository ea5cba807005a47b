"""Where torchrec is not installed, asking for it is refused in one line before anything is written."""

from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

import reference_models.spec
from harness.cli import main

RANKS = ["--implementation", "torchrec", "--ranks", "2"]


def find_spec_without_torchrec(name: str) -> ModuleSpec | None:
    return None if name in ("torchrec", "fbgemm_gpu") else ModuleSpec(name, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "dlrm_tiny", "--implementation", "torchrec"], "requirements/torchrec-cpu.txt"),
        (["run", "dlrm_tiny", *RANKS], "requirements/torchrec-cpu.txt"),
        (["run", "dlrm_tiny", "--ranks", "2"], "need --implementation torchrec"),
        (["run", "dlrm_tiny", *RANKS, "--throughput", "5"], "requirements/torchrec-cpu.txt"),
        (["sweep", "dlrm_tiny", "--axis", "runtime.implementation=reference,torchrec"], "torchrec-cpu.txt"),
        (["sweep", "dlrm_tiny", *RANKS[:2], "--axis", "runtime.ranks=1,2"], "torchrec-cpu.txt"),
        (["plan", "dlrm_tiny", "--implementation", "torchrec", "--no-measure"], "torchrec-cpu.txt"),
        (["profile", "dlrm_tiny", "--implementation", "torchrec"], "cannot be profiled. Use 'reference'"),
        (
            ["sweep", "dlrm_tiny", "--axis", "runtime.implementation=optimized,torchrec", "--profile"],
            "requirements/torchrec-cpu.txt",
        ),
    ],
)
def test_nothing_is_begun_without_torchrec(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(reference_models.spec, "find_spec", find_spec_without_torchrec)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as left:
        main(arguments)
    err = capsys.readouterr().err
    assert left.value.code == 2, err
    assert message in err
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
