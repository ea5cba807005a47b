"""Run sets with everything that a report may show, and the page as a parser sees it, for tests of `reports`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from log_builder import SEEDS, START_MS, Record, make_runs, with_record, write_set
from records_builder import read_data, run_content, run_set_content, system_part

from reports.page.content import gather_everything
from reports.page.report import render_report, write_whole
from rules.benchmarks.loader import load_benchmark
from rules.benchmarks.seeds import derive_seeds
from rules.logs import keys


def write_report(paths: Sequence[Path], output: Path, *, title: str | None = None) -> Path:
    """The page of everything at or below `paths`, as `dlrmbench report` writes it."""
    return write_whole(output, render_report(gather_everything(paths), title=title))


BEGAN_UTC = datetime.fromtimestamp(START_MS / 1e3, UTC).isoformat(timespec="milliseconds")
VOID = {"meta", "link", "input", "br", "wbr"}
OPTIONAL_END = {"td", "th", "tr", "tbody", "thead", "li"}


def seeded(runs: Sequence[Sequence[Record]]) -> tuple[int, Sequence[Sequence[Record]]]:
    """A base seed and the runs with its seeds: as they are where those are of 7, else of the first run's seed."""
    found = [next((record["value"] for record in run if record["key"] == keys.SEED), None) for run in runs]
    if found == SEEDS[: len(runs)] or not runs or not isinstance(found[0], int):
        return 7, runs
    seeds = derive_seeds(found[0], len(runs))
    return found[0], [with_record(run, keys.SEED, value=seed) for run, seed in zip(runs, seeds, strict=True)]


def write_run_set(
    root: Path,
    *,
    runs: Sequence[Sequence[Record]] | None = None,
    benchmark: str = "dlrm_tiny",
    interrupted: bool = True,
    changes: dict[str, Any] | None = None,
) -> Path:
    """A run set of our own below `root` with run_set.json and attempts; `changes` replaces run_set.json's members."""
    definition = load_benchmark(benchmark)
    runs = make_runs(definition) if runs is None else runs
    base_seed, runs = seeded(runs)
    write_set(root, definition, runs)
    logged = {one["key"]: one["value"] for one in runs[0]}
    content = run_set_content(
        name=root.name,
        created_utc=BEGAN_UTC,
        command=f"dlrmbench run {benchmark}",
        benchmark={"name": benchmark, "version": 1, "status": "own", "definition_sha256": "a" * 64},
        config={
            "train.global_batch_size": {"value": logged.get(keys.GLOBAL_BATCH_SIZE, 512), "source": "definition"},
            "runtime.threads": {"value": 2, "source": "option --threads"},
        },
        num_runs=len(runs),
        base_seed=base_seed,
        seeds=derive_seeds(base_seed, len(runs)),
        system=system_part() | {"provenance": {"submitter": "given (option)"}},
        environment={"python": "3.11.0"},
        preflight=[
            {
                "name": "governor",
                "value": "powersave",
                "status": "warning",
                "why": "Clocks vary.",
                "remedy": "Set it.",
            }
        ],
    ) | (changes or {})
    (root / "extra" / "run_set.json").write_text(json.dumps(content), encoding="utf-8")
    for index, records in enumerate(runs):
        write_attempt(root, index, 1 if interrupted and index == 0 else 0, **_as_logged(records))
    if interrupted:
        write_attempt(root, 0, 0, status="interrupted", reason="killed")
    return root


def _as_logged(records: Sequence[Record]) -> dict[str, Any]:
    """What an attempt's record says as its log does."""
    stops = [one["metadata"] for one in records if one["key"] == "run_stop"]
    reason = stops[-1].get("reason") if stops else None
    seed = next((one["value"] for one in records if one["key"] == "seed"), None)
    evaluations = [
        {"samples_count": 0, "duration_s": 0.0, "quality": one["value"]}
        for one in records
        if one["key"] == "eval_accuracy"
    ]
    status = "success" if reason is None else "not_converged"
    digests = [one["value"] for one in records if one["key"] == "dataset_sha256"]
    return {
        "seed": seed,
        "status": status,
        "reason": reason,
        "evaluations": evaluations,
        "read_data": [read_data(digest) for digest in digests],
    }


def write_attempt(root: Path, run: int, attempt: int, **changes: Any) -> None:
    folder = root / "extra" / f"run_{run}" / f"attempt_{attempt}"
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        **run_content(run_index=run, attempt=attempt, seed=SEEDS[run], peak_rss_bytes=2**30, started_utc=BEGAN_UTC),
        "blocks": [{"first_sample": i * 1000, "num_samples": 1000, "duration_s": 0.5} for i in range(4)],
        **changes,
    }
    (folder / "run.json").write_text(json.dumps(content), encoding="utf-8")


@dataclass
class Page(HTMLParser):
    """Elements, texts and attributes of a page as a browser's parser would meet them."""

    html: str
    elements: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    scripts: list[tuple[dict[str, str], str]] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)
    unclosed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.feed(self.html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID | OPTIONAL_END:
            self.unclosed.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID | OPTIONAL_END:
            assert self.unclosed[-1:] == [tag], f"</{tag}> closes {self.unclosed[-3:]}"
            self.unclosed.pop()

    def handle_data(self, data: str) -> None:
        last = self.unclosed[-1] if self.unclosed else ""
        if last == "script":
            self.scripts.append((self.elements[-1][1], data))
        elif last == "style":
            self.styles.append(data)
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]
