"""Simulate a memory device with parallel channels: the latency of each query's reads, computed read by read.

Reads wait in one queue, first come first served, for the first channel that is free. Each read occupies its channel
for `channels` / ceiling seconds, where the ceiling is the device's highest reads per second: a saturated device then
reads at its ceiling. A read's answer usually takes longer, by a time that depends on the queue depth when the read is
issued; the channel is free in that time. Since all reads occupy a channel equally long, read i goes to channel i
modulo `channels`, and each channel is a queue of its own.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.extensions.memory.tier import Tier
from harness.foundation.queue_simulation import Times, finish_singly

Ids = NDArray[np.int64]
_STEP, _NUM_STEPS = 0.01, 2_000
_STEPS = (np.arange(_NUM_STEPS) + 0.5) * _STEP
"""Values of the standard exponential distribution, one per tabulated quantile of a read latency distribution."""
_MOST_WAVES = 512
"""Maximum number of reads looked at on each channel, the last ones of a query, to find the read that is answered
last."""


class Answers(NamedTuple):
    """Latency of the reads of each query on one memory device, in seconds [queries], divided into a queueing delay
    and the rest; and the device's mean queue depth."""

    queue: Times
    """Queueing delay in seconds [queries]: by how much other queries' reads delay the time at which the query's last
    read leaves its channel."""
    device: Times
    """Time in seconds from a query's arrival to the last answer to its reads [queries]; 0 without reads. Waiting for
    other queries' reads is not included: it is in `queue`."""
    mean_read_s: float
    """Mean latency of one read in an otherwise idle device, in seconds."""
    depth: float
    """Mean queue depth of the device at the time when a read is issued. It counts all reads that wait or occupy a
    channel, also those of the same query."""


def draw_latencies(num_queries: int, num_devices: int, seed: int) -> NDArray[np.int32]:
    """Draw for each query and device a quantile of the read latency [devices, queries]; each quantile is an index
    into `_STEPS`.

    The draws are stratified: each part of the distribution is drawn equally often, in random order, which `seed`
    decides. With independent draws, the number of very slow reads, and therefore the p99 of latencies, would vary
    between seeds.
    """
    draws = np.random.default_rng((seed, 3))
    exponents = -np.log1p(-(np.arange(num_queries) + 0.5) / num_queries)
    steps = np.minimum(exponents / _STEP, _NUM_STEPS - 1).astype(np.int32)
    return np.stack([draws.permutation(steps) for _ in range(num_devices)])


