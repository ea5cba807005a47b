"""Result sets to package, and packaging them."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from log_builder import Record, write_set
from records_builder import run_set_content

from harness.extensions.packaging.build import Package, PackageRequest, build_package
from harness.foundation.errors import HarnessError
from harness.system.code import code_sha256
from rules.benchmarks.loader import load_benchmark

TINY, SMALL, DCNV2 = (load_benchmark(name) for name in ("dlrm_tiny", "dlrm_small", "dlrm_dcnv2"))


def run_set_record(**changes: Any) -> dict[str, Any]:
    """run_set.json of a set to package."""
    content = run_set_content(
        command="dlrmbench run dlrm_tiny --threads 2 --submitter Example",
        config={
            key: {"value": value, "source": "definition"}
            for key, value in (
                ("runtime.implementation", "reference"),
                ("runtime.device", "cpu"),
                ("train.global_batch_size", 512),
            )
        },
        submission={
            "submitter": {"value": "Example", "source": "option"},
            "platform": {"value": "1x Example", "source": "option"},
        },
        environment={"python": "3.11.7", "commit": "abc", "packages": {"torch": "2.13.0+cpu", "triton": None}},
        code_sha256=code_sha256(),
    )
    return content | changes


def make_set(
    root: Path,
    benchmark: Any = TINY,
    runs: list[list[Record]] | None = None,
    system: str = "example",
    **changes: Any,
) -> Path:
    """One of our run sets, with an interrupted attempt and a page."""
    write_set(root, benchmark, runs, system=system)
    extra = root / "extra"
    record = run_set_record(**changes)
    record["benchmark"] = record["benchmark"] | {"name": benchmark.name}
    (extra / "run_set.json").write_text(json.dumps(record))
    (extra / "run_1" / "attempt_0").mkdir(parents=True)
    (extra / "run_1" / "attempt_0" / "log.txt").write_text("interrupted")
    (root / "report.html").write_text("page")
    return root


def request(sources: list[Path], output: Path, **changes: Any) -> PackageRequest:
    return PackageRequest(sources=tuple(sources), output=output, **{"submitter": "Example", **changes})


def package(sources: list[Path], output: Path, **changes: Any) -> Package:
    return build_package(request(sources, output, **{"second_opinion": False, **changes}))


def digests(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def refused(sources: list[Path], output: Path, **changes: Any) -> HarnessError:
    with pytest.raises(HarnessError) as caught:
        package(sources, output, **changes)
    assert not output.exists()
    assert not list(output.parent.glob(".dlrmbench-package-*"))
    return caught.value
