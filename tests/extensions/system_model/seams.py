"""What system_model adds to tests of the core."""

WORDS = {
    "measure-system": ((), "measure-system"),
    "plan-system": ((), "plan-system dlrm_tiny --system its.toml --threads 1"),
}
DEAR = {"measure-system": "measures rates for seconds", "plan-system": "plans steps"}
_KINDS = ("memory", "fp32", "copy", "rows", "other", "operator")
_NUMBERS = ", ".join(f'{{ of = "{of}", value = 1e9, source = "a test" }}' for of in _KINDS)
FILES = {"its.toml": f'title = "its"\nnumbers = [{_NUMBERS}]\n'}
