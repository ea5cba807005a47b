"""Bytes of the weights of a model that answers queries, by formula; torch-free."""

from dataclasses import dataclass

_FLOAT, _HALF = 4, 2


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedBytes:
    """Bytes of the weights of a model that answers queries, computed by formula or counted from the tensors
    themselves."""

    table_bytes: int
    """Bytes of the model's embedding rows, with the scales of quantised rows."""
    dense_bytes: int
    """Bytes of all of the model's weights other than embedding rows; scales of quantised weights are included."""

    @property
    def total_bytes(self) -> int:
        return self.table_bytes + self.dense_bytes


def is_kept(num_in: int, num_out: int, precision: str) -> bool:
    """Return whether a layer's weights stay in float32 in `precision`. Those of layers with one output or one input
    always do."""
    return precision in ("fp32", "tf32") or min(num_in, num_out) == 1


def linear_bytes(num_in: int, num_out: int, precision: str, *, has_bias: bool = True) -> int:
    """Return the bytes of a linear layer: weights, the scales of int8, and the bias, which int8 stores in float32."""
    biases = num_out * has_bias
    if is_kept(num_in, num_out, precision):
        return _FLOAT * (num_in * num_out + biases)
    if precision == "bf16":
        return _HALF * (num_in * num_out + biases)
    return num_in * num_out + _FLOAT * (num_out + biases)


def row_bytes(dim: int, table_precision: str) -> int:
    """Return the bytes of an embedding row of `dim` values: the values or, if quantised, the codes with the row's
    step and least value."""
    return {
        "fp32": _FLOAT * dim,
        "fp16": _HALF * dim,
        "int8": dim + 2 * _FLOAT,
        "int4": -(-dim // 2) + 2 * _HALF,
    }[table_precision]
