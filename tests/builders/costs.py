"""What tests cost, in units of processor time that count alike on a slow CPU and on a fast one.

One unit is what took one second of processor time on an Intel Xeon with AMX (family 6, model 207). A fixed loop,
timed again and again between the tests of a process, says how much longer the CPU at hand takes. A test's processor
time is that of its process and of all that it starts and waits for. Wall time is never looked at.
"""

import os
import pickle
import resource
import time
from collections.abc import Generator
from statistics import median
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

LOOP_S = 0.0211
"""Processor time of one `loop` on that Xeon: computed from twelve files of tests, which took 381 s there and 359 s on
an AMD EPYC (family 25, model 17), where the interpreter's part of a loop alone took 3.05 ms for 20,000 numbers
meanwhile, and where a whole loop takes 6.6 times as long as that part with nothing beside it."""
LOOP_EVERY_S = 2.0
"""After so much processor time of tests the loop is timed again: what else a machine does slows both alike."""

QUICK_UNITS = 1.0
"""A test that costs more in two tries belongs to `make test-all` (mark `slow`), or proves once what only real
processes can prove (mark `once`)."""
MARKS = ("once", "slow", "long", "gpu")
NUM_DEAREST = 20


_STORE = {str(number): (number, [number, str(7 * number)]) for number in range(30_000)}
"""More than the caches of a core hold: others who work beside tests slow memory down, not an interpreter alone."""


def loop() -> int:
    """Do a fixed amount of what an interpreter does in most tests, and of what imports and records do in memory."""
    found: dict[str, int] = {}
    for number in range(70_000):
        key = str(number % 997)
        found[key] = found.get(key, 0) + number
    return len(found) + len(pickle.dumps(_STORE))  # which makes nothing to be collected


def time_loop() -> float:
    """Processor time of a loop, in seconds."""
    before = time.process_time()
    loop()
    return time.process_time() - before


def processor_s() -> float:
    """Processor time of this process and of its children that have ended, in seconds."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


class Costs:
    """A plugin of pytest: measures each test where tests run, and tells the costs where the session is reported."""

    def __init__(self, config: pytest.Config, budget: float) -> None:
        self.budget = budget
        self.loops: list[float] = []
        self.seconds: dict[str, float] = {}
        self.unmarked_s: dict[str, float] = {}
        self.of_workers: list[dict[str, Any]] = []
        self._since_loop = 0.0
        self.is_worker = hasattr(config, "workerinput")
        if self.is_worker or not config.getoption("numprocesses", None):
            import pandas, scipy.stats, torch  # noqa: E401, F401, I001 - so that no test pays for them

            self.loops = [time_loop() for _ in range(5)]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
        """Measure setup, call and teardown together."""
        before = processor_s()
        done = yield
        spent = self.seconds[item.nodeid] = processor_s() - before
        if spent > QUICK_UNITS * self._unit_s() and not any(map(item.get_closest_marker, MARKS)):
            self.unmarked_s[item.nodeid] = min(spent, _try_again(item, nextitem))
        self._since_loop += spent
        if self._since_loop > LOOP_EVERY_S:
            self.loops.append(time_loop())
            self._since_loop = 0.0
        return done

    def _unit_s(self) -> float:
        """Processor time of a unit in this process, in seconds."""
        return median(self.loops) / LOOP_S

    def measured(self) -> dict[str, Any]:
        """Costs of all tests of this process in units, and of those that lack a mark."""
        unit = self._unit_s()
        return {
            "unit_s": unit,
            "units": {test: spent / unit for test, spent in self.seconds.items()},
            "unmarked": {test: spent / unit for test, spent in self.unmarked_s.items() if spent > QUICK_UNITS * unit},
        }

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a worker of xdist has measured."""
        self.of_workers.append(getattr(node, "workeroutput", {}).get("costs"))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail by what tests cost, where TEST_COSTS=assert asks for that."""
        if self.is_worker:
            session.config.workeroutput["costs"] = self.measured()  # type: ignore[attr-defined]
        elif os.environ.get("TEST_COSTS") == "assert" and session.exitstatus == pytest.ExitCode.OK and self._faults():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _told(self) -> list[dict[str, Any]]:
        return [told for told in self.of_workers if told] or ([self.measured()] if self.loops else [])

    def _faults(self) -> list[str]:
        told = self._told()
        unmarked = {test: units for one in told for test, units in one["unmarked"].items()}
        faults = [
            f"{units:.1f} units in each of two tries, and no mark: {test} (quick tests cost at most {QUICK_UNITS:g}; "
            "see CONTRIBUTING.md)"
            for test, units in unmarked.items()
        ]
        total = sum(units for one in told for units in one["units"].values())
        if total > self.budget:
            faults.append(f"{total:.0f} units in all, {self.budget:g} allowed: mark what proves least for it `slow`")
        return faults

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the sum, the dearest tests, and the faults."""
        if not (told := self._told()):
            return
        units = {test: spent for one in told for test, spent in one["units"].items()}
        dearest = sorted(units, key=units.__getitem__, reverse=True)[:NUM_DEAREST]
        unit_s = median(one["unit_s"] for one in told)
        terminalreporter.section("costs (processor time)")
        for test in dearest:
            terminalreporter.write_line(f"{units[test]:7.2f}  {test}")
        terminalreporter.write_line(
            f"{sum(units.values()):.0f} units of {self.budget:g} in {len(units)} tests; a unit is {unit_s:.2f} s here"
        )
        for line in self._faults():
            terminalreporter.write_line(f"marked wrongly: {line}")


def _try_again(item: pytest.Item, nextitem: pytest.Item | None) -> float:
    """Processor time of a second try, in seconds: an import, which the first test pays for all, is paid by now, while
    fixtures of every scope are made anew."""
    item.session._setupstate.teardown_exact(None)
    before = processor_s()
    runtestprotocol(item, log=False, nextitem=nextitem)
    return processor_s() - before
