"""Sets of processes that measured given values, as the harness leaves them."""

import json
from pathlib import Path
from typing import Any

from records_builder import (
    process_content,
    quality_content,
    quality_process,
    run_set_content,
    serve_content,
    serve_process,
    throughput_content,
)


def write_measured(folder: Path, kind: str, values: list[float], **about: Any) -> Path:
    """Write a set of processes that measured these values; `about` are members of its run_set.json."""
    contents = {
        "quality": lambda: quality_content([quality_process(auc=value) for value in values]),
        "serve": lambda: serve_content([serve_process(queries_per_s=value) for value in values]),
        "throughput": lambda: throughput_content(
            [process_content(num_samples=1000, duration_s=1000 / value) for value in values]
        ),
    }
    (folder / "extra").mkdir(parents=True)
    (folder / "extra" / f"{kind}.json").write_text(json.dumps(contents[kind]()))
    content = run_set_content(name=folder.name, kind=kind, seeds=list(range(len(values))), num_runs=len(values))
    (folder / "extra" / "run_set.json").write_text(json.dumps(content | about))
    return folder
