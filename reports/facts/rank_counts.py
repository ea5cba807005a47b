"""Reads a result set's number of ranks (processes of distributed training), and their traffic, from its records."""

from dataclasses import dataclass

from reports.facts.traffic import bandwidth_bytes_per_s
from reports.results.records import config_texts
from reports.results.result import Result
from reports.text.formatting import count, plural, printable
from rules.records.run import TrafficRecord

SCHEME_KEYS = ("runtime.sharding", "runtime.comm", "runtime.grad_comm")
_MAX_RANKS = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class RankedSet:
    """Row of the table on scaling. It has a configuration's number of ranks (distributed processes), sharding of
    embedding tables, formats in which ranks exchange data, and geometric means over converged runs."""

    result: Result
    num_ranks: int
    sharding: str
    comm: str
    grad_comm: str
    global_batch_size: int | None
    num_threads: int | None
    """CPU threads of each rank; None where they are unknown, or where an accelerator computes."""
    others: tuple[tuple[str, str], ...]
    """Hardware and settings that must be equal if configurations are to be compared in the number of ranks or
    threads, or in the exchange between ranks. These are all settings except six: the number of ranks, the number of
    threads, the method of matrix products, the formats of the exchange, its sharding, and the global batch size."""

    @property
    def local_batch_size(self) -> float | None:
        return self.global_batch_size / self.num_ranks if self.global_batch_size is not None else None

    @property
    def scheme(self) -> str:
        """Formats of the data exchanged between ranks in words: 'comm fp16, grad-comm dense'."""
        return f"comm {self.comm}, grad-comm {self.grad_comm}"

    @property
    def traffic(self) -> tuple[TrafficRecord, ...]:
        """Records of the bytes and times of the exchange between ranks, for those runs that have such a record."""
        return tuple(run.record.traffic for run in self.result.runs if run.record and run.record.traffic)

    @property
    def samples_per_s(self) -> float | None:
        return self._mean("throughput_samples_per_s")

    @property
    def time_to_train_s(self) -> float | None:
        return self._mean("time_to_train_s")

    @property
    def samples_to_converge(self) -> float | None:
        return self._mean("samples_to_converge")

    @property
    def bandwidth_bytes_per_s(self) -> float | None:
        return bandwidth_bytes_per_s(self.traffic)

    def _mean(self, field: str) -> float | None:
        summary = self.result.summary(field)
        return summary.geometric_mean if summary else None


def ranked_set(result: Result) -> RankedSet | None:
    """Return a result as a row of the scaling table; None where the record of its run set does not state the number
    of ranks."""
    record = result.asked
    config = {key: value for key, (value, _) in config_texts(record).items()}
    ranks = config.get("runtime.ranks", "")
    if not (ranks.isdecimal() and ranks.isascii() and len(ranks) < 8 and 0 < int(ranks) < _MAX_RANKS):
        return None
    system = dict(result.system.fields)
    named = ("accelerator_model_name", "host_processor_model_name")
    hardware = [(key, system.get(key, "").replace("N/A", "")) for key in named]
    threads = record.num_threads if record else None
    on_cpu = config.get("runtime.device", "cpu") == "cpu"
    own = ("runtime.ranks", "runtime.threads", "runtime.matmul", *SCHEME_KEYS, "train.global_batch_size")
    return RankedSet(
        result=result,
        num_ranks=int(ranks),
        sharding=config.get("runtime.sharding", "auto"),
        comm=config.get("runtime.comm", "fp32"),
        grad_comm=config.get("runtime.grad_comm", "dense"),
        global_batch_size=result.first_run.global_batch_size if result.first_run else None,
        num_threads=threads if on_cpu and threads is not None and threads < _MAX_RANKS else None,
        others=(*hardware, *sorted((key, value) for key, value in config.items() if key not in own)),
    )


def runtime_words(result: Result) -> str:
    """Return in words how the runs of a set of this harness were executed: 'optimized, 2 threads', or 'torchrec, 2
    ranks × 256 samples, sharding row_wise, comm fp16, grad-comm dense, 1 thread per rank'; '' where the number of
    ranks is unknown."""
    world = ranked_set(result)
    if world is None:
        return ""
    implementation, _ = config_texts(result.asked).get("runtime.implementation", ("", ""))
    texts = [printable(implementation, 60)] if implementation else []
    per_rank = ""
    if world.num_ranks > 1:
        each = f" × {count(world.local_batch_size)} samples" if world.local_batch_size is not None else ""
        texts.append(f"{plural(world.num_ranks, 'rank')}{each}, sharding {world.sharding}, {world.scheme}")
        per_rank = " per rank"
    texts += [f"{plural(world.num_threads, 'thread')}{per_rank}"] if world.num_threads else []
    return ", ".join(texts)
