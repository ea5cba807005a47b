"""Refused command lines that have to do with serving, held against goldens/ beside this file."""

from golden_refusals import RATE, SWEEP, Refusal, refusals
from golden_scenarios import TRAIN, call

from harness import api

REFUSALS = {
    "serve": refusals(
        "serve nothing_such",
        "serve dlrm_tiny --target-latency 25",
        "serve dlrm_tiny --target-latency 0ms",
        "serve dlrm_tiny --percentile 20",
        "serve dlrm_tiny --queries many",
        "serve dlrm_tiny --scenario nothing",
        "serve dlrm_tiny --mode accuracy -n 2",
        "serve dlrm_tiny --mode accuracy --colocate 2",
        "serve dlrm_tiny --format md",
        "serve dlrm_tiny --weights nothing",
        "serve dlrm_tiny --weights set",
        "serve dlrm_tiny --weights set:x",
        "serve dlrm_tiny --weights twice",
        "serve dlrm_tiny --threads 99",
        "serve dlrm_tiny --strict-env",
        "serve dlrm_tiny -o file",
        "serve dlrm_tiny --device nothing",
        "serve dlrm_tiny --train 100 --weights set",
    ),
    "simulate": refusals(
        "simulate nothing_such",
        "simulate dlrm_tiny --scenario offline",
        "simulate dlrm_tiny --weights nothing",
        "simulate dlrm_tiny --threads 99",
        "simulate dlrm_tiny --strict-env",
        "simulate dlrm_tiny -o file",
    ),
    "other_than_serve": (
        *refusals(
            f"{TRAIN} --set serve.percentile=90",
            f"{SWEEP} {RATE}=0.03 --weights set",
            f"{SWEEP} {RATE}=0.03 --serve --throughput 10",
            f"{SWEEP} {RATE}=0.03 --serve --timeout 10",
            f"{SWEEP} {RATE}=0.03 --serve --weights nothing",
        ),
        Refusal(step=call("serve('dlrm_tiny', weights='nothing')", api.serve, "dlrm_tiny", weights="nothing")),
    ),
}
