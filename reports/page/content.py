"""Gathers the contents of a report: all results, sweeps, profiles and studies (tables of computed or measured
numbers) at or below some paths, read and judged once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reports.comparison.among_published import refuse_own
from reports.comparison.sweep import SweepFacts, read_sweep_facts
from reports.facts.checkpoints import checkpoint_study
from reports.facts.profile import read_profiles
from reports.results.logs import gather
from reports.results.measured import find_measured
from reports.results.published import asked_table
from reports.results.records import read_run_set, read_study
from reports.results.reference_systems import find_system, require_references, system_of, with_alike
from reports.results.result import Result
from rules.errors import AbsentKindError
from rules.official.opinion import OnProgress
from rules.records.kept.published import PublishedTable
from rules.records.profile import ProfileRecord
from rules.records.run_set import RunSetRecord
from rules.records.study import StudyRecord
from rules.tree.inventory import Inventory, find_in_processes, take_inventory
from rules.tree.others import OtherSet
from rules.tree.result_set import real_path


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportContent:
    """Contents of a report: results, sweeps, profiles and studies (tables of computed or measured numbers).
    Measurements made by a sweep, except runs that train to a target quality, are only in `sweeps`, not in
    `results`."""

    results: Sequence[Result] = ()
    sweeps: Sequence[SweepFacts] = ()
    profiles: Sequence[ProfileRecord] = ()
    profile_sets: Sequence[RunSetRecord] = ()
    """Records of the run sets in which the profiles were made; a run set whose record cannot be read is left out."""
    studies: Sequence[StudyRecord] = ()
    others: Sequence[OtherSet] = ()
    """Result sets of MLPerf benchmarks that dlrmbench does not judge; the page states their number and does not show
    them."""
    published: PublishedTable | None = None
    """Table of published MLPerf results among which the report's results are ranked; None where no ranking was asked
    for."""

    @property
    def sets(self) -> tuple[Result, ...]:
        """Results that were read from training logs."""
        return tuple(result for result in self.results if result.is_logged)

    @property
    def measured(self) -> tuple[Result, ...]:
        """Measurements, such as throughput, that are in no sweep; runs that train to a target quality are not among
        them."""
        return tuple(result for result in self.results if not result.is_logged)

    @property
    def all_measured(self) -> tuple[Result, ...]:
        """Measurements, such as throughput, including those of sweeps' configurations; runs that train to a target
        quality are not among them."""
        swept = (row.result for sweep in self.sweeps for row in sweep.rows if not sweep.is_of_runs)
        return (*self.measured, *(found for found in swept if found is not None))


def gather_everything(
    paths: Sequence[Path | Inventory],
    *,
    second_opinion: bool = True,
    benchmark_file: Path | None = None,
    on_opinion: OnProgress | None = None,
    mtbf_s: float | None = None,
    reference: str | None = None,
    ruleset: str | None = None,
) -> ReportContent:
    """Read and judge, once, all results at or below `paths`.

    The official MLPerf checker is run only with `second_opinion`. While it runs, `on_opinion` is called with the
    number of its verdicts so far and their total number. `benchmark_file` defines a user's own benchmark. `ruleset`
    is the official round to judge by. If checkpoints were recorded, a study (table and findings) of them is added; it
    recommends an interval between checkpoints if `mtbf_s`, the mean time between failures in seconds, is given.
    `reference` is the name of a reference system or of the published MLPerf results. A reference system's comparable
    results are added last; the published results are added as a table.

    Raises InputError if there is nothing to read. Raises ReferenceSystemError if a reference system is unknown or has
    no comparable result, or if results are to be ranked among published ones but their benchmark is not MLPerf's.
    """
    table = asked_table(reference)
    reference = None if table is not None else reference
    places = (*paths, *(() if reference is None else (find_system(reference),)))
    inventories = [path if isinstance(path, Inventory) else take_inventory(path, benchmark_file) for path in places]
    holding = [found for found in inventories if found.result_sets or not found.holds_measurements]
    sets = gather(
        holding,
        second_opinion=second_opinion,
        benchmark_file=benchmark_file,
        on_opinion=on_opinion,
        ruleset=ruleset,
    )
    sweeps, absent = [], list[AbsentKindError]()
    for folder in (folder for found in inventories for folder in found.sweeps):
        try:
            sweeps.append(read_sweep_facts(folder, known=sets))
        except AbsentKindError as error:  # left out if there are other results
            absent.append(error)
    swept = {real_path(folder) for found in inventories for folder in found.sweeps}
    profiled = [(folder, "profile") for found in inventories for folder in found.measurements.get("profile", ())]
    profile_folders = [folder for folder, _ in _outside(swept, profiled)]
    profiles = read_profiles(profile_folders)
    # Damaged measurements are left out of the page.
    measured = (find_measured(folder, kind, []) for folder, kind in _outside(swept, find_in_processes(*inventories)))
    known = tuple(
        replace(result, index=index)
        for index, result in enumerate((found for found in measured if found is not None), start=len(sets))
    )
    files = {real_path(path): path for found in inventories for path in found.studies}
    studies = tuple(study for path in files.values() if (study := read_study(path)) is not None)
    if not (sets or sweeps or profiles or known or studies):
        if absent:
            raise absent[0]
        for found in inventories:
            found.require_result_sets()
    swept_rows = [replace(row.result, label=row.label) for each in sweeps for row in each.rows if row.result]
    made = checkpoint_study([*sets, *known, *(found for found in swept_rows if not found.is_logged)], mtbf_s)
    results = (*sets, *known)
    if reference is not None:
        shipped = [result for result in results if system_of(result)]
        results = with_alike([result for result in results if not system_of(result)], shipped)
    require_references([result for result in results if system_of(result)])
    if table is not None:
        refuse_own((*results, *swept_rows))
    others = {real_path(other.path): other for found in inventories for other in found.others}
    return ReportContent(
        published=table,
        results=results,
        sweeps=tuple(sweeps),
        profiles=profiles,
        profile_sets=tuple(filter(None, (read_run_set(folder, []) for folder in profile_folders[: len(profiles)]))),
        studies=studies if made is None else (*studies, made),
        others=tuple(others.values()),
    )


def _outside(sweeps: set[Path], found: Iterable[tuple[Path, str]]) -> list[tuple[Path, str]]:
    """Return the measurements in `found`, each a (folder, kind), without repetitions. Measurements inside one of the
    folders `sweeps` are left out, since the table of the sweep shows them."""
    distinct = {(real_path(folder), kind): (folder, kind) for folder, kind in found}
    return [entry for (place, _), entry in distinct.items() if sweeps.isdisjoint(place.parents)]
