"""Forms of matrix products compute the same, and are chosen by what a timer says, without touching the model."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, get_args

import msgspec
import pytest
import torch
from rounding import furthest, is_as_near, product_bound, sway_of, weights_of
from toy_clicks import BATCH, SMOOTH, MakeSpec, flatten, is_same

from reference_models.dlrm.optimized import OptimizedWorkload
from reference_models.fused.choice import ChoosesMatmul, ChosenProduct, Form, MatmulChoice, MatmulProduct
from reference_models.fused.cpu_kernels import find_cpu_kernels
from reference_models.fused.matmul import Affine, WeightGradient, forms_at_hand, has_onednn
from reference_models.fused.timing import Call, choose, make_calls, num_samples_to_time, pick, time_forms
from reference_models.process.errors import ConfigError
from reference_models.process.world import SingleProcess
from reference_models.wukong.config import WukongConfig
from reference_models.wukong.fused_stack import FusedWukong

pytestmark = pytest.mark.numeric
WUKONG = WukongConfig(
    embedding_dim=4, bottom_mlp=(8, 4), num_layers=2, num_fmb=3, num_lcb=2, rank=2, fmb_mlp=(8,), top_mlp=(16, 1)
)
needs_onednn = pytest.mark.skipif(not has_onednn(), reason="needs a torch with oneDNN")
FORMS: tuple[Form, ...] = get_args(Form)
GRADIENT = MatmulProduct(kind="weight_gradient", num_samples=64, num_in=48, num_out=32)


def computes_onednn(dtype: torch.dtype) -> bool:
    """Whether this CPU and torch do: before AVX-512 there are no products in bf16."""
    try:
        Affine("onednn", 2, torch.ones(2, 2, dtype=dtype))(torch.ones(2, 2, dtype=dtype))
    except (RuntimeError, AttributeError):
        return False
    return True


def choice_of(forms: Iterable[tuple[MatmulProduct, Form]]) -> MatmulChoice:
    chosen = tuple(ChosenProduct(product=product, form=form) for product, form in forms)
    return MatmulChoice(num_threads=1, precision="fp32", torch_version="any", cpu="any", products=chosen)


def build(spec: Any) -> OptimizedWorkload:
    workload = OptimizedWorkload(spec, SingleProcess())
    workload.build()
    return workload


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("by_columns", [False, True], ids=["rows", "columns"])
def test_every_form_computes_the_product(form: Form, dtype: torch.dtype, by_columns: bool) -> None:
    if form.startswith("onednn") and not computes_onednn(dtype):
        pytest.skip("needs oneDNN for this type")
    found = find_cpu_kernels()
    kernels = None if isinstance(found, str) or form != "openblas" else found
    if form == "openblas" and (dtype != torch.float32 or kernels is None or not kernels.has_openblas):
        pytest.skip("needs a compiler and numpy's OpenBLAS, and numbers of 32 bits")
    torch.manual_seed(0)
    x, dy, total, bias = (torch.randn(shape) for shape in ((64, 48), (64, 32), (64, 32), (32,)))
    weight = torch.randn(48, 32).t() if by_columns else torch.randn(32, 48)
    x, dy, total, bias, weight = (tensor.to(dtype) for tensor in (x, dy, total, bias, weight))
    wide_x, wide_dy, wide_weight = x.double(), dy.double(), weight.double()
    gradient = WeightGradient(form, 64, weight, cpu_kernels=kernels)(dy, x)
    assert furthest(gradient, wide_dy.t() @ wide_x, product_bound(dy.t(), x)) <= 1
    if not form.endswith(("_transposed", "_copied")):
        plain = wide_x @ wide_weight.t()
        found_plain = Affine(form, 64, weight, cpu_kernels=kernels)(x)
        assert furthest(found_plain, plain, product_bound(x, weight.t())) <= 1
        activated = Affine(form, 64, weight, bias, has_relu=True, cpu_kernels=kernels)(x)
        allowed = product_bound(x, weight.t(), added=bias)
        assert furthest(activated, (plain + bias.double()).relu(), allowed) <= 1
        added = Affine(form, 64, weight, cpu_kernels=kernels).add_to(total.clone(), x)
        assert furthest(added, total.double() + plain, product_bound(x, weight.t(), added=total)) <= 1


def test_the_fastest_form_is_chosen_but_the_previous_one_needs_a_gain_of_5_percent() -> None:
    seconds: dict[Form, float] = {"mm": 1.0, "onednn": 0.96}
    assert pick(seconds, None) == "onednn"
    assert pick(seconds, "mm") == "mm", "4 % are noise"
    assert pick({"mm": 1.0, "onednn": 0.94}, "mm") == "onednn"
    assert pick(seconds, "mm_copied") == "onednn", "a form that is not at hand is no choice"


class FakeTimer:
    """Says that each form takes what it is told, whatever the calls do; counts calls."""

    def __init__(self, seconds: dict[Call, float]) -> None:
        self.seconds, self.num_calls = seconds, dict.fromkeys(seconds, 0)

    def __call__(self, call: Call, num_calls: int) -> float:
        self.num_calls[call] += num_calls
        return self.seconds[call] * num_calls


def test_forms_take_turns_and_those_left_behind_are_dropped() -> None:
    calls: dict[Form, Call] = {"mm": lambda: 0, "onednn": lambda: 1, "mm_transposed": lambda: 2}
    timer = FakeTimer({calls["mm"]: 1e-4, calls["onednn"]: 1.2e-4, calls["mm_transposed"]: 1e-3})
    assert time_forms(calls, timer) == pytest.approx({"mm": 1e-4, "onednn": 1.2e-4, "mm_transposed": 1e-3})
    assert timer.num_calls == {calls["mm"]: 52, calls["onednn"]: 52, calls["mm_transposed"]: 2}


def test_forms_close_to_the_fastest_take_further_turns_for_half_a_second() -> None:
    calls: dict[Form, Call] = {"mm": lambda: 0, "onednn": lambda: 1}
    for seconds, num_calls in ((0.0004, 2 + 2 * (5 + 7)), (0.004, 2 + 5 + 15), (0.1, 2 + 3 + 3)):
        timer = FakeTimer({calls["mm"]: seconds, calls["onednn"]: 1.1 * seconds})
        assert time_forms(calls, timer) == pytest.approx({"mm": seconds, "onednn": 1.1 * seconds})
        assert set(timer.num_calls.values()) == {num_calls}


def test_a_timer_that_prefers_a_form_gets_it_and_a_choice_is_kept_in_doubt() -> None:
    forward = MatmulProduct(kind="forward", num_samples=8, num_in=16, num_out=4, has_bias=True, has_relu=True)
    times: list[float] = []

    def later_is_faster(call: Call, num_calls: int) -> float:
        times.append(num_calls / (1 + len(times)) ** 3)
        return times[-1]

    chosen = choose([forward, GRADIENT], "fp32", None, later_is_faster)
    assert chosen.num_threads == torch.get_num_threads() and chosen.torch_version == torch.__version__ and chosen.cpu
    assert [entry.product for entry in chosen.products] == [forward, GRADIENT]
    for entry in chosen.products:
        assert set(entry.seconds) == set(forms_at_hand(entry.product))
        assert entry.form == min(entry.seconds, key=entry.seconds.__getitem__)
    opposite = choice_of((product, "mm") for product in (forward, GRADIENT))
    kept = choose([forward, GRADIENT], "fp32", opposite, lambda call, num_calls: 1e-3 * num_calls)
    assert kept.forms() == opposite.forms()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    "product",
    [
        GRADIENT,
        MatmulProduct(kind="forward", num_samples=64, num_in=48, num_out=32, has_bias=True, is_transposed=True),
        MatmulProduct(kind="data_gradient", num_samples=64, num_in=48, num_out=32, adds=True),
    ],
    ids=lambda product: product.kind,
)
def test_operands_for_timing_are_made_without_the_global_generator(product: MatmulProduct, precision: str) -> None:
    before = torch.get_rng_state()
    calls = make_calls(msgspec.structs.replace(product, precision=precision))
    at_hand = forms_at_hand(msgspec.structs.replace(product, precision=precision))
    dtype = torch.float32 if precision == "fp32" else torch.bfloat16
    assert calls.keys() == {form for form in at_hand if computes_onednn(dtype) or not form.startswith("onednn")}
    for call in calls.values():
        call()
    assert torch.equal(torch.get_rng_state(), before)


def test_large_products_are_timed_on_some_of_their_samples() -> None:
    huge = MatmulProduct(kind="weight_gradient", num_samples=1 << 20, num_in=4096, num_out=1)
    assert num_samples_to_time(huge) == 488_281
    assert num_samples_to_time(msgspec.structs.replace(huge, num_out=1 << 20)) == 512
    assert num_samples_to_time(GRADIENT) == 64


def test_choosing_lists_the_products_of_a_step_and_of_evaluation_and_changes_nothing(make_spec: MakeSpec) -> None:
    choosing, silent = build(make_spec()), build(make_spec())
    assert isinstance(choosing, ChoosesMatmul)
    chosen = choosing.choose_matmul(None)
    kinds = {(entry.product.kind, entry.product.num_samples) for entry in chosen.products}
    assert kinds == {
        ("forward", BATCH),
        ("data_gradient", BATCH),
        ("weight_gradient", BATCH),
        ("forward", 1000),
    }
    for workload in (choosing, silent):
        workload.train(3)
    assert is_same(flatten(choosing.state()), flatten(silent.state()))


@pytest.mark.slow
@needs_onednn
def test_a_choice_is_used_and_repeats_bit_for_bit_whether_given_or_taken_up_later(make_spec: MakeSpec) -> None:
    spec = make_spec(model={"bottom_mlp": [64, 4], "top_mlp": [96, 80, 1]}, train=SMOOTH["adagrad"])
    plain = build(spec)
    products = [entry.product for entry in plain.choose_matmul(None).products]
    choice = choice_of((product, forms_at_hand(product)[-1]) for product in products)
    given, again, later = build(replace(spec, matmul=choice)), build(replace(spec, matmul=choice)), build(spec)
    later.use_matmul(choice)
    for workload in (plain, given, again, later):
        workload.train(5)
    states = [flatten(workload.state()) for workload in (given, again, later)]
    assert is_same(states[0], states[1]) and is_same(states[0], states[2])
    assert is_as_near(weights_of(given), *sway_of(plain, lambda: build(spec), 5))
    assert later.choose_matmul(choice).products, "and chooses again"


@pytest.mark.slow
@pytest.mark.parametrize("interaction", ["dot", "dcn", "wukong"])
def test_a_choice_taken_up_later_is_that_of_every_product_of_a_step(interaction: str, make_spec: MakeSpec) -> None:
    dcn = {"interaction": "dcn", "dcn_num_layers": 2, "dcn_low_rank_dim": 5}
    spec = make_spec(model=dcn) if interaction == "dcn" else make_spec()
    if interaction == "wukong":
        spec = replace(spec, model=WUKONG)
        workload = OptimizedWorkload(spec, SingleProcess(), FusedWukong)
        workload.build()
    else:
        workload = build(spec)
    asked = {entry.product for entry in workload.choose_matmul(None).products}
    workload.use_matmul(choice_of((product, "mm_transposed") for product in asked))
    workload.train(1)
    workload.evaluate()
    assert asked and workload.model.matmuls.asked == dict.fromkeys(asked, "mm_transposed")


def test_a_choice_for_another_step_is_refused_by_name(make_spec: MakeSpec) -> None:
    with pytest.raises(ConfigError, match=r"lists none of this step's.*forward 128 x 16 -> 8, ReLU"):
        build(replace(make_spec(), matmul=choice_of([(GRADIENT, "mm")])))


@pytest.mark.parametrize("missing", ["onednn", "openblas"])
def test_a_chosen_form_that_is_not_at_hand_is_replaced_by_the_next_fastest_and_named(
    missing: Form, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reference_models.fused.matmul.has_onednn", lambda: False)
    monkeypatch.setattr("reference_models.fused.kernel_check.find_cpu_kernels", lambda: "no C compiler")
    assert forms_at_hand(GRADIENT) == ("mm", "mm_transposed")
    products = [entry.product for entry in build(make_spec()).choose_matmul(None).products]
    gradient = next(product for product in products if product.kind == "weight_gradient")
    untimed = next(product for product in products if product != gradient)
    seconds: dict[Form, float] = {missing: 1.0, "onednn_transposed": 2.0, "mm_transposed": 3.0, "mm": 4.0}
    timed = ChosenProduct(product=gradient, form=missing, seconds=seconds)
    choice = choice_of([(untimed, missing)])
    workload = build(replace(make_spec(), matmul=msgspec.structs.replace(choice, products=(timed, *choice.products))))
    asked = workload.model.matmuls.asked
    assert asked[gradient] == "mm_transposed" and asked[untimed] == "mm"
    assert workload.hyperparameters()["kernels"] == f"torch: no C compiler; without the chosen {missing}"
    workload.train(1)
