"""Run repetitions of several configurations at once, each in its own slot (cores and GPUs), with all slots always
busy.

If a slot stood empty after its repetition ended, the repetitions that still run would have more of the machine to
themselves than before. The slot is therefore kept busy until all have ended: its work is repeated, and the results
are thrown away. Programs that share a processor are measured in the same way in Tuck and Tullsen, "Initial
Observations of the Simultaneous Multithreading Pentium 4 Processor", PACT 2003.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace

from harness.foundation.errors import HarnessError
from harness.launch.slots import Slot, Stop, StopWork

Make = Callable[..., object]
"""Function that makes one repetition; it is called with the keyword argument `slot` (cores and GPUs). Raises
HarnessError where the repetition fails."""
KeepBusy = Callable[[Slot], bool]
"""Function that does throw-away work in a slot (cores and GPUs); returns False where there is no such work, or where
the work failed."""


def make_side_by_side(
    made_in: Mapping[int, Make],
    slots: Sequence[Slot],
    keep_busy: KeepBusy,
    on_end: Callable[[int, HarnessError | None], None],
) -> None:
    """Make one repetition in each slot (cores and GPUs) at the same time; the keys of `made_in` are the slots'
    numbers. Until the last repetition has ended, all other slots are kept busy, since repetitions would be faster
    beside an empty slot.

    `on_end` is called in this thread at the end of each repetition, with the number of its slot, and with its error
    if it failed. If an exception (Ctrl-C or another) leaves this call, all workers are ended first.
    """
    stop, over = Stop(), Stop()

    def try_to(make: Make, slot: Slot) -> HarnessError | None:
        try:
            make(slot=slot)
        except HarnessError as error:
            return error
        return None

    def work_until_over(slot: Slot) -> None:
        with suppress(StopWork, HarnessError, OSError):
            while not over.is_asked and keep_busy(slot):
                pass

    with ThreadPoolExecutor(len(slots)) as pool:
        try:
            running = {
                pool.submit(try_to, make, replace(slots[number], stop=stop)): number
                for number, make in made_in.items()
            }
            idle = [slot.number for slot in slots if slot.number not in made_in]
            while running:
                ended, _ = wait(running, timeout=0 if idle else None, return_when=FIRST_COMPLETED)
                for future in ended:
                    number = running.pop(future)
                    on_end(number, future.result())
                    idle.append(number)
                if running:
                    for number in idle:
                        pool.submit(work_until_over, replace(slots[number], stop=over))
                    idle.clear()
        except BaseException:
            stop.ask()
            raise
        finally:
            over.ask()
