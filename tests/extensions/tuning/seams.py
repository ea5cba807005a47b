"""What tuning adds to tests of the core."""

WORDS = {
    "tune": (
        (),
        "tune dlrm_tiny --axis train.global_batch_size=256..2048:log --trials 2 -q --seed 5 --threads 1 --maximize "
        "samples_per_s --throughput 10",
    ),
}
