"""How tables and gradients are said to be on several ranks, read and refused without any."""

import pytest

from reference_models.config.sections import (
    RuntimeConfig,
    TrainConfig,
    parse_comm,
    parse_grad_comm,
    parse_runtime,
    parse_sharding,
)
from reference_models.distributed.limits import refuse_impossible_ranks
from reference_models.process.errors import ConfigError


@pytest.mark.parametrize("text", ["", "rows", "plan:", "plan:0,", "plan:0+,1", "plan:-1", "plan:0,x", "plan:\u0661"])
def test_unknown_sharding_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"runtime\.sharding"):
        parse_runtime({"sharding": text})


def test_a_plan_is_read() -> None:
    assert parse_sharding("plan:0,1+0,2") == ((0,), (1, 0), (2,))
    assert parse_sharding("row_wise") is parse_sharding("auto") is None


@pytest.mark.parametrize(
    ("sharding", "opt_name", "message"),
    [
        ("plan:0,1,2", "adagrad", "tables on rank 2, counted from 0, but there are 2 ranks"),
        ("plan:0,1,0+1", "rowwise_adagrad", "row-wise Adagrad would keep one state per piece"),
    ],
)
def test_a_plan_that_ranks_cannot_follow_is_refused(sharding: str, opt_name: str, message: str) -> None:
    train = TrainConfig(
        global_batch_size=8, eval_batch_size=8, opt_name=opt_name, opt_base_learning_rate=0.1, optimizer={}
    )
    with pytest.raises(ConfigError, match=message):
        refuse_impossible_ranks(train, RuntimeConfig(sharding=sharding), 2)


@pytest.mark.parametrize("text", ["", "fp64", "fp16/", "fp16/bf16/fp32", "FP16"])
def test_unknown_precisions_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"runtime\.comm"):
        parse_comm(text)


@pytest.mark.parametrize("text", ["", "topk", "topk:0", "topk:2", "topk:x", "powersgd", "powersgd:1.5", "dense:1"])
def test_unknown_gradient_compression_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"runtime\.grad_comm"):
        parse_grad_comm(text)


def test_compression_is_read() -> None:
    assert parse_comm("fp16") == ("fp16", "fp16")
    assert parse_comm("fp16/bf16") == ("fp16", "bf16")
    assert parse_grad_comm("topk:0.01") == ("topk", 0.01)
    assert parse_grad_comm("powersgd:4") == ("powersgd", 4.0)
