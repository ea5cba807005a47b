"""Define a table of published MLPerf results: facts and scores computed from the logs of MLPerf's rounds, without the
logs."""

from typing import Annotated, Literal

from msgspec import Meta

from rules.records.codec import Count, Document, PositiveAmount, PositiveCount, Record, Sha256

Name = Annotated[str, Meta(min_length=1, max_length=200)]


class PublishedResult(Record, frozen=True, kw_only=True):
    """One published result of an MLPerf round: the submitter, the system, and the score that this harness computes
    from its logs."""

    benchmark: Name
    round: Annotated[str, Meta(pattern=r"^\d{1,2}\.\d$")]
    submitter: Name
    system: Name
    accelerator: Name | None
    """Accelerator that the result's system description names; None where it names none, as for CPUs."""
    num_accelerators: PositiveCount | None
    """Number of accelerators of the system: accelerators per node times nodes; None without accelerators, and where
    the description does not state it."""
    num_nodes: PositiveCount | None
    division: Literal["closed", "open"]
    availability: Annotated[str, Meta(max_length=100)]
    """Availability of the system in the words of its description, such as onprem or preview."""
    outcome: Literal["valid", "invalid"]
    """Verdict of this harness's rules on the result's logs."""
    minutes: PositiveAmount
    """Score of the result in minutes, computed from its logs: the Olympic mean of the times to train, multiplied by
    `rcp_factor`."""
    rcp_factor: PositiveAmount
    """Factor by which the test against reference convergence points (RCPs) scales the result's time; 1 where the test
    changes nothing, or where there are no RCPs."""
    num_runs: Count
    repository: Annotated[str, Meta(max_length=200)] | None
    """Name of MLPerf's repository that holds the result's logs; None where the folder's name names no round."""
    logs: Annotated[dict[Name, Sha256], Meta(max_length=1000)]
    """SHA-256 of each log of the result, by file name."""


class PublishedTable(Document, frozen=True, kw_only=True):
    """Table of published MLPerf results, sorted by benchmark, round, submitter and system (`score --format
    published`)."""

    results: Annotated[tuple[PublishedResult, ...], Meta(max_length=20_000)]
