"""Short stories of serving, held against goldens/ beside this file."""

from golden_scenarios import CTRL_C, STARVED, SWEEP, call, step

from harness import api

SCENARIOS = {
    "serve": (step("serve dlrm_tiny --seed 5"), step("resume latest --format json"), step("resume latest -n 6")),
    "serve_options": (
        step(
            "serve dlrm_tiny -n 2 --colocate 2 --target-latency 30ms --percentile 99 --queries fixed:10 --format json"
        ),
    ),
    "serve_starved": (step("serve dlrm_tiny -n 2", {1: STARVED}), step("resume latest -q")),
    "serve_interrupted": (step("serve dlrm_tiny -n 2 -q", {1: CTRL_C}), step("resume latest")),
    "pair_serve": (
        step("serve dlrm_tiny -n 1 -q"),
        step("run --beside latest --set serve.percentile=90 --seed 9 -n 2"),
    ),
    "sweep_serve": (
        step("sweep dlrm_tiny --serve -n 1 --axis serve.percentile=90,99"),
        step("resume latest -q --format json"),
    ),
    "sweep_serve_dry": (
        step(f"{SWEEP} --dry-run --serve --format json"),
        step("sweep dlrm_tiny --serve --axis serve.percentile=90,99 --dry-run"),
    ),
    "api_serve": (call("serve('dlrm_tiny', processes=1)", api.serve, "dlrm_tiny", processes=1),),
}
