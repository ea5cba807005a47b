"""Words a scaling law that was fitted to a sweep, and returns the law as plain values for JSON."""

from reports.facts.scaling_law import ScalingLaw
from reports.statistics.power_law import MAX_EXPONENT, PowerLaw
from reports.text.formatting import MISSING, interval, plural

FORMULA = "normalised entropy = a·C^−b + c"


def law_words(law: ScalingLaw) -> str:
    """Return a sentence on the scaling law fitted to a sweep, or the reason why no law was fitted."""
    if (fitted := law.fitted) is None:
        return f"No scaling law was fitted: {law.why_not}."
    return (
        f"Scaling law: {FORMULA} over training FLOP C, exponent b {fitted.exponent:.3f}{_interval_words(fitted)}, "
        f"a {fitted.factor:.3g}, c {fitted.floor:.4f}, from {plural(fitted.num_sizes, 'size')} over "
        f"{fitted.decades:.1f} decades of C ({fitted.low:.2g} to {fitted.high:.2g} FLOP); quality measured, FLOP "
        f"computed, law fitted.{chosen_words(law)}{law_warning(fitted)}"
    )


def law_record(law: ScalingLaw | None) -> dict[str, object]:
    """Return the scaling law of a sweep as plain values for JSON; empty where no fit was asked for."""
    if law is None:
        return {}
    fitted = law.fitted
    if fitted is None:
        return {"law": {"why_not": law.why_not}}
    bounds = fitted.interval
    return {
        "law": {
            "formula": "normalised_entropy = factor * training_flop ** -exponent + floor",
            "exponent": fitted.exponent,
            "exponent_low": bounds.low if bounds else None,
            "exponent_high": bounds.high if bounds else None,
            "confidence": bounds.confidence if bounds else None,
            "method": bounds.method if bounds else None,
            "factor": fitted.factor,
            "floor": fitted.floor,
            "gain": fitted.gain,
            "gain_low": fitted.gain_interval.low if fitted.gain_interval else None,
            "gain_high": fitted.gain_interval.high if fitted.gain_interval else None,
            "misfit_chance": fitted.misfit_chance,
            "training_flop_low": fitted.low,
            "training_flop_high": fitted.high,
            "num_sizes": fitted.num_sizes,
            "num_left_out": law.num_beaten,
            "num_seeds": fitted.num_seeds,
        }
    }


def exponent_ends(fitted: PowerLaw) -> str:
    return interval(f"{fitted.interval.low:.3f}", f"{fitted.interval.high:.3f}") if fitted.interval else MISSING


def _interval_words(fitted: PowerLaw) -> str:
    return f" (95 % interval {exponent_ends(fitted)}, {fitted.interval.method})" if fitted.interval else ""


def chosen_words(law: ScalingLaw) -> str:
    """Return a sentence with the number of configurations that a scaling law leaves out. A configuration is left out
    if another one with the same training FLOP (within 10 %) has a better mean. '' where none was left out."""
    if not law.num_beaten:
        return ""
    return (
        f" Of configurations with equal FLOP (to 10 %) the best by its mean is the size: {law.num_beaten} left out."
    )


def _gain_words(fitted: PowerLaw) -> str:
    """Return in words by how much the fitted normalised entropy falls over the range of training FLOP of a scaling
    law: 'from 4e+09 to 5e+10 FLOP normalised entropy falls by 0.0695 (95 % interval 0.0690 – 0.0700, …)'."""
    gain = fitted.gain_interval
    ends = f" (95 % interval {interval(f'{gain.low:.4f}', f'{gain.high:.4f}')}, by pairs of seeds)" if gain else ""
    return f"from {fitted.low:.2g} to {fitted.high:.2g} FLOP normalised entropy falls by {fitted.gain:.4f}{ends}"


def law_warning(fitted: PowerLaw) -> str:
    """Return a warning of what a scaling law cannot show with so few seeds and model sizes, such as whether there is
    any gain; '' where there is nothing to warn of."""
    if fitted.exponent == 0:
        return " Quality does not improve with training FLOP here."
    gain = fitted.gain_interval
    if gain is not None and gain.low <= 0:
        return f" No gain from more computing is shown: {_gain_words(fitted)}."
    if fitted.interval is not None and fitted.interval.low <= 0:
        return (
            " The interval reaches the logarithmic law (b = 0), which has no floor: these sizes do not bound c, and "
            f"{_gain_words(fitted)}."
        )
    if fitted.interval is not None and fitted.interval.high >= MAX_EXPONENT:
        return f" The interval ends where the search does, at {MAX_EXPONENT:g}: these sizes do not tell b from c."
    return ""
