"""Repair of placements that exceed a device's memory: by moves and swaps, by placing tables anew by bytes, or by
trying arrangements of few tables or parts."""

import numpy as np
from numpy.typing import NDArray

from reference_models.distributed.search.costs import Seconds
from reference_models.distributed.search.descent import PieceLayout, descend, settle
from reference_models.distributed.search.pieces import Held, PieceCosts, Pieces, may_be_halved, whole_tables
from reference_models.distributed.search.task import PlacementPlan, Repair, RepairStart, TableShard, Task
from reference_models.process.errors import ConfigError

MAX_PACKED = 20_000
"""Number of placements of single pieces (tables or parts) after which the search for an arrangement that fits is
given up."""
CUTTING = ("local", "neuroshard")
"""Names of the searches that may cut tables. Their plans may fit although whole tables do not."""
MAX_PIECES = 100
"""Maximum number of pieces (tables or parts) for which arrangements on devices are tried one by one."""


def plan_of(costs: PieceCosts, held: Held, search: str) -> PlacementPlan:
    """Return a placement of pieces (tables or parts) as a plan; if it exceeds the devices' memory, repair it first.

    In the plan, the parts of a table hold its columns in the order of their devices. Raises ConfigError if no
    placement was found that fits the devices' memory.
    """
    held, repair = find_room(costs, held, search)
    ends, shards = [0] * len(costs.task.tables), []
    for device, pieces in enumerate(held):
        for table, num_columns in pieces:
            shards.append(TableShard(table=table, first_column=ends[table], num_columns=num_columns, device=device))
            ends[table] += num_columns
    return PlacementPlan(shards=tuple(sorted(shards)), repair=repair)


def find_room(costs: PieceCosts, held: Held, search: str) -> tuple[Held, Repair | None]:
    """Return a placement of pieces (tables or parts) within the devices' memory, and a record of its repair. If the
    placement `held` fits, it is returned with None.

    Three repairs are tried in turn until one succeeds. The first moves and swaps the pieces of `held`. The second
    places all pieces anew, the largest first, each on the device where least memory stays free. The third searches
    all arrangements (`pack`). Placements of the second and third repair are then made faster by moves and swaps.
    Raises ConfigError if no placement was found; the message says whether it is proved that none exists.
    """
    if all(costs.sizes(pieces).sum() <= costs.task.memory_bytes for pieces in held):
        return held, None
    layout = PieceLayout(costs, held)
    if settle(layout):
        return layout.held, _count(layout, "search")
    pieces = layout.pieces
    layout = PieceLayout(costs, _fit_tightly(costs, pieces))
    if settle(layout):
        return descend(layout)[1], _count(layout, "bytes")
    packed = pack(costs.sizes(pieces), costs.task.num_devices, costs.task.memory_bytes, costs.homes_of(pieces))
    if isinstance(packed, bool):
        raise no_plan(costs.task, search, is_proved=not packed and len(pieces) == len(costs.task.tables))
    layout = PieceLayout(costs, _arranged(pieces, packed, costs.task.num_devices))
    return descend(layout)[1], _count(layout, "trial")


def _count(layout: PieceLayout, start: RepairStart) -> Repair:
    return Repair(start=start, num_moves=layout.num_moves, num_swaps=layout.num_swaps)


def _arranged(pieces: Pieces, devices: list[int], num_devices: int) -> Held:
    pairs = [*zip(pieces, devices, strict=True)]
    return tuple(tuple(piece for piece, on in pairs if on == device) for device in range(num_devices))


def _fit_tightly(costs: PieceCosts, pieces: Pieces) -> Held:
    """Place pieces (tables or parts) in falling order of bytes, each on the device where least memory stays free.

    A piece that fits no device goes to the device with most free memory.
    """
    sizes = costs.sizes(pieces)
    free, devices = np.full(costs.task.num_devices, float(costs.task.memory_bytes)), [0] * len(pieces)
    homes = costs.homes_of(pieces)
    for at in np.lexsort((-sizes, homes < 0)).tolist():
        roomy = free >= sizes[at]
        device = int(np.where(roomy, free, np.inf).argmin() if roomy.any() else free.argmax())
        devices[at] = device if homes[at] < 0 else int(homes[at])
        free[devices[at]] -= sizes[at]
    return _arranged(pieces, devices, costs.task.num_devices)


