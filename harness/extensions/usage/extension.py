"""Register the extension on usages (several models that one application requests) with the core of the harness: the
command `usage`, and the charts of its studies."""

from rules.extensions import Extension, Verb

EXTENSION = Extension(
    verbs={
        "usage": Verb(
            "harness.extensions.usage.command:usage",
            "Serve several models, each with a rate and a deadline.",
            "Run",
        ),
    },
    needs=("serving",),
    shown={"usage": "harness.extensions.usage.shown:DETAILS"},
    renamed={
        "serve --usage": ("usage NAME", "usage NAME --simulated"),
        "simulate --usage": ("usage NAME --simulated",),
        "serve --axis": ("usage NAME --axis MODEL.KEY=V1,V2",),
        "serve --score": ("usage NAME --score",),
    },
)