def answer_reads(
    arrivals_s: Times, num_reads: Ids, busy_s: Times, tier: Tier, drawn: NDArray[np.int32], *, is_alone: bool = False
) -> Answers:
    """Return the latencies of queries [queries] that arrive in order, each with `num_reads` reads on one memory
    device.

    `busy_s` [queries] is the time in seconds that a query's reads take if all channels work on them; `drawn`
    [queries] is a row of the result of `draw_latencies`. `is_alone` says that queries never meet; the queue depth is
    then only that of the query's own reads.
    """
    count = tier.num_channels
    each_s = busy_s * count / np.maximum(num_reads, 1)
    total = max(1, int(num_reads.sum()))
    read_s, own = float(busy_s.sum()) * count / total, float(np.square(num_reads, dtype=np.float64).sum()) / total
    deepest = max((each.depth for each in tier.read_latency_s.deeper), default=1)
    others = 0.0
    if own < deepest and not is_alone:  # only then do reads of other queries change the latency
        by_channel = _by_channel(arrivals_s, num_reads, each_s, count)
        others = _in_flight(arrivals_s, sum(_sum_spent(*each, arrivals_s, each_s) for each in by_channel))
    beyond_s = latency_beyond(tier, own + others, read_s)
    mean_read_s = read_s + float(np.average(beyond_s, weights=np.exp(-_STEPS)))
    if is_alone and beyond_s[0] == beyond_s[-1]:  # all reads take equally long
        alone_s = np.where(num_reads > 0, -(-num_reads // count) * each_s + beyond_s[0], 0.0)
        return Answers(np.zeros(len(arrivals_s)), alone_s, mean_read_s, own)
    lasts = _slowest(beyond_s, read_s, int(num_reads.max(initial=0)) // count + 1)
    most, around = len(lasts) - 1, np.concatenate((drawn, drawn))
    finished, ended, spent_s = np.zeros(len(arrivals_s)), np.zeros(len(arrivals_s)), 0.0
    for channel, (reads, finish_s) in enumerate(_by_channel(arrivals_s, num_reads, each_s, count)):
        took_s = np.where(reads > 0, finish_s - arrivals_s, 0.0)
        # Another draw for each channel of a query; equal draws of queries far apart change no distribution.
        first = channel * len(drawn) // count
        slowest_s = lasts.take(np.minimum(reads, most) * _NUM_STEPS + around[first : first + len(drawn)])
        np.maximum(finished, took_s, out=finished)
        np.maximum(ended, took_s + np.where(reads > 0, slowest_s, 0.0), out=ended)
        spent_s += _sum_spent(reads, finish_s, arrivals_s, each_s)
    alone_s = -(-num_reads // count) * each_s
    queue = np.zeros(len(arrivals_s)) if is_alone else np.maximum(0.0, finished - alone_s)
    depth = own + (0.0 if is_alone else _in_flight(arrivals_s, spent_s))
    return Answers(queue, ended - queue, mean_read_s, depth)


def _by_channel(arrivals_s: Times, num_reads: Ids, each_s: Times, count: int) -> Iterator[tuple[Ids, Times]]:
    """Yield for each channel of a device the number of reads of each query [queries], and the time in seconds at
    which the last of these finishes [queries]."""
    rounds, rest = np.divmod(np.cumsum(num_reads), count)
    for channel in range(count):
        reads = np.diff(rounds + (rest > channel), prepend=0)
        yield reads, finish_singly(arrivals_s, reads * each_s, 1)


def _sum_spent(reads: Ids, finish_s: Times, arrivals_s: Times, each_s: Times) -> float:
    """Return the seconds that reads spend in the queue and on a channel, summed over all reads of the channel.
    `each_s` [queries] is the time for which a read of each query occupies the channel."""
    return float((reads * (finish_s - arrivals_s) - each_s * reads * (reads - 1) / 2).sum())


def _in_flight(arrivals_s: Times, spent_s: float) -> float:
    """Return the mean number of reads in flight, by Little's law; `spent_s` is the sum of the times of all reads."""
    lasted_s = float(arrivals_s[-1] - arrivals_s[0])
    return spent_s / lasted_s if lasted_s else 0.0


def latency_beyond(tier: Tier, depth: float, read_s: float) -> Times:
    """Return the part of a read's latency in which it occupies no channel, in seconds, when reads are issued at queue
    depth `depth`. There is one value for each tabulated quantile of the latency's distribution.

    The memory's file `tier` gives the read latency at some queue depths. From it, the time is subtracted that a read
    spends in the queue and in a channel (`read_s`). Values are interpolated between given depths, and constant beyond
    the deepest one.
    """
    latency, count = tier.read_latency_s, tier.num_channels
    known = [(1, latency.value, latency.tail), *((each.depth, each.value, each.tail) for each in latency.deeper)]
    beyond = []
    for at, median_s, tail in known:
        shares, times = np.array([(0.5, median_s), *tail]).T
        in_channels_s = read_s * max(1.0, at / count)
        beyond.append(np.maximum(0.0, np.interp(_STEPS, -np.log1p(-shares), times) - in_channels_s))
    depths = np.array([each[0] for each in known], dtype=np.float64)
    after = int(np.clip(np.searchsorted(depths, depth), 1, max(1, len(depths) - 1)))
    if len(depths) == 1:
        return np.asarray(beyond[0])
    weight = float(np.clip((depth - depths[after - 1]) / (depths[after] - depths[after - 1]), 0.0, 1.0))
    return np.asarray(beyond[after - 1] * (1 - weight) + beyond[after] * weight)


def _slowest(beyond_s: Times, read_s: float, most_reads: int) -> NDArray[np.float64]:
    """Return for a query's reads on one channel the seconds between two times: its last read leaves the channel, and
    the answers to all its reads have come [reads, steps]. The axes are the number of the query's reads on the
    channel, and the quantile.

    Reads leave the channel one after the other, `read_s` apart. The result is therefore the maximum over the query's
    reads of (latency beyond the channel - `read_s` x number of later reads), whose distribution function is the
    product of those of the single reads. The last row also holds for more reads than the array has rows.
    """
    span_s = float(beyond_s[-1] - beyond_s[0])
    waves = int(min(most_reads, _MOST_WAVES, span_s / read_s + 1 if read_s else _MOST_WAVES)) or 1
    times, firsts, counts = np.unique(beyond_s, return_index=True, return_counts=True)
    last = firsts + counts - 1
    exponents = _STEPS[last] + np.where(counts > 1, _STEP / 2, 0.0)  # largest drawn number that gives each time
    if len(times) == 1:
        return np.full((2, _NUM_STEPS), times[0])
    log_share, rows = np.zeros(len(times)), [np.full(_NUM_STEPS, times[0])]
    for wave in range(waves):
        at = np.interp(times + wave * read_s, times, exponents, right=np.inf)
        log_share += np.log(-np.expm1(-at))
        of_all = -np.log(-np.expm1(np.minimum(log_share, -1e-12)))
        rows.append(np.interp(_STEPS, of_all, times))
    return np.stack(rows)
