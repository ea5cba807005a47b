"""Define the terms of serving for the glossary of a page."""

TERMS = {
    "Latency-bounded throughput": "The highest rate of queries at which the percentile of their latencies stays "
    "within the limit. A simulation finds the rate roughly; LoadGen judges real rates around it. The answer is the "
    "highest rate that LoadGen issued and judged VALID in most of the runs at that rate.",
    "Steady state": "The highest rate of queries that meets the latency limit in an endless run. The shorter a "
    "run is, the fewer late queries LoadGen's rule allows, and the more the highest VALID rate depends on the random "
    "arrival times. The steady-state rate is the measured VALID rate divided by a simulated ratio of two rates: the "
    "highest VALID rate, divided by the highest rate that meets the latency limit in an endless run. The highest "
    "VALID rate is simulated with LoadGen's arrival times and judged by LoadGen's rule. The steady-state rate is "
    "labelled as simulated, because it is computed from a simulated ratio. No steady-state rate is stated where "
    "LoadGen's runs contradict the simulation.",
    "Spread": "Range that contains, with 95 % confidence, the rate at which half of all runs of equal length are "
    "VALID. The spread comes from repeated simulated searches for the highest VALID rate, each with different "
    "random arrivals and service times. The spread does not allow for periods when the system is slower than it "
    "was during the measurement.",
    "Held up": "A run in which calls, or the issuing of queries, stood still for longer than half the latency limit, "
    "for so many queries that this may have decided the verdict. A held-up run is made again if it is INVALID.",
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
    "Co-location": "Several processes that serve on one system at the same time, each with its own queries. The "
    "processes are oversubscribed if they have more threads than the system has cores.",
    "Simulation": "A queue in simulated time, with measured service times. Every rate has the same random arrivals, "
    "scaled to the rate. Latencies of the simulated queue are not a measured result.",
    "Normalised entropy": "Log loss divided by the log loss of always predicting the share of clicks; lower is "
    "better.",
    "MLPerf class": "Share of the quality in fp32 that reduced precision keeps: MLPerf Inference asks for 99.9 % or "
    "99 %.",
}
