"""Disks and network interfaces of this system in MLPerf's field names, from sysfs."""

import re
from pathlib import Path

from harness.system.hardware import Found, count_alike
from harness.system.resources import ROOT, read_text

_SECTOR_BYTES = 512
"""The unit of /sys/block/*/size, whatever the disk's own sector size."""
_NOT_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd", "zd")
_ARPHRD = {"1": "Ethernet", "32": "InfiniBand"}


def describe_storage(root: Path = ROOT) -> dict[str, Found]:
    """Describe host_storage_type and host_storage_capacity: every fixed disk that is backed by a device."""
    disks = [disk for folder in sorted((root / "sys/block").glob("*")) if (disk := _read_disk(folder))]
    if not disks:
        return {}
    kinds = dict.fromkeys(kind for kind, _ in disks)
    capacities = count_alike(f"{_decimal(num_bytes)} {kind}" for kind, num_bytes in disks)
    return {
        "host_storage_type": Found(", ".join(kinds), "sysfs block devices"),
        "host_storage_capacity": Found(capacities, "sysfs block devices"),
    }


def describe_networking(root: Path = ROOT) -> dict[str, Found]:
    """Describe host_networking: physical interfaces with the speed that their driver reports, where it does."""
    interfaces = [text for folder in sorted((root / "sys/class/net").glob("*")) if (text := _read_interface(folder))]
    ports = [
        f"InfiniBand {rate}"
        for file in sorted((root / "sys/class/infiniband").glob("*/ports/*/rate"))
        if read_text(file.parent / "link_layer") == "InfiniBand" and (rate := read_text(file))
    ]
    if ports:
        # the IP interfaces of the same ports would count them twice
        interfaces = [text for text in interfaces if not text.startswith("InfiniBand")] + ports
    return {"host_networking": Found(count_alike(interfaces), "sysfs network interfaces")} if interfaces else {}


def _read_disk(folder: Path) -> tuple[str, int] | None:
    """Read (kind, bytes) of one fixed disk; None for what is not one."""
    size = read_text(folder / "size") or ""
    if folder.name.startswith(_NOT_DISKS) or not size.isdecimal() or not int(size):
        return None
    if read_text(folder / "removable") == "1":
        return None
    rotational = read_text(folder / "queue/rotational")
    if folder.name.startswith("nvme"):
        kind = "NVMe SSD"
    elif re.match(r"(vd|xvd)", folder.name):
        # a virtual disk's rotational flag says nothing of what is behind it
        kind = "virtual disk"
    elif rotational in ("0", "1"):
        kind = "HDD" if rotational == "1" else "SSD"
    else:
        kind = "disk"
    return kind, int(size) * _SECTOR_BYTES


def _read_interface(folder: Path) -> str | None:
    if not (folder / "device").exists():
        return None
    kind = _ARPHRD.get(read_text(folder / "type") or "")
    if kind is None or (folder / "wireless").exists():
        return "wireless" if kind else None
    speed = read_text(folder / "speed") or ""
    driver = folder / "device/driver"
    words = [kind]
    if speed.isdecimal() and int(speed):
        words.append(f"{int(speed) / 1000:g} Gb/s")
    if driver.is_symlink() or driver.exists():
        words.append(f"({driver.resolve().name})")
    return " ".join(words)


def _decimal(num_bytes: int) -> str:
    if num_bytes >= 10**12:
        return f"{num_bytes / 10**12:.4g} TB"
    return f"{num_bytes / 10**9:.4g} GB"
