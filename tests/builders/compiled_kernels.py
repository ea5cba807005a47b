"""Compile Triton's kernels for GPUs that are not here: `python compiled_kernels.py 80 90` prints a JSON list.

Of every kernel and kind of arguments that `optimized` launches: bytes of machine code, and what ptxas says of
registers that were not enough. Nothing is run.
"""

import json
import sys
from collections.abc import Iterator
from itertools import product
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from reference_models.fused import triton_dense, triton_update
from reference_models.fused.kernel_sizes import choose_sizes

POINTERS = {
    "ordered": "*i32", "order": "*i64", "bags": "*i32", "gradients": "*fp32", "weight": "*fp32", "state": "*fp32",
    "edges": "*fp32", "rate": "*fp32", "eps": "fp32", "num_lookups": "i32", "hot": "i32", "size": "i32",
}  # fmt: skip
SIZES = choose_sizes()
UPDATE = {"D": 128, "WIDTH": 128}


def kinds() -> Iterator[tuple[Any, dict[str, str], dict[str, int], int]]:
    """Each kernel with the types of its arguments, its constants, and its warps."""
    for key, gradient, state in product(("*i32", "*i64"), ("*fp32", "*bf16"), (0, 1, 128)):
        types = POINTERS | {"ordered": key, "gradients": gradient}
        yield triton_update._walk_blocks, types, UPDATE | {"BAGS": 27, "STATE": state}, 1
        if gradient == "*fp32":
            yield triton_update._close_runs, types, UPDATE | {"PIECES": SIZES.pieces, "STATE": state}, 1
    for key, out in product(("*i32", "*i64"), ("*fp32", "*bf16")):
        types = {"rows": key, "starts": "*i32", "weight": "*fp32", "out": out, "hot": "i32"}
        yield triton_dense._read_bags, types, {"BAGS": 27, "D": 128, "WIDTH": 128, "TILE": SIZES.tile}, 1
    for operand, adds in product(("*fp32", "*bf16"), (True, False)):
        types = dict.fromkeys(("dy", "x_0", "z", "dx_0"), operand)
        types |= {"parts": "*fp32", "num_samples": "i32", "num_columns": "i32", "samples": "i32"}
        yield triton_dense._cross_gradients, types, {"COLUMNS": SIZES.columns, "ADDS": adds}, SIZES.warps
    yield triton_update._walk_blocks, POINTERS, {"D": 10, "WIDTH": 16, "BAGS": 27, "STATE": 1}, 1


def compile_all(capability: int) -> Iterator[dict[str, Any]]:
    for kernel, types, constants, num_warps in kinds():
        signature = {name: "constexpr" if name in constants else types[name] for name in kernel.arg_names}
        source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
        options = {"num_warps": num_warps, "enable_fp_fusion": False}
        compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
        yield {
            "kernel": kernel.__name__,
            "types": signature,
            "constants": constants,
            "capability": capability,
            "num_bytes": len(compiled.asm["cubin"]),
            "has_atomics": "atom" in compiled.asm["ptx"],
        }


if __name__ == "__main__":
    json.dump([entry for capability in sys.argv[1:] for entry in compile_all(int(capability))], sys.stdout)
