"""From measured times, computed counts and measured ceilings to what bounds each phase and the step; pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.measure.profile.ceilings import Ceilings
from reference_models.costs.phases import Matmul, PhaseCosts

OVERHEAD_BELOW = 0.5
"""Share of the limit under which a phase is bound by neither: most of its time is something else."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseLimit:
    """The least time of one phase on this system: the largest of what its parts take, each at its own ceiling."""

    compute_s: float
    memory_s: float
    gather_s: float

    @property
    def limit_s(self) -> float:
        return max(self.compute_s, self.memory_s, self.gather_s)

    @property
    def resource(self) -> str | None:
        """compute, memory or gather; None for a phase that has to do nothing."""
        if self.limit_s == 0:
            return None
        parts = {"compute": self.compute_s, "gather": self.gather_s, "memory": self.memory_s}
        return max(parts, key=lambda name: parts[name])


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseProfile:
    """One phase of one step. `time_s` is measured, None where the implementation does not tell this phase apart."""

    phase: str
    time_s: float | None
    share: float | None
    counts: PhaseCosts
    limit: PhaseLimit

    @property
    def ceiling_fraction(self) -> float | None:
        return self.limit.limit_s / self.time_s if self.time_s and self.limit.limit_s else None

    @property
    def bound(self) -> str | None:
        """What the phase's time is mostly spent on: a resource at its ceiling, or overhead."""
        if not self.time_s:
            return None
        fraction = self.ceiling_fraction
        return "overhead" if fraction is None or fraction < OVERHEAD_BELOW else self.limit.resource


@dataclass(frozen=True, kw_only=True, slots=True)
class StepLimits:
    """Seconds that one step takes at the ceilings."""

    matmul_s: float
    """All matrix products, each at the best layout found for its own shape."""
    matmul_median_s: float
    matmul_best_shape_s: float
    """All matrix products at the rate of the best shape that was measured."""
    all_phases_s: float
    """Every phase at its own limit, one after the other."""


def limit_phase(counts: PhaseCosts, products: Iterable[Matmul], ceilings: Ceilings) -> PhaseLimit:
    """Matrix products at their shapes, bytes at the rate of copies of that size, rows at the batches' gather rate.

    A product's own operands are part of its measured time, so that they cannot be what bounds it.
    """
    products = tuple(products)
    beside = counts.bytes - sum(product.bytes for product in products)
    return PhaseLimit(
        compute_s=sum(ceilings.matmul_s(product) for product in products),
        memory_s=ceilings.move_s(max(beside, 0)),
        gather_s=ceilings.gather_s(counts.rows),
    )


def analyse_phases(
    times_s: Mapping[str, float],
    counts: Mapping[str, PhaseCosts],
    products: Sequence[Matmul],
    ceilings: Ceilings,
    order: Iterable[str],
) -> tuple[PhaseProfile, ...]:
    """One profile per phase that has a time or something to do, in the model's `order` of phases."""
    total_s = sum(times_s.values())
    made = []
    for phase in order:
        time_s = times_s.get(phase)
        if time_s is None and phase not in counts:
            continue
        own = counts.get(phase, PhaseCosts())
        made.append(
            PhaseProfile(
                phase=phase,
                time_s=time_s,
                share=None if time_s is None else time_s / total_s,
                counts=own,
                limit=limit_phase(own, (product for product in products if product.phase == phase), ceilings),
            )
        )
    return tuple(made)


def limit_step(phases: Sequence[PhaseProfile], products: Sequence[Matmul], ceilings: Ceilings) -> StepLimits:
    flop = sum(product.flop for product in products)
    return StepLimits(
        matmul_s=sum(ceilings.matmul_s(product) for product in products),
        matmul_median_s=sum(ceilings.matmul_s(product, at_median=True) for product in products),
        matmul_best_shape_s=flop / ceilings.best_matmul.flop_per_s.best,
        all_phases_s=sum(one.limit.limit_s for one in phases),
    )


def step_intensity(counts: Mapping[str, PhaseCosts]) -> float:
    """FLOP per compulsory byte of the whole step."""
    return sum(one.flop for one in counts.values()) / sum(one.bytes for one in counts.values())


def side_of_ridge(intensity: float, ceilings: Ceilings) -> str:
    """Which ceiling work of this intensity runs into first: compute or memory."""
    return "compute" if intensity >= ceilings.ridge_flop_per_byte else "memory"
