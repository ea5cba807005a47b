"""Register the serving extension with the core of the harness: the commands `serve` and `simulate`, the kind of
measurement `serve` with its section [serve] of benchmark definitions and its table of results, and jobs of
processes."""

from rules.extensions import Extension, Places, Verb

PLACE = "harness.extensions.serving"
EXTENSION = Extension(
    verbs={
        "serve": Verb(
            f"{PLACE}.serve:serve", "Find the rate of queries that meets a latency limit.", "Run", is_everyday=True
        ),
        "simulate": Verb(
            f"{PLACE}.simulate:simulate",
            "Simulate how long queries wait at each rate of queries.",
            "Plan and model",
        ),
    },
    kinds={"serve": Places(record=f"{PLACE}.records:ServeRecord", job=f"{PLACE}.job")},
    jobs={
        "service_choice": f"{PLACE}.choice",
        "queue": f"{PLACE}.queue_job",
        "accuracy": f"{PLACE}.accuracy",
    },
    sections={"serve": f"{PLACE}.section:SERVE"},
    tables={"served": f"{PLACE}.records:SERVED"},
    shown={"serve": f"{PLACE}.shown:SERVE", "queue": f"{PLACE}.shown:QUEUE"},
    functions={"serve": f"{PLACE}.api:serve"},
    renamed={"serve --simulate": ("simulate",)},
)
