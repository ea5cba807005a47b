"""Define the layouts of kinds of data: which arrays a split has in files, and which values are valid in them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from reference_models.data.store.dataset import Batch, ImageBatch, Sizes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SPLITS = ("train", "eval")


@dataclass(frozen=True, kw_only=True, slots=True)
class Array:
    """Array of a dataset's split in a .npy file; its first axis is samples."""

    file: str
    """Name of the array within its file's name, <split>_<file>.npy."""
    member: str | None
    """Name of the attribute that holds this array, in a batch that was read and in rows to be written. None if
    batches and rows lack the array: the file then stores zeros."""
    dtype: str
    """NumPy type of the array in its file; a batch may have wider numbers."""
    shape: Callable[[Sizes], tuple[int, ...]]
    """Function that takes the sizes of a sample and returns the array's shape without its first axis (the
    samples)."""
    is_wrong: Callable[["NDArray[Any]", Sizes], "NDArray[np.bool_]"]
    """Function that takes the array's values and the sizes of a sample, and returns a mask of the invalid values."""
    expected: str
    """Description of the array's valid values for error messages, such as '0 or 1'."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Layout of a kind of data: the arrays that a split has in files, and the class of batches."""

    batch: Any
    """Class of batches. It has the members that `arrays` name, and the members `ids`, `empty`, `synthetic` and
    `check`, which are defined as in `ImageBatch`."""
    arrays: tuple[Array, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files of all arrays of both splits."""
        return tuple(f"{split}_{array.file}.npy" for split in SPLITS for array in self.arrays)


def _is_outside(ids: "NDArray[Any]", sizes: Sizes) -> "NDArray[np.bool_]":
    import numpy as np

    limits = np.repeat(np.array(sizes.num_embeddings, dtype=np.int64), sizes.multi_hot)
    outside: NDArray[np.bool_] = (ids < 0) | (ids >= limits)
    return outside


def _is_infinite(values: "NDArray[Any]", sizes: Sizes) -> "NDArray[np.bool_]":
    import numpy as np

    infinite: NDArray[np.bool_] = ~np.isfinite(values)
    return infinite


LABELS = Array(
    file="labels",
    member="labels",
    dtype="uint8",
    shape=lambda sizes: (),
    is_wrong=lambda values, sizes: values > 1,
    expected="0 or 1",
)
SOFT_LABELS = replace(
    LABELS, dtype="float32", is_wrong=lambda values, sizes: ~((values >= 0) & (values <= 1)), expected="0 to 1"
)
DENSE = Array(
    file="dense",
    member="dense",
    dtype="float32",
    shape=lambda sizes: (sizes.num_dense,),
    is_wrong=_is_infinite,
    expected="finite numbers",
)
INDICES = Array(
    file="indices",
    member="indices",
    dtype="int32",
    shape=lambda sizes: (sum(sizes.multi_hot),),
    is_wrong=_is_outside,
    expected="ids inside their tables",
)
CLICKS = Layout(batch=Batch, arrays=(LABELS, DENSE, INDICES))
"""Layout of clicks: dense features, ids, and a label 0 or 1."""
SOFT_CLICKS = Layout(batch=Batch, arrays=(SOFT_LABELS, DENSE, INDICES))
"""Layout of clicks with labels that are shares from 0 to 1."""
IMAGES = Layout(
    batch=ImageBatch,
    arrays=(
        replace(LABELS, member=None),
        replace(DENSE, member="images"),
        replace(INDICES, member="classes", expected="classes that their tasks have"),
    ),
)
"""Layout of datasets of images, with a class for each task in `classes`. The file of click labels is unused and holds
zeros; it stays since digests of existing datasets include it."""
