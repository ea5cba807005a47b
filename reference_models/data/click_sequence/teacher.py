"""Build the hidden teacher of a generated sequence log: it gives the probability of a user's next click from the
user's past.

Every item has an artist, and every artist one of several latent classes. Every user has a few favourite classes, to
which most of the user's items belong.

The logit of a click on an item is the sum of a bias, the item's own effect, and a term for each of the user's last
events before the window. The term of the k-th last event is weight_k * s * affinity:

- s is +1 if the event was a click, else -1.
- The affinity is `same_class` + `other_class` if the event's item and the present item are of one class, else
  `other_class`.
- weight_k is proportional to decay**k; the vector of all weights has the Euclidean norm `history_scale`.

So a click depends on the item and on the history, in which older events matter less.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from reference_models.config.records import PositiveCount, read_section, refuse
from reference_models.config.sections import DataConfig
from reference_models.data.click_log import tables
from reference_models.data.click_log.counter import derive_key, hash_range
from reference_models.process.errors import ConfigError

MAX_EVENTS = 1 << 20
"""Maximum number of events of a user in all windows together: the events' random counters then differ, and their
times are exact in float32."""
MAX_USERS = 1 << 40
NUM_TABLES = 3
"""Number of ids of an event, each with an embedding table: the item, the user, and the item's artist."""
ITEM, USER, ARTIST = range(NUM_TABLES)
Scale = Annotated[float, Meta(ge=0, le=100)]
Weight = Annotated[float, Meta(ge=-100, le=100)]


@dataclass(frozen=True, kw_only=True, slots=True)
class SequenceParameters:
    """Section [data.parameters] of a generated log of users' sequences of events."""

    events_per_window: PositiveCount
    """Number of events of every user in a time window; only events before the window influence clicks in it."""
    num_classes: Annotated[int, Meta(ge=2, le=256)]
    """Number of latent classes of artists, and so of their items."""
    num_favourites: PositiveCount
    """Number of latent classes of items that a user favours."""
    favourite_share: Annotated[float, Meta(ge=0, le=1)]
    """Share of a user's events whose item is of a latent class that the user favours."""
    zipf_exponent: Annotated[float, Meta(ge=0, le=4)]
    """Zipf exponent of the popularity of a class's items, in steps of 0.125; 0 is uniform."""
    bias: Annotated[float, Meta(ge=-20, le=20)] = 0.0
    """Constant part of the click logit: below 0 makes clicks rare."""
    effect_scale: Scale
    """Standard deviation of the effects of single items on the click logit, which need no history."""
    history_scale: Scale
    """Weight of a user's history in the click logit: the Euclidean norm of the weights of the earlier events."""
    history_events: Annotated[int, Meta(ge=1, le=4096)]
    """Number of a user's last events before a time window that influence the clicks in it."""
    decay: Annotated[float, Meta(ge=0, le=1)]
    """Factor by which each later event reduces an earlier event's weight in the click logit."""
    same_class: Weight
    """Number added to `other_class` to get the effect of a click on the logits of later items of the same class."""
    other_class: Weight
    """Effect of a click on the logits of later items of all classes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SequenceTeacher:
    """Tables from which a sequence log's events are generated: C latent classes, n items, K events of history."""

    key: int
    bias: np.float32
    num_users: int
    events_per_window: int
    favourite_threshold: int
    """Share, in 2**16-ths, of a user's events whose item is of a latent class that the user favours."""
    num_favourites: int
    effect: NDArray[np.float32]
    """Number that each of n items adds to the click logit by itself, apart from the user's history: float32 [n]."""
    artist: NDArray[np.int64]
    """Artist of each of n items: int64 [n]."""
    items: NDArray[np.int64]
    """Item ids, sorted by latent class, within a class by falling popularity: int64 [n]."""
    first_item: NDArray[np.int64]
    """Quantiles for drawing an item of a latent class: the first item of each of 2**12 slices of equal probability,
    as an index in `items`, int64 [classes, 2**12]."""
    num_items: NDArray[np.int64]
    """Number of items in each of the 2**12 slices of equal probability from which an item of a latent class is drawn:
    int64 [classes, 2**12]."""
    terms: NDArray[np.float32]
    """Terms that the user's last K earlier events add to the click logit of the present event: float32 [K, 2, C, C].
    The axes are the age of the earlier event (in events), whether it was a click (no, yes), the latent class of its
    item, and the latent class of the present item."""
    favourite_key: int


