"""What system_model adds to tests of the core."""

WORDS = {
    "measure-system": ((), "measure-system"),
    "plan-system": ((), "plan-system dlrm_tiny --system its.toml --threads 1"),
}
MEASURING = {
    "measure-system": WORDS["measure-system"],
    "plan-system": ((), "plan-system dlrm_tiny --system this --threads 1 --format json"),
}
MEASURED_SLOWLY = {"plan-system": "operators of a step are counted, by torch"}
STAND_INS = {"harness.extensions.system_model.rates:measure_rates": "system_stand_ins:give_system"}
_KINDS = ("memory", "fp32", "copy", "rows", "other", "operator")
_NUMBERS = ", ".join(f'{{ of = "{of}", value = 1e9, source = "a test" }}' for of in _KINDS)
FILES = {"its.toml": f'title = "its"\nnumbers = [{_NUMBERS}]\n'}
COMPLETED = {
    "plan-system --system": ("t", ["this"]),
    "measure-system --benchmark": ("dlrm_t", ["dlrm_tiny"]),
    "plan-system": ("dlrm_t", ["dlrm_tiny"]),
}
