"""Compare simulated speed-ups and computed power with published figures, and say what causes the difference.

The published figures are those in the abstracts of two papers: PIFS-Rec (MICRO'24, arXiv 2409.16633) sums embedding
rows in the switch; software-defined memory (arXiv 2110.11489) saves power.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from harness.extensions.memory.fleet import PUBLISHED_POWER, Fleet, Hosts, count_hosts
from harness.extensions.memory.setups import PoolResult, Row, Setup, TierQuestion, say_rate
from harness.foundation.study import Columns, make_table
from reports.text.formatting import num_bytes, percent, plural
from rules.records.study import StudyTable

SPEEDUP = 3.89
"""Speed-up in the abstract of the paper PIFS-Rec over the CXL memory system Pond, where the host sums embedding
rows."""
OVER_BEACON = 2.03
"""Speed-up in the abstract of the paper PIFS-Rec over the near-memory accelerator BEACON."""
_LEAST_POWER = 0.05
"""Smallest saving of power in the abstract of the paper on software-defined memory (arXiv 2110.11489), as a share of
the power before."""
_SETTERS = {
    "host_reads_in_flight": "the number of reads that the host keeps in flight",
    "pool_reads_in_flight": "the number of reads that the pool keeps in flight",
    "read_latency_s": "the latency of a read",
    "reads_per_s": "the reads per second of a device",
    "switch_latency_s": "the latency of the switch",
    "host_link_bytes_per_s": "the bandwidth of the host's link",
}


class FleetRow(NamedTuple):
    """A fleet of serving hosts, with all embedding rows in DRAM, or with some in one slower memory behind one row
    cache."""

    label: str
    hosts: Hosts
    saved: float | None
    """Share of power saved, relative to the fleet with all rows in DRAM; None where no watts were given."""
    limit: str


def close(question: TierQuestion, said: Sequence[PoolResult], fleets: Sequence[FleetRow]) -> list[str]:
    """Compare the study's best speed-up, or its saving of power, with the published one, and say what causes the
    difference. If the study has no speed-up or saving, say why.

    Return the findings. If the study has a speed-up from summing rows in the switch, the findings on it come first.
    """
    has_pools = {"host", "switch"} <= {*question.pools}
    is_of_pools = has_pools or all(tier.has_switch for tier in question.tiers.values())
    claims = _close_pools(said, has_pools=has_pools) if is_of_pools else []
    if fleets or not claims:
        claims.append(_close_fleets(question.fleet, fleets, said) + _compare_tiers(said))
    return [f"{claim}." for claim in claims]


def _close_pools(said: Sequence[PoolResult], *, has_pools: bool) -> list[str]:
    """Return sentences that compare the simulated speed-up of summing embedding rows in the switch with the speed-ups
    published in the paper PIFS-Rec.

    They compare the switch with the accelerator BEACON, name the number on which the speed-up depends most, and
    compare the switch with the host. If the study has no speed-up of the switch, one sentence says why.
    """
    published = f"PIFS-Rec: {SPEEDUP}× as fast as Pond (rows summed by the host), {OVER_BEACON}× as fast as BEACON"
    switched = [each for each in said if each.pool == "switch" and each.gain is not None]
    if not switched:
        why = (
            "host and switch do not both answer this rate"
            if has_pools
            else "--pool host,switch simulates the speed-up over rows summed by the host"
        )
        why = why if any(each.setup.reads.rows.any() for each in said) else "nothing is remote"
        return [
            f"Published for {published} (other traces). This study has no speed-up to compare with PIFS-Rec's: {why}"
        ]
    best = max(switched, key=lambda each: each.gain or 0.0)
    assert best.gain is not None and best.gains is not None
    setup = best.setup
    ranges = f"{best.gains[0]:.2f}× to {best.gains[1]:.2f}× as {setup.name}'s parameters vary within their ranges"
    over = setup.speed_up("switch", "device") if "device" in setup.question.pools else None
    beacon = "BEACON, whose parts the abstract of PIFS-Rec does not give, is not simulated: --pool device is nearest"
    if over is not None:
        beacon = (
            f"Summing rows in the switch is {over:.2f}× as fast as summing rows in the devices, the design of this "
            "study that is most like BEACON (simulated)"
        )
    ours = (
        f"summing rows in the switch is {best.gain:.2f}× as fast as in the host ({setup.label}, simulated; {ranges})"
    )
    return [beacon, _say_setter(setup, best.gain), f"Published for {published} (other traces). Here {ours}"]


def _compare_tiers(said: Sequence[PoolResult]) -> str:
    """Return a sentence that compares the latency that the slowest and the fastest memory add to a query, as a ratio.
    Both memories have the same row cache, and rows are summed in the same place. Empty if fewer than two memories can
    be compared."""
    waiting = [each for each in said if each.wait_s]
    if not waiting:
        return ""
    best = min(waiting, key=lambda each: each.wait_s or 0.0)
    alike = [each for each in waiting if (each.pool, each.setup.cache) == (best.pool, best.setup.cache)]
    worst = max(alike, key=lambda each: each.wait_s or 0.0)
    if worst is best or not worst.wait_s or not best.wait_s:
        return ""
    factor = worst.wait_s / best.wait_s
    return f". {worst.setup.name} adds {factor:.1f} times as much latency to a query as {best.setup.name} (simulated)"


def _say_setter(setup: Setup, gain: float) -> str:
    """Name the number in the memory's file on which the switch's speed-up depends most: the one that changes the
    speed-up most when it is doubled."""
    effects = dict[str, tuple[float, float]]()
    for member in _SETTERS:
        quantity = getattr(setup.tier, member)
        if quantity is not None and quantity.value:
            doubled = setup.changed(**{member: 2 * quantity.value}).speed_up("switch")
            effects |= {} if not doubled else {member: (quantity.value, doubled)}
    if not effects:
        return (
            f"The switch's speed-up over the host depends on no single number in the parameter file of {setup.name}"
        )
    most = max(effects, key=lambda member: abs(np.log(effects[member][1] / gain)))
    value, doubled = effects[most]
    number = f"{_SETTERS[most]} ({value:g} in the parameter file of {setup.name})"
    return (
        f"The switch's speed-up over the host depends most on {number}: with this value doubled to {2 * value:g}, "
        f"the switch is {doubled:.2f}× as fast as the host"
    )


def count_fleets(fleet: Fleet, setups: Sequence[Setup], num_rows: int, kept_bytes: int = 0) -> list[FleetRow]:
    """Count the hosts of several fleets, each at the highest query rate that its hosts can answer: one fleet with all
    rows in DRAM, and one fleet for each slower memory and row cache.

    `num_rows` is the number of embedding rows; if rows differ in size, it is their total size in units. `kept_bytes`
    is the size of the tables that stay in DRAM whole.
    """
    question = setups[0].question
    before = count_hosts(fleet, num_rows * question.row_bytes, fleet.host_rate, 0)
    found = [FleetRow("all in DRAM", before, None, "the host")]
    for setup in setups:
        below = kept_bytes + question.local_bytes + setup.cache.num_rows * question.row_bytes
        in_dram = min(num_rows * question.row_bytes, below)
        limit = setup.limit
        highest = fleet.host_rate if limit is None else 1 / limit.busy_s
        hosts = count_hosts(fleet, in_dram, min(highest, fleet.host_rate), question.num_devices)
        saved = None if hosts.watts is None or not before.watts else 1 - hosts.watts / before.watts
        by = limit.name if limit is not None and highest < fleet.host_rate else "the host"
        found.append(FleetRow(setup.label, hosts, saved, by))
    return found


def show_fleets(fleet: Fleet, counted: Sequence[FleetRow]) -> StudyTable:
    """Return the table of fleets, one row for each. Its columns are hosts, DRAM, queries per second of a host, what
    limits them, and power."""
    columns: Columns = (
        ("Fleet", None, "given"),
        ("Hosts", None, "computed"),
        ("Hosts that share the rows", None, "computed"),
        ("DRAM for rows", "B", "computed"),
        ("Queries/s of a host", "queries/s", "computed"),
        ("Limited by", None, "computed"),
        ("Fleet watts", "W", "computed"),
        ("Saved", "share", "computed"),
        ("Published savings", None, "published"),
    )
    rows: list[Row] = [
        (
            each.label,
            each.hosts.number,
            each.hosts.of_replica,
            each.hosts.dram_bytes,
            each.hosts.rate,
            each.limit,
            each.hosts.watts,
            each.saved,
            PUBLISHED_POWER if number else None,
        )
        for number, each in enumerate(counted)
    ]
    return make_table(f"Fleet of {say_rate(fleet.rate)} queries/s: hosts and power", columns, rows)


def find_best_fleet(counted: Sequence[FleetRow]) -> FleetRow | None:
    """Return the fleet that saves most power, among fleets with a slower memory; if power is unknown, the fleet with
    fewest hosts. None if no fleet in `counted` has a slower memory."""
    return min(counted[1:], key=lambda each: (-(each.saved or 0.0), each.hosts.number), default=None)


def answer_fleets(counted: Sequence[FleetRow]) -> str:
    """Say how many hosts the best fleet takes and by what share its power changes; empty where the user does not ask
    for a fleet."""
    if (best := find_best_fleet(counted)) is None:
        return ""
    least = f" takes least of {len(counted) - 1}:" if len(counted) > 2 else " takes"
    hosts = f"{plural(best.hosts.number, 'host')} instead of {counted[0].hosts.number:,} with all rows in DRAM"
    return f"{best.label}{least} {hosts}{'' if best.saved is None else f' and {_say_power(best.saved)} power'}"


def _say_power(saved: float) -> str:
    return f"{percent(abs(saved))} {'less' if saved >= 0 else 'more'}"


def _close_fleets(fleet: Fleet | None, counted: Sequence[FleetRow], said: Sequence[PoolResult]) -> str:
    """Return a clause that compares the power saved by the best fleet with the savings published in the paper on
    software-defined memory."""
    published = "For software-defined memory, a saving of 5 % to 29 % of power was published (other models and hosts)"
    none = "This study computes no saving of power"
    if fleet is None or not counted:
        num_waits = sum(each.wait_s is not None for each in said)
        waits = "The latencies of this study are simulated" if num_waits else "No latency was simulated at this rate"
        return f"{published}. {none}: give --fleet and --watts to compute one. {waits}"
    before, best = counted[0], find_best_fleet(counted)
    assert best is not None
    if fleet.watts is None:
        hosts = (
            f"{best.hosts.number:,} hosts with {best.label} instead of {before.hosts.number:,} with all rows in DRAM "
            "(computed)"
        )
        return f"{published}. {none}, as --watts was not given; the fleet needs {hosts}"
    saved = best.saved or 0.0
    words = f"In this study, the fleet takes {_say_power(saved)} power with {best.label} (computed from given watts)"
    less = "" if saved >= _LEAST_POWER else ", which does not confirm the published saving"
    hosts = f"{best.hosts.number:,} hosts instead of {before.hosts.number:,}, limited by {best.limit}"
    dram = f"{num_bytes(best.hosts.dram_bytes)} of DRAM instead of {num_bytes(before.hosts.dram_bytes)}"
    set_by = f"{hosts}, and from {dram} for a copy of the rows"
    return f"{published}. {words}{less}. The fleet's power follows from {set_by}"
