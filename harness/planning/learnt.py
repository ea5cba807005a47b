"""What `place` learns, by what, and where it is kept: a net of costs, and AutoShard's policy."""

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from harness.foundation.files import read_record
from harness.foundation.kept_arrays import read_kept, write_kept
from harness.system.resources import read_resources
from reference_models.data.registry import DEFAULT_ROOT
from reference_models.distributed.search.costs import Bandwidth, SetCost
from reference_models.distributed.search.task import Table
from rules.records.kept.arrays import MANIFEST_FILE
from rules.records.kept.learnt import LEARNT_FOLDER, LearntManifest

_ANEW = "Make it anew with --retrain."
Arrays = Mapping[str, Any]
Accuracy = Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Keeper:
    """Where what is learnt is kept, by which seed it is learnt, and whether it is learnt anew."""

    data_root: Path | None
    seed: int
    retrain: bool
    say: Callable[[str], None]

    def keep(
        self, what: Literal["cost_net", "policy"], digest: str, train: Callable[[], tuple[Arrays, Accuracy]]
    ) -> Arrays:
        """Return the arrays of what was learnt for `digest`; train and keep them where there are none.

        `train` returns them with their accuracy. Raises HarnessError (exit 8) where what is there is damaged.
        """
        folder = (self.data_root or DEFAULT_ROOT) / LEARNT_FOLDER / f"{what}-{digest[:16]}"
        if (folder / MANIFEST_FILE).exists() and not self.retrain:
            manifest = read_record(folder / MANIFEST_FILE, LearntManifest)
            if manifest.digest == digest:
                free = read_resources().available_memory_bytes
                return read_kept(folder, manifest.arrays, available_bytes=free, remedy=_ANEW)
        self.say(f"training a {what.replace('_', ' ')}, which is kept in {folder}")
        arrays, accuracy = train()
        known = {name: value for name, value in accuracy.items() if isfinite(value)}
        about = {"what": what, "digest": digest, "seed": self.seed, "accuracy": known}
        folder.parent.mkdir(parents=True, exist_ok=True)
        write_kept(folder, arrays, LearntManifest, about, "arrays")
        return arrays


def learn_costs(
    keeper: Keeper, bandwidth: Bandwidth, measured: SetCost, tables: Sequence[Table], num_measured: int | None
) -> Any:
    """Return a cost net of sets of the tables, by `bandwidth`, then by so many sets that are `measured` here."""
    from reference_models.distributed.search.net import digest_of, net_of, train_net

    def learn(cost: SetCost, where: str, start: Any, **options: int) -> Any:
        digest = digest_of(cost, tables, bandwidth.batch_size, keeper.seed, options.get("num_sets", 0), start)
        digest = sha256(f"{digest} {where}".encode()).hexdigest()

        def train() -> tuple[Arrays, Accuracy]:
            net = train_net(cost, tables, bandwidth.batch_size, seed=keeper.seed, start=start, **options)
            return net.arrays(), {"tau": net.tau, "additive_tau": net.additive_tau}

        return net_of(keeper.keep("cost_net", digest, train), digest)

    net = learn(bandwidth, "", None)
    return net if num_measured is None else learn(measured, platform.node(), net, num_sets=num_measured)


def learn_policy(keeper: Keeper, cost: SetCost) -> Any:
    """Return AutoShard's policy, trained by a cost on generated tables."""
    from reference_models.distributed.search.autoshard import digest_of, policy_of, train_policy

    digest = digest_of(cost, keeper.seed)

    def train() -> tuple[Arrays, Accuracy]:
        policy = train_policy(cost, keeper.seed)
        return policy.arrays(), {"reward": policy.reward}

    return policy_of(keeper.keep("policy", digest, train), digest)
