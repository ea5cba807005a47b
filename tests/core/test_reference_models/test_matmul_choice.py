"""A choice of matrix products is read from anybody's file, and says what it chose in a digest."""

import json

import msgspec
import pytest

from reference_models.fused.choice import ChosenProduct, MatmulChoice, MatmulProduct, convert_choice
from reference_models.process.errors import ConfigError

FORWARD = MatmulProduct(kind="forward", num_samples=2048, num_in=512, num_out=256, has_bias=True, has_relu=True)
GRADIENT = MatmulProduct(kind="weight_gradient", num_samples=2048, num_in=512, num_out=256)


def choice(*chosen: ChosenProduct, precision: str = "fp32") -> MatmulChoice:
    return MatmulChoice(num_threads=2, precision=precision, torch_version="2.13.0", cpu="a CPU", products=chosen)


BOTH = choice(
    ChosenProduct(product=FORWARD, form="onednn", seconds={"mm": 0.02, "onednn": 0.01}),
    ChosenProduct(product=GRADIENT, form="mm_transposed", seconds={"mm_transposed": 0.01}),
)


def encode(choice: MatmulChoice) -> str:
    return msgspec.json.format(msgspec.json.encode(choice), indent=1).decode()


def test_a_choice_is_read_as_it_was_written() -> None:
    read = convert_choice(msgspec.json.decode(encode(BOTH)), "record")
    assert read == BOTH == convert_choice(msgspec.to_builtins(BOTH), "record")
    assert read.forms() == {FORWARD: "onednn", GRADIENT: "mm_transposed"}


def test_the_digest_is_of_products_and_forms_alone() -> None:
    slower = choice(*(msgspec.structs.replace(chosen, seconds={"mm": 1.0}) for chosen in reversed(BOTH.products)))
    other = choice(msgspec.structs.replace(BOTH.products[0], form="mm"), BOTH.products[1])
    assert slower.digest == BOTH.digest != other.digest
    assert len(BOTH.digest) == 64


def test_labels_are_short_sentences_of_what_differs() -> None:
    assert FORWARD.label == "forward 2048 x 512 -> 256 + bias, ReLU"
    low = msgspec.structs.replace(GRADIENT, precision="bf16", is_transposed=True)
    assert low.label == "weight gradient 2048 x 512 -> 256, weight by columns, bf16"
    assert GRADIENT.flop == 2 * 2048 * 512 * 256


TEXT = encode(BOTH)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "Expected `object`, got `array`"),
        (TEXT.replace('"onednn"', '"fastest"', 1), r"Invalid enum value 'fastest'.*\$\.products"),
        (TEXT.replace('"num_threads": 2', '"num_threads": 0'), r"`int` >= 1.*num_threads"),
        (TEXT.replace('"num_threads"', '"threads"'), "unknown field `threads`"),
        (TEXT.replace('"num_in": 512', f'"num_in": {2**70}', 1), "num_in"),
        (TEXT.replace('"precision": "fp32"', '"precision": "int4"', 1), "int4"),
        (TEXT.replace("0.02", "-1", 1), "seconds"),
        (encode(choice(BOTH.products[0], BOTH.products[0])), r"products\[1\].*listed twice"),
        (
            encode(choice(ChosenProduct(product=msgspec.structs.replace(FORWARD, precision="bf16"), form="mm"))),
            r"products\[0\] is of bf16, expected fp32",
        ),
    ],
)
def test_what_is_no_choice_is_refused_with_its_place(content: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"(?s)a/file.*{message}"):
        convert_choice(json.loads(content), "a/file")
