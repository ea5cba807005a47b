"""A calibration in another precision than the definition's own has its own runs and files."""

from pathlib import Path

from small_entry import small_entry

from harness.config.catalog import load_entry
from harness.extensions.calibration.calibrate import written_files
from harness.extensions.calibration.runs import in_precision, problem_digest


def test_a_calibration_in_bf16_keeps_its_runs_and_files_apart(tmp_path: Path) -> None:
    definition = small_entry(tmp_path).benchmark.path
    entry = load_entry(definition)
    in_bf16, in_fp32 = in_precision(entry, "bf16"), in_precision(entry, None)
    assert problem_digest(in_fp32) == problem_digest(entry) != problem_digest(in_bf16)
    names = [path.name for path in written_files(definition.parent, in_bf16)]
    assert names == ["calibration.bf16.md", "mine.bf16.calibration.json", "mine.bf16.rcps.json"]
    assert [path.name for path in written_files(definition.parent, in_fp32)][1:] == [
        "mine.calibration.json",
        "mine.rcps.json",
    ]
    for own, asked, expected in (("auto", None, "fp32"), ("bf16", None, "bf16"), ("bf16", "fp32", "fp32")):
        text = definition.read_text().replace("[runtime]", f'[runtime]\nprecision = "{own}"')
        definition.with_name("own.toml").write_text(text)
        made = in_precision(load_entry(definition.with_name("own.toml")), asked)  # type: ignore[arg-type]
        assert made.workload.runtime.precision == expected
        infix = ".fp32" if asked == "fp32" else ""
        assert written_files(definition.parent, made)[1].name == f"mine{infix}.calibration.json"
