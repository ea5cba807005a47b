"""Define the terms of serving for the glossary of a page."""

TERMS = {
    "Latency-bounded throughput": "The highest rate of queries at which the percentile of their latencies stays "
    "within the limit. A simulation finds the rate roughly; LoadGen judges real rates around it. The answer is the "
    "highest rate that LoadGen issued and judged VALID in most of the runs at that rate.",
    "Steady state": "The rate that would meet the limit in an endless run. LoadGen's rule allows fewer late queries "
    "the shorter a run is, and chance in the arrivals, whose seeds are LoadGen's own, moves a short run's rate. The "
    "simulation judges the same arrivals by the same rule, and the steady state besides: the measured VALID rate "
    "over the simulated ratio of the two is the steady-state rate, simulated. No rate is stated where LoadGen's runs "
    "contradict the simulation.",
    "Spread": "Simulated searches with other arrivals and service times show how far one search may be from the rate "
    "at which half of all runs of its length are VALID. The spread contains that rate with 95 % confidence, for the "
    "system as it was timed: slowness at other times is not included.",
    "Held up": "Calls or the issuing of queries stood still for longer than half the limit, and for so many queries "
    "that this may have decided the verdict. Such a run is made again when it is INVALID.",
    "Query": "A number of items to be ranked for one user, in one request.",
    "Ranked items/s": "Queries a second times the items of a query, on average.",
    "p99": "The 99th percentile: of 100 queries, 99 take no longer, waiting included.",
    "p95": "The 95th percentile. p95 within 25 ms: of 100 queries, 95 are answered at most 25 ms after they arrived, "
    "waiting included.",
    "Server": "LoadGen's scenario in which queries arrive at random and have a latency limit.",
    "Offline": "All queries are there at once; only the rate counts.",
    "SingleStream": "The next query comes when the one before it is answered; only the latency counts.",
    "Poisson": "Arrivals in the scenario Server: each query comes at random, independent of the others, so that some "
    "come close together and wait.",
    "VALID": "LoadGen's own verdict on one run: enough queries for enough time, and few enough of them late.",
    "Early stopping": "LoadGen's rule for the number of late queries in a run: few enough to be 99 % sure that "
    "the percentile holds. At p95, 90 queries suffice where none is late, at p99 459.",
    "Co-location": "Several processes that serve on one system at the same time, each its own queries. With more "
    "threads than cores they are oversubscribed.",
    "Simulation": "A queue in simulated time: equal random arrivals at every rate, and the service times that were "
    "measured. Latencies of this queue are simulated, and no result.",
    "Normalised entropy": "Log loss divided by that of always predicting the share of clicks; lower is better.",
    "MLPerf class": "Share of the quality in fp32 that reduced precision keeps: MLPerf Inference asks for 99.9 % or "
    "99 %.",
}
