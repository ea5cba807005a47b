"""What the words of serving mean."""

TERMS = {
    "Latency-bounded throughput": "The highest rate of queries at which the percentile of their latencies stays "
    "within the limit. A virtual clock says near which rate that is; LoadGen judges real rates around it. The "
    "highest that was asked and VALID, in most of its runs, is the answer.",
    "Long run": "LoadGen's rule allows fewer late queries the shorter a run is, and chance in the arrivals, whose "
    "seeds are LoadGen's own, moves a short run's bound. The virtual clock judges the same arrivals by the same rule "
    "and knows the long run: the VALID rate over its share is what the long run would allow, simulated. Runs that "
    "contradict the clock end it.",
    "Spread": "Searches on the virtual clock with other arrivals and service times say how far one search may be "
    "from the rate at which half of such runs are VALID. The spread holds that rate with 95 % confidence, as far as "
    "the clock knows the system: what is slow at other times is not in it.",
    "Held up": "Calls or the issuing of queries stood still for longer than half the limit, and for so many queries "
    "that the verdict may be due to that. Such a run is made again when it is INVALID.",
    "Query": "A number of items to be ranked for one user, in one request.",
    "Ranked items/s": "Queries a second times the items of a query, on average.",
    "p99": "The 99th percentile: of 100 queries, 99 are answered no later, waiting included.",
    "p95": "The 95th percentile. p95 within 25 ms: of 100 queries, 95 are answered at most 25 ms after they arrived, "
    "waiting included.",
    "Server": "LoadGen's scenario in which queries arrive at random and have a latency limit.",
    "Offline": "All queries are there at once; only the rate counts.",
    "SingleStream": "The next query comes when the one before it is answered; only the latency counts.",
    "Poisson": "How Server's queries arrive: each at a moment of its own, independent of the others, so that some "
    "come close together and wait.",
    "VALID": "LoadGen's own verdict on one run: enough queries for enough time, and few enough of them late.",
    "Early stopping": "LoadGen's rule for how many of so many queries may be late: few enough to be 99 % sure that "
    "the percentile holds. At p95, 90 queries suffice where none is late, at p99 459.",
    "Co-location": "Several processes that serve on one system at the same time, each its own queries. With more "
    "threads than cores they are oversubscribed.",
    "Virtual clock": "A simulated queue: equal random arrivals at every rate, and the service times that were "
    "measured. Its latencies are simulated, and no result.",
    "Normalised entropy": "Log loss over that of always saying the share of clicks; lower is better.",
    "MLPerf class": "Which share of the quality in fp32 reduced precision keeps: MLPerf inference asks for 99.9 % or "
    "99 %.",
}
