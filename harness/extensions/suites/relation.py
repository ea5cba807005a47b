"""Make suites: for each of several benchmarks, two configurations to compare, base and new."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec.structs import replace as change

from harness.config.axes import Axis
from harness.config.run_config import Override
from harness.experiment.experiment import Configuration, Experiment
from harness.experiment.finish import FinishedStudy
from harness.experiment.relation import Relation
from harness.experiment.request import Request, RequestError
from harness.experiment.store import parts_of, read
from harness.extensions.suites.shown import SuiteFacts, read_suite_facts
from harness.extensions.suites.suite import Suite
from harness.foundation.errors import ExitCode
from harness.foundation.files import write_record
from harness.foundation.study import make_study
from harness.measure.kinds import Kind
from harness.run_sets.commands import split_command
from harness.run_sets.making import making_of
from reports.page.content import gather_everything
from reports.page.report import write_page
from reports.results.records import read_run_set
from rules.benchmarks.loader import load_benchmark
from rules.records.experiment import BASE, NEW, SIDES, ExperimentRecord, without_options
from rules.records.study import STUDY_FILE, Parameter

BENCHMARK_AXIS = "benchmark"
SIDE_AXIS = "side"
"""Keys by which a suite's configurations differ: the benchmark, and the side (base or new). The settings of the two
sides are further keys."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SuiteRelation(Relation):
    """Kind of experiment that a suite is. Its configurations are every benchmark in the two settings base and new,
    ordered by benchmark."""

    def benchmarks(self, request: Request) -> Sequence[str]:
        suite: Suite = request.asked
        return suite.benchmarks

    def overrides(self, request: Request) -> Sequence[Override]:
        suite: Suite = request.asked
        return [*request.overrides, *(each for side in SIDES for each in suite.settings[side])]

    def expand(self, request: Request, kind: Kind, options: Mapping[str, int]) -> Experiment:
        """Return the experiment of the requested suite: base and new configuration of every benchmark.

        Raises ConfigError, DefinitionError or HarnessError for what cannot be run, or cannot be compared.
        """
        suite: Suite = request.asked
        configurations: list[Configuration] = []
        repetitions = []
        alike: list[str] = []
        for number, name in enumerate(suite.benchmarks, start=1):
            configs = {
                side: kind.resolve(name, [*request.overrides, *suite.settings[side]], None) for side in (BASE, NEW)
            }
            base, new = configs[BASE].benchmark, configs[NEW].benchmark
            if not kind.is_comparable(base, new):
                raise RequestError(
                    f"{name}: the settings of base and new make two benchmarks ({base.definition_sha256[:12]}, "
                    f"{new.definition_sha256[:12]}), and times of two problems are not compared."
                )
            title = load_benchmark(name).name
            alike += [name] if configs[BASE].digest() == configs[NEW].digest() else []
            for side, config in configs.items():
                kind.check(config.workload)
                repetitions.append(kind.repetitions(config, request.runs))
                configurations.append(
                    Configuration(
                        label=f"{title}, {side}",
                        folder=f"{number:02d}-{title[:80]}-{side}",
                        config=config,
                        values={BENCHMARK_AXIS: title, SIDE_AXIS: side},
                    )
                )
        if alike and len(alike) < len(suite.benchmarks):  # if all are alike, the noise itself is measured
            raise RequestError(
                f"{', '.join(alike)}: base and new are one configuration, whose ratio would be noise alone. "
                "Set something else for one side, or leave it out."
            )
        return Experiment(
            request=replace(request, order="pairs"),
            kind=kind,
            options=options,
            relation=self.name,
            configurations=tuple(configurations),
            repetitions=max(repetitions),
            division=request.division,
            timeout_s=request.timeout_s,
            axes=tuple(_axis(key, configurations) for key in (BENCHMARK_AXIS, SIDE_AXIS)),
            name=_file_name(request.name or suite.name),
        )

    def why_misshapen(self, record: ExperimentRecord) -> str | None:
        sides = [each.values.get(SIDE_AXIS) for each in record.configurations]
        return None if sides == [*SIDES] * (len(sides) // 2) else "its configurations are not pairs of base and new"

    def write_pages(self, folder: Path) -> None:
        finish_suite(folder)

    def show(self, folder: Path, record: ExperimentRecord, form: str, problem: str) -> ExitCode:
        from harness.cli.shared.studies import show_finished

        done = finish_suite(folder)
        show_finished(done, folder, form)
        return done.code


SUITE = SuiteRelation(name="suite", word="suite", reads_as="pairs", prefix="suite", on_failure="leave_out")


def _axis(key: str, configurations: Sequence[Configuration]) -> Axis:
    """Return all values of a key in a suite's configurations, in the form in which a sweep states the values of a
    varied key."""
    texts = tuple(dict.fromkeys(each.values[key] for each in configurations))
    return Axis(key=key, values=texts, texts=texts)


def _file_name(text: str) -> str:
    """Return the name of a suite as a file name, with only characters that every file system takes."""
    return "".join(char if char.isascii() and (char.isalnum() or char in "_.-") else "-" for char in text)[:80]


_SILENT = ("-q", "--quiet")


def _say_next(facts: SuiteFacts, record: ExperimentRecord) -> str:
    """Return a sentence that proposes the next command after a suite; empty if there is nothing to propose. If a
    benchmark failed, the sentence is empty. If a benchmark has no clear verdict, the command is the same suite with
    twice the runs. If all verdicts are clear and throughput was measured, the command is the same suite with training
    to the target qualities."""
    words = split_command(record.command)
    if facts.failed or words[1:2] != ["suite"]:
        return ""
    verdicts = {row.comparison.verdict for row in facts.rows if row.comparison is not None}
    if verdicts & {"inconclusive", "no difference shown"}:
        more = [*without_options(words, ("-n", "--runs"), _SILENT), "-n", str(2 * facts.num_runs)]
        return f"Next, for narrower intervals: {shlex.join(more)}"
    if facts.kind != "throughput":
        return ""
    trained = [*without_options(words, ("--throughput", "-n", "--runs"), _SILENT), "--to-target"]
    return f"Next, to see whether the verdicts hold for the time to train: {shlex.join(trained)}"


def finish_suite(folder: Path) -> FinishedStudy:
    """Judge and compare base and new of every benchmark of a suite, and write the suite's study and page; return
    them."""
    gathered = gather_everything([folder])
    facts = read_suite_facts(folder, known=gathered.sets)
    sides = {side: [f"{key}={values[at]}" for key, values in facts.settings.items()] for at, side in enumerate(SIDES)}
    said = [(side, ", ".join(values)) for side, values in sides.items() if values]
    given: tuple[tuple[str, str | int], ...] = (
        *said,
        ("suite", facts.name),
        ("runs of each side", facts.num_runs),
        ("kind", facts.kind),
    )
    record = read(folder)
    study = make_study(
        SUITE.name,
        facts.title,
        None,
        tables=facts.tables,
        parameters=[Parameter(name=name, value=value, unit=None, source="given", note=None) for name, value in given],
        findings=[*facts.findings, *filter(None, [_say_next(facts, record)])],
        seed=facts.base_seed,
    )
    sets = (read_run_set(part, []) for part in parts_of(folder).values())
    study = change(study, made=making_of(record, next((each for each in sets if each is not None), None)))
    write_record(folder / STUDY_FILE, study)
    page = write_page(replace(gathered, studies=(study,)), folder)
    code = ExitCode.NOT_CONVERGED if facts.failed else ExitCode.DONE  # left out of the mean for any reason
    return FinishedStudy(study=study, page=page, code=code)
