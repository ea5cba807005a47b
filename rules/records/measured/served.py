"""The table of served processes: what was asked of each, how it was set up, and what it answered."""

from typing import Annotated

from rules.records.rows import (
    Bytes,
    ItemsPerSecond,
    Number,
    QueriesPerSecond,
    Row,
    Seconds,
    Tally,
    Text,
    Whole,
    meaning,
)


class ServedRow(Row, kw_only=True, frozen=True):
    """One row per process that served. Rates and latencies are measured, `modelled_per_s` is simulated, `model_bytes`
    computed."""

    configuration: Annotated[str, meaning("label of the set; identifies the rows of all tables")]
    benchmark: Annotated[Text, meaning("the benchmark's name")] = None
    system: Annotated[Text, meaning("the system's name")] = None
    process: Annotated[Whole, meaning("number of the process in its measurement, from 0")]
    seed: Annotated[Whole, meaning("the process's random seed")] = None
    scenario: Annotated[str, meaning("LoadGen's: server, offline or single_stream")]
    target_latency_s: Annotated[Seconds, meaning("the limit; missing where the scenario has none")] = None
    percentile: Annotated[Number, meaning("of the queries' latencies, by which the limit is judged")]
    queries: Annotated[str, meaning("how many items they have: deeprecsys, mlperf or fixed:N")]
    mean_items: Annotated[Number, meaning("items of a query, on average")]
    num_copies: Annotated[Tally, meaning("processes that served at the same time")]
    num_workers: Annotated[Tally, meaning("threads that answer, of each of them")]
    num_threads: Annotated[Tally, meaning("CPU threads of each of them")]
    batch_items: Annotated[Tally, meaning("items of one call at most; missing: every query is a call")] = None
    is_oversubscribed: Annotated[bool | None, meaning("whether processes times threads exceed the cores")]
    weights: Annotated[str, meaning("random, kept or trained")]
    precision: Annotated[str, meaning("of matrix products")]
    table_precision: Annotated[str, meaning("of embedding rows")]
    model_bytes: Annotated[Bytes, meaning("computed: of tables and products, in their precisions")]
    queries_per_s: Annotated[QueriesPerSecond, meaning("measured: completed by the fastest run that is VALID")]
    long_run_per_s: Annotated[
        QueriesPerSecond, meaning("what is within the limit in the long run: VALID, measured, over loadgen_share")
    ] = None
    loadgen_share: Annotated[Number, meaning("simulated: VALID on LoadGen's arrivals, of the long run's rate")] = None
    invalid_per_s: Annotated[QueriesPerSecond, meaning("measured: the lowest rate of a process, not VALID")] = None
    items_per_s: Annotated[ItemsPerSecond, meaning("measured: ranked; queries_per_s times mean_items")]
    latency_s: Annotated[Seconds, meaning("measured: at the percentile, in that run")]
    modelled_per_s: Annotated[QueriesPerSecond, meaning("simulated: what the virtual clock said of the long run")] = (
        None
    )
    alone_per_s: Annotated[QueriesPerSecond, meaning("measured: of one process alone, beside none")] = None
    overhead_s: Annotated[Seconds, meaning("measured: what LoadGen adds to a query, the median")] = None
    auc: Annotated[Number, meaning("of the whole evaluation split; missing for random weights")] = None
    accuracy: Annotated[Number, meaning("likewise, where that is the benchmark's metric")] = None
    normalised_entropy: Annotated[Number, meaning("likewise; lower is better")] = None
    auc_ratio: Annotated[Number, meaning("auc over that of the same weights in fp32")] = None
    accuracy_ratio: Annotated[Number, meaning("likewise, of accuracy")] = None
    entropy_ratio: Annotated[Number, meaning("likewise, of normalised_entropy")] = None
    mlperf_class: Annotated[Text, meaning("share of fp32's AUC that DLRM keeps: 99.9 %, 99 % or below")] = None
    peak_rss_bytes: Annotated[Bytes, meaning("most resident memory of the process")] = None
    path: Annotated[str, meaning("the measurement's file")]
