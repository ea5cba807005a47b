"""Define the terms of serving for the glossary of a page."""

TERMS = {
    "Latency-bounded throughput": "The highest rate of queries at which the percentile of their latencies stays "
    "within the limit. A simulation finds the rate roughly; LoadGen judges real rates around it. The answer is the "
    "highest rate that LoadGen issued and judged VALID in most of the runs at that rate.",
    "Steady state": "The highest rate of queries that meets the latency limit in an endless run. LoadGen's rule "
    "allows fewer late queries the shorter a run is, and its random arrivals move the highest VALID rate of a short "
    "run. The steady-state rate is the measured VALID rate divided by a simulated ratio: the highest VALID rate by "
    "LoadGen's arrivals and rule, over the rate in steady state. The steady-state rate thus counts as simulated. "
    "No steady-state rate is stated where LoadGen's runs contradict the simulation.",
    "Spread": "Range that contains, with 95 % confidence, the rate at which half of all runs of equal length are "
    "VALID. The range comes from simulated searches for that rate, each with other random arrivals and service "
    "times. The range does not cover times at which the system is slower than when it was timed.",
    "Held up": "A run in which calls, or the issuing of queries, stood still for longer than half the latency limit, "
    "for so many queries that this may have decided the verdict. Such a run is made again when it is INVALID.",
    "Query": "A number of items to be ranked for one user, in one request.",
    "Ranked items/s": "Queries per second, times the mean number of items of a query.",
    "p99": "The 99th percentile of latency: 99 of 100 queries take no longer, waiting included.",
    "p95": "The 95th percentile. p95 within 25 ms: of 100 queries, 95 are answered at most 25 ms after they arrived, "
    "waiting included.",
    "Server": "LoadGen's scenario in which queries arrive at random and have a latency limit.",
    "Offline": "LoadGen's scenario in which all queries are there at once; only the rate counts.",
    "SingleStream": "LoadGen's scenario in which each query comes when the previous one is answered; only the "
    "latency counts.",
    "Poisson": "Arrivals in the scenario Server: each query comes at random, independent of the others, so that some "
    "come close together and wait.",
    "VALID": "LoadGen's verdict on a run that was long enough, had enough queries, and had few enough late queries.",
    "Early stopping": "LoadGen's rule for the number of late queries in a run: few enough to be 99 % sure that "
    "the percentile holds. At p95, 90 queries suffice where none is late, at p99 459.",
    "Co-location": "Several processes that serve on one system at the same time, each its own queries. With more "
    "threads than cores they are oversubscribed.",
    "Simulation": "A queue in simulated time, with measured service times. Every rate has the same random arrivals, "
    "scaled to the rate. Latencies of the simulated queue are not a measured result.",
    "Normalised entropy": "Log loss divided by the log loss of always predicting the share of clicks; lower is "
    "better.",
    "MLPerf class": "Share of the quality in fp32 that reduced precision keeps: MLPerf Inference asks for 99.9 % or "
    "99 %.",
}
