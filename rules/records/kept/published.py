"""A table of published results: facts of MLPerf's rounds, computed from their logs, without the logs."""

from typing import Annotated, Literal

from msgspec import Meta

from rules.records.codec import Count, Document, PositiveAmount, PositiveCount, Record, Sha256

Name = Annotated[str, Meta(min_length=1, max_length=200)]


class PublishedResult(Record, frozen=True, kw_only=True):
    """One result of a round: who measured what on what, and the score that its logs give here."""

    benchmark: Name
    round: Annotated[str, Meta(pattern=r"^\d{1,2}\.\d$")]
    submitter: Name
    system: Name
    accelerator: Name | None
    """None where the description has none, as of CPUs."""
    num_accelerators: PositiveCount | None
    """Per node times nodes; None without accelerators, and where the description does not say it."""
    num_nodes: PositiveCount | None
    division: Literal["closed", "open"]
    availability: Annotated[str, Meta(max_length=100)]
    """As the description says it, such as onprem or preview."""
    outcome: Literal["valid", "invalid"]
    """The verdict of the rules here on its logs."""
    minutes: PositiveAmount
    """Computed: the Olympic mean of the times to train, times `rcp_factor`."""
    rcp_factor: PositiveAmount
    """The factor of the reference convergence points; 1 where they change nothing, or there are none."""
    num_runs: Count
    repository: Annotated[str, Meta(max_length=200)] | None
    """The repository that has its logs, by name; None where the folder's name is none of a round."""
    logs: Annotated[dict[Name, Sha256], Meta(max_length=1000)]
    """The digest of each log, by its file's name."""


class PublishedTable(Document, frozen=True, kw_only=True):
    """Published results, sorted by benchmark, round, submitter and system (`score --format published`)."""

    results: Annotated[tuple[PublishedResult, ...], Meta(max_length=20_000)]
