"""Turn a request into an experiment: resolve every configuration and refuse what cannot run. Writes nothing.

Imports no torch, except to look at a GPU or a precision that is requested.
"""

from dataclasses import replace

from harness.config.run_config import Override
from harness.experiment.experiment import Experiment
from harness.experiment.orders import find_order
from harness.experiment.relation import asked_relation
from harness.experiment.request import Request, RequestError
from harness.experiment.stopping import find_stop_rule
from harness.measure.kinds import Kind, find_kind, kinds_asked_by
from harness.measure.refusals import refuse_id_map
from harness.run_sets.hooks import Hooks
from harness.run_sets.names import find_weights


def expand(request: Request) -> Experiment:
    """Return the experiment that a user's request means, with every configuration resolved.

    Raises HarnessError, ConfigError or DefinitionError where it cannot be run.
    """
    kind, options = asked_kind(request)
    _refuse_combinations(request, kind)
    request = with_weights(request, kind)
    experiment = asked_relation(request).expand(request, kind, options)
    for each in experiment.configurations:
        refuse_id_map(each.config.workload.data, experiment.kind.takes_id_maps)
    return experiment


def with_weights(request: Request, kind: Kind) -> Request:
    """Return the request with one more setting: the folder of the kept weights, or of the checkpoint, that the user
    named as SET, SET:RUN or SET:RUN@N. Return the request unchanged if the user named none, or if the kind of
    measurement takes no weights.

    Raises HarnessError if the named set or run has no kept weights or no such checkpoint.
    """
    if request.weights is None or kind.weights_key is None:
        return request
    source = f"option {request.spelled('weights')}" if request.typed else "weights"
    # Resolved, since `latest` is about to point to another set.
    kept = Override(key=kind.weights_key, value=str(find_weights(request.weights).resolve()), source=source)
    return replace(request, overrides=(*request.overrides, kept))


def asked_kind(request: Request) -> tuple[Kind, dict[str, int]]:
    """Return the requested kind of measurement and its options, such as a number of steps. Raises RequestError where
    the command does not have that kind."""
    if not request.kinds:
        return find_kind("training"), {}
    name, *others = request.kinds
    if others:
        both = " and ".join(f"--{other}" if request.typed else other for other in (name, others[0]))
        raise RequestError(f"{both} are two measurements; give one of them.")
    kind, number = find_kind(name), request.kinds[name]
    if number is not None and number < 1:
        raise RequestError(f"{name} is {number}, expected a whole number of at least 1.")
    option, like = kind.option, request.like or request.verb
    if like != kind.name and (option is None or like not in option.verbs):
        known = ", ".join(each.name for each, _ in kinds_asked_by(like))
        raise RequestError(f"{name} is not a measurement of {request.verb!r}, which has {known}.")
    member = None if option is None else option.member
    if (number is None) != (member is None):
        expected = "no number" if member is None else "a whole number of at least 1"
        raise RequestError(f"{name} is {number}, expected {expected}.")
    return kind, {} if member is None or number is None else {member: number}


def _refuse_combinations(request: Request, kind: Kind) -> None:
    """Raise RequestError where arguments of a request exclude each other, HarnessError where its order of repetitions
    or its stop rule is unknown."""
    find_order(request.order)
    if find_stop_rule(request.stop) is not None and request.beside is None and not request.axes:
        raise RequestError("a stop rule needs two configurations or more; for a single set give until.")
    named = request.spelled
    if request.run_index is not None and (Hooks.asked_by(request).asked or request.log_to):
        raise RequestError(
            "--prepare, --cleanup, --power-command and --log-to are for runs that this command starts itself."
        )
    asked = f"--{kind.name}" if request.typed else kind.name
    if request.timeout_s is not None and "timeout_s" not in kind.takes and request.beside is None:
        raise RequestError(f"{named('timeout_s')} is for runs to the target; {asked} ends by itself.")
    if request.keep_weights and ("keep_weights" not in kind.takes or request.beside is not None):
        of = "" if request.verb == "sweep" else " of one set"
        raise RequestError(
            f"{named('keep_weights')} is for runs to the target{of}; other measurements do not train to the end."
        )
    if request.with_fit and "with_fit" not in kind.takes:
        raise RequestError(f"{named('with_fit')} is for --quality SAMPLES; give that too.")
    if request.weights is not None and kind.weights_key is None:
        takers = " or ".join(f"--{each.name}" for each, _ in kinds_asked_by("sweep") if each.weights_key is not None)
        raise RequestError(f"{named('weights')} is for {takers or 'no kind here'}; give that too.")
    if request.beside is not None:
        if request.until is not None or request.max_runs is not None or request.run_index is not None:
            left_out = [named("until"), named("max_runs")] + ([named("run_index")] if request.typed else [])
            words = f"{', '.join(left_out[:-1])} and {left_out[-1]}"
            pairs = "-n pairs" if request.typed else "`runs` pairs"
            raise RequestError(f"{named('beside')} makes {pairs} itself; leave {words} out.")
        return
    if request.python is not None:
        raise RequestError(
            f"{named('python')} is the interpreter of the set that {named('beside')} names; give that too."
        )
