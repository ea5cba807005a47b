"""Train cost nets and AutoShard's policies for searches of placement plans, and keep them in a folder for later
searches."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any, Literal, TypeVar

from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.kept_arrays import read_kept, write_kept
from harness.run_sets.dataset import kept_lock
from harness.system.resources import read_resources
from reference_models.data.registry import DEFAULT_ROOT
from reference_models.distributed.search.costs import Bandwidth, SetCost
from reference_models.distributed.search.known_sets import KnownSets, ask_sets, draw_sets, list_parts
from reference_models.distributed.search.task import EmbeddingTable, Task
from reference_models.process.errors import ArtifactError
from rules.records.codec import Damage, decode
from rules.records.kept.arrays import MANIFEST_FILE
from rules.records.kept.learnt import LEARNT_FOLDER, LearntManifest

_FORM = 4
"""Version of the file of a trained cost net (which predicts seconds of a set of tables); nets of another version are
trained again."""
_ANEW = "Make it anew with --retrain."
T = TypeVar("T")
Arrays = Mapping[str, Any]
Accuracy = Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class LearntStore:
    """Folder that keeps trained cost nets and placement policies, with the seed of their training and whether to
    train again."""

    data_root: Path | None
    seed: int
    retrain: bool
    say: Callable[[str], None]

    def keep(
        self,
        what: Literal["cost_net", "policy"],
        digest: str,
        train: Callable[[], tuple[Arrays, Accuracy]],
        load: Callable[[Arrays], T],
    ) -> T:
        """Return the cost net or placement policy that is kept under `digest`. If none is kept, train it and keep it;
        one process trains at a time.

        `train` returns the arrays to keep and their accuracy. Raises HarnessError (exit 8) if the kept files are
        damaged, or if the folder is a link.
        """
        folder = (self.data_root or DEFAULT_ROOT) / LEARNT_FOLDER / f"{what}-{digest[:16]}"
        if (found := self._find(folder, digest, load)) is not None:  # before the lock: the folder may be read-only
            return found
        with kept_lock(folder.parent):
            if (found := self._find(folder, digest, load)) is not None:
                return found
            self.say(f"training a {what.replace('_', ' ')}, which is kept in {folder}")
            arrays, accuracy = train()
            known = {name: value for name, value in accuracy.items() if isfinite(value)}
            about = {"what": what, "digest": digest, "seed": self.seed, "accuracy": known}
            write_kept(folder, arrays, LearntManifest, about, "arrays")
            return load(arrays)

    def _find(self, folder: Path, digest: str, load: Callable[[Arrays], T]) -> T | None:
        if self.retrain or not (folder / MANIFEST_FILE).exists():
            return None
        manifest = decode(folder / MANIFEST_FILE, LearntManifest)
        if isinstance(manifest, Damage):
            raise HarnessError(f"{manifest}. {_ANEW}", ExitCode.INPUT)
        if manifest.digest != digest:
            return None
        free = read_resources().available_memory_bytes
        try:
            return load(read_kept(folder, manifest.arrays, available_bytes=free, remedy=_ANEW))
        except ArtifactError as error:
            raise HarnessError(f"{folder}: {error} {_ANEW}", ExitCode.INPUT) from None


def learn_costs(
    learnt: LearntStore,
    bandwidth: Bandwidth,
    tables: Sequence[EmbeddingTable],
    known: Callable[[], KnownSets] | None,
    *,
    kept_by: object,
    known_by: object = None,
) -> Any:
    """Return a neural net that predicts the cost of sets of the tables. It is trained on the modelled costs that
    `bandwidth` gives and then, if `known` is given, on the measured sets that `known` returns.

    A trained net is kept in a folder under a digest of `kept_by` and `known_by`. So `kept_by` must identify the costs
    that `bandwidth` gives, and `known_by` the sets that `known` returns.
    """
    from reference_models.distributed.search.net import NUM_RESAMPLED, NUM_SETS, fit_net, net_of

    def learn(known: Callable[[], KnownSets], start: Any, *of: object) -> tuple[Any, str]:
        digest = _digest(*of, bandwidth.batch_size, learnt.seed, _FORM, NUM_RESAMPLED)

        def train() -> tuple[Arrays, Accuracy]:
            net = fit_net(known(), bandwidth.batch_size, seed=learnt.seed, start=start)
            return net.arrays(), {
                "tau": net.tau,
                "additive_tau": net.additive_tau,
                "error": net.error,
                "additive_error": net.additive_error,
                "repeat_error": net.repeat_error,
            }

        return learnt.keep("cost_net", digest, train, net_of), digest

    def model() -> KnownSets:
        return ask_sets(bandwidth, draw_sets(list_parts(tables), NUM_SETS, learnt.seed))

    net, digest = learn(model, None, kept_by, *tables, NUM_SETS)
    return net if known is None else learn(known, net, known_by, digest)[0]


def learn_policy(learnt: LearntStore, cost: SetCost, tasks: Sequence[Task], *, kept_by: object) -> Any:
    """Return AutoShard's placement policy, trained on generated tables with the costs that `cost` gives. It is
    trained on small tasks first. If `tasks` has larger ones, it is then trained on tasks as large as those.

    A trained policy is kept in a folder under a digest of `kept_by`, which must identify `cost`.
    """
    from reference_models.distributed.search.autoshard import (
        NUM_LATER_UPDATES,
        NUM_UPDATES,
        SMALL,
        policy_of,
        sizes_of,
        train_policy,
    )

    batch_size = tasks[0].batch_size

    def learn(sizes: Any, num_updates: int, start: Any, *begun: str) -> tuple[Any, str]:
        digest = _digest(kept_by, batch_size, learnt.seed, num_updates, sizes, *begun)

        def train() -> tuple[Arrays, Accuracy]:
            policy = train_policy(cost, batch_size, learnt.seed, num_updates, sizes, start)
            return policy.arrays(), {"reward": policy.reward}

        return learnt.keep("policy", digest, train, policy_of), digest

    policy, digest = learn(SMALL, NUM_UPDATES, None)
    asked = sizes_of(tasks)
    return policy if asked == SMALL else learn(asked, NUM_LATER_UPDATES, policy, digest)[0]


def _digest(*asked: object) -> str:
    """Return the SHA-256 of everything that decides the training of a cost net or placement policy: with an equal
    digest, a kept one can be used."""
    return sha256(repr(asked).encode()).hexdigest()
