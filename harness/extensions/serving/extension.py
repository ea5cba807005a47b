"""What the core is told of serving: two verbs, a kind with its section and table, and what processes are asked."""

from rules.extensions import Extension, Places, Verb

PLACE = "harness.extensions.serving"
EXTENSION = Extension(
    verbs={
        "serve": Verb(
            f"{PLACE}.serve:serve", "Find the rate of queries that meets a latency limit.", "Run", is_everyday=True
        ),
        "simulate": Verb(
            f"{PLACE}.simulate:simulate",
            "Say how long queries wait at each rate: a virtual clock.",
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