def pack(
    sizes: Seconds, num_devices: int, memory_bytes: int, homes: NDArray[np.int64] | None = None
) -> list[int] | bool:
    """Search, by backtracking, for an arrangement of pieces (tables or parts) that fits equal devices' memory. Return
    the device of each piece, False if there is no arrangement, or True if none was found after MAX_PACKED placements
    or there are more than MAX_PIECES pieces.

    Pieces are placed in falling order of size, and tried first on the device where least memory stays free. `sizes`
    are the pieces' bytes; `homes` are the devices on which pieces must stay, -1 for any device.
    """
    homes = np.full(len(sizes), -1) if homes is None else homes
    order = [at for at in np.argsort(-sizes, kind="stable").tolist() if homes[at] < 0]
    kept = np.bincount(homes[homes >= 0], sizes[homes >= 0], num_devices)
    free, num_tried = (memory_bytes - kept).astype(float).tolist(), 0
    left, devices = np.cumsum(sizes[order][::-1])[::-1].tolist(), homes.tolist()

    def place(at: int) -> bool | None:
        """Place the remaining pieces, from index `at` of the order on; return whether they fit. Returns None after
        too many placements."""
        nonlocal num_tried
        if at == len(order):
            return True
        if sum(each for each in free if each >= sizes[order[-1]]) < left[at]:
            return False
        for room in sorted({each for each in free if each >= sizes[order[at]]}):  # equal devices once
            if (num_tried := num_tried + 1) > MAX_PACKED:
                return None
            devices[order[at]] = device = free.index(room)
            free[device] -= sizes[order[at]]
            if (found := place(at + 1)) is not False:
                return found
            free[device] = room
        return False

    found = None if len(order) > MAX_PIECES else place(0)
    return devices if found else found is None


class NoPlanError(ConfigError):
    """Error of a search that found no placement for a task. The message names the search, the reason and advice;
    `why` is the reason alone."""

    def __init__(self, message: str, why: str = "") -> None:
        super().__init__(message)
        self.why = why


def _amount(num_bytes: int) -> str:
    """Return a number of bytes as text, in GiB if it is 1 GiB or more, such as '1.5 GiB' or '300 bytes'."""
    return f"{num_bytes / 2**30:,.1f} GiB" if num_bytes >= 1 << 30 else f"{num_bytes} bytes"


def no_plan(task: Task, search: str, *, is_proved: bool = False) -> NoPlanError:
    """Return the error that says why a search found no placement; `is_proved` if all plans of whole tables were
    tried.

    The message advises more devices only if the devices are proved to be too few.
    """
    sizes, memory = [table.memory_bytes for table in task.tables], _amount(task.memory_bytes)
    devices = f"{task.num_devices} devices of {memory}"
    may_cut = any(may_be_halved(task, piece) for piece in whole_tables(task))
    advice = "Use more or larger devices" + (", or --by local, which cuts tables." if may_cut else ".")
    if (short := sum(sizes) - task.num_devices * task.memory_bytes) > 0:
        why = f"{_amount(sum(sizes))} of tables on {devices}, {_amount(short)} short"
        advice = "Use more or larger devices."
    elif (short := max(sizes) - task.memory_bytes) > 0:
        why = f"table {sizes.index(max(sizes))} alone is {_amount(short)} larger than a device of {memory}"
    elif is_proved:
        kept = " beside those that are kept" if task.kept else ""
        why = f"all arrangements of whole tables{kept} were tried, none fits on {devices}"
    else:
        why = f"this search found none on {devices}, which proves nothing of others"
        advice = "Use --by optimal or local."
    if may_cut and search in CUTTING and sum(sizes) <= task.num_devices * task.memory_bytes:
        advice = "Parts of tables that it tried found no room either, which proves nothing of other cuts."
    return NoPlanError(f"{search} finds no plan for {task.name}: {why}. {advice}", why)
