"""A table of published results: facts of MLPerf's rounds, computed from their logs, without the logs."""

from typing import Annotated, Literal

from msgspec import Meta

from rules.records.codec import Count, Document, PositiveAmount, PositiveCount, Record, Sha256

Name = Annotated[str, Meta(min_length=1, max_length=200)]


class PublishedResult(Record, frozen=True, kw_only=True):
    """One result of a round: the submitter, the system, and the score that the logs give here."""

    benchmark: Name
    round: Annotated[str, Meta(pattern=r"^\d{1,2}\.\d$")]
    submitter: Name
    system: Name
    accelerator: Name | None
    """Accelerator of the system description; None where it names none, as for CPUs."""
    num_accelerators: PositiveCount | None
    """Accelerators per node times nodes; None without accelerators, and where the description does not state it."""
    num_nodes: PositiveCount | None
    division: Literal["closed", "open"]
    availability: Annotated[str, Meta(max_length=100)]
    """Availability in the words of the description, such as onprem or preview."""
    outcome: Literal["valid", "invalid"]
    """Verdict of these rules on the logs."""
    minutes: PositiveAmount
    """Computed score in minutes: the Olympic mean of the times to train, times `rcp_factor`."""
    rcp_factor: PositiveAmount
    """Factor of the reference convergence points; 1 where they change nothing, or there are none."""
    num_runs: Count
    repository: Annotated[str, Meta(max_length=200)] | None
    """Name of the repository of the logs; None where the folder's name names no round."""
    logs: Annotated[dict[Name, Sha256], Meta(max_length=1000)]
    """Digest of each log by file name."""


class PublishedTable(Document, frozen=True, kw_only=True):
    """Published results, sorted by benchmark, round, submitter and system (`score --format published`)."""

    results: Annotated[tuple[PublishedResult, ...], Meta(max_length=20_000)]