def parse_parameters(data: DataConfig) -> SequenceParameters:
    """Read [data.parameters] of a sequence log, and check the dataset's sizes. Raises ConfigError naming the wrong
    field."""
    made = read_section("data.parameters", data.parameters, SequenceParameters)
    if len(data.num_embeddings or ()) != NUM_TABLES or data.multi_hot != (1,) * NUM_TABLES:
        raise ConfigError(
            f"data.num_embeddings is {list(data.num_embeddings or ())}, expected three whole numbers, the items, "
            "the users and the artists, without multi_hot: an event is one item, of one artist, that one user met."
        )
    if data.num_dense != 1:
        raise ConfigError(f"data.num_dense is {data.num_dense}, expected 1: of an event its time alone is a number.")
    if not (made.zipf_exponent * tables.ZIPF_STEPS_PER_ONE).is_integer():
        raise refuse("data.parameters", data.parameters, "zipf_exponent", "a multiple of 0.125")
    if made.num_favourites > made.num_classes:
        raise refuse("data.parameters", data.parameters, "num_favourites", f"at most {made.num_classes}, the classes")
    num_items, num_users, num_artists = data.num_embeddings or (0, 0, 0)
    if num_items < num_artists:
        raise ConfigError(f"data.num_embeddings: {num_items} items are fewer than {num_artists} artists.")
    if num_artists < made.num_classes:
        raise ConfigError(f"data.num_embeddings: {num_artists} artists are fewer than {made.num_classes} classes.")
    per_window, events = num_users * made.events_per_window, 0
    for split, count in (("train", data.train_samples), ("eval", data.eval_samples)):
        if count is None or count % per_window:
            raise ConfigError(
                f"data.{split}_samples is {count}, expected a multiple of {per_window}: {num_users} users with "
                f"{made.events_per_window} events in each window."
            )
        events += count // num_users
    if events > MAX_EVENTS or num_users > MAX_USERS:
        raise ConfigError(f"data: {events} events of each of {num_users} users, expected at most {MAX_EVENTS}.")
    return made


def build_teacher(data: DataConfig) -> SequenceTeacher:
    """Build the hidden teacher (tables that determine click probabilities) of a sequence log, a pure function of the
    log's definition. Raises ConfigError for a wrong definition."""
    made, seed = parse_parameters(data), data.seed or 0
    num_items, num_users, num_artists = data.num_embeddings or (0, 0, 0)
    artist = _deal_artists(derive_key(seed, 2), num_items, num_artists)
    classes = artist % made.num_classes
    items = np.argsort(classes, kind="stable")
    first, width, begin = [], [], 0
    for size in np.bincount(classes, minlength=made.num_classes).tolist():
        start, count = tables.inverse_zipf(tables.zipf_masses(size, made.zipf_exponent))
        first.append(start + begin)
        width.append(count)
        begin += size
    return SequenceTeacher(
        key=derive_key(seed, 0),
        bias=np.float32(made.bias),
        num_users=num_users,
        events_per_window=made.events_per_window,
        favourite_threshold=round(made.favourite_share * (1 << 16)),
        num_favourites=made.num_favourites,
        effect=(tables.normals(derive_key(seed, 1), num_items) * made.effect_scale).astype(np.float32),
        artist=artist,
        items=items,
        first_item=np.stack(first),
        num_items=np.stack(width),
        terms=_terms(made),
        favourite_key=derive_key(seed, 3),
    )


def _deal_artists(key: int, num_items: int, num_artists: int) -> NDArray[np.int64]:
    """Return the artist of each item, int64 [num_items]: items are dealt out in random order, so that every artist
    has some."""
    order = np.argsort(hash_range(key, 0, num_items), kind="stable")
    artists = np.empty(num_items, np.int64)
    artists[order] = np.arange(num_items) % num_artists
    return artists


def _terms(made: SequenceParameters) -> NDArray[np.float32]:
    weights, weight, squares = [], 1.0, 0.0
    for _ in range(made.history_events):
        weights.append(weight)
        squares += weight * weight
        weight *= made.decay
    scale = made.history_scale / np.sqrt(np.float64(squares))
    affinity = made.same_class * np.eye(made.num_classes) + made.other_class
    signs = np.array([-1.0, 1.0])
    by_age = np.array(weights)[:, None, None, None] * scale
    terms: NDArray[np.float32] = (by_age * signs[None, :, None, None] * affinity[None, None]).astype(np.float32)
    return terms
