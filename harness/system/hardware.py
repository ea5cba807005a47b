"""Detect processor, memory, disks, network and product name, in MLPerf's field names, from /proc, /sys and udev.

Only values that the system reports are included; fields without one are absent. Inside a virtual machine these are
the virtual machine's. Sources: proc(5), the kernel's ABI documents for sysfs, udev's dmi_memory_id.
"""

import platform
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.system.resources import ROOT, read_text, run_for_output

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
_CPU_FOLDERS = "sys/devices/system/cpu"
_HYPERVISORS = ("kvm", "qemu", "vmware", "virtualbox", "xen", "microsoft corporation virtual", "amazon ec2", "google")
_PLACEHOLDERS = {"", "none", "default string", "to be filled by o.e.m.", "not specified", "system product name"}
_SECTOR_BYTES = 512
"""Unit of /sys/block/*/size in bytes, whatever the disk's own sector size."""
_NOT_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd", "zd")
_ARPHRD = {"1": "Ethernet", "32": "InfiniBand"}


@dataclass(frozen=True, slots=True)
class DetectedValue:
    """Detected value of a field of the system description, and the source of the value."""

    value: str
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Processors:
    """The host's processors as the kernel reports them; the model's name is None where it is not reported."""

    model_name: str | None
    num_packages: int
    num_cores: int
    num_logical_cpus: int
    is_virtual: bool


def describe_hardware(root: Path = ROOT) -> dict[str, DetectedValue]:
    """Return the host_processor_*, host_memory_*, host_storage_*, host_networking fields and hw_notes."""
    parts = (describe_processors, describe_memory, describe_storage, describe_networking, _describe_product)
    return {field: found for describe in parts for field, found in describe(root).items()}


def describe_processors(root: Path = ROOT) -> dict[str, DetectedValue]:
    """Return the processor fields of the system description. `host_processors_per_node` counts the processors of a
    node, `host_processor_core_count` the cores of one processor."""
    cpus = read_processors(root)
    found: dict[str, DetectedValue] = {}
    if cpus.model_name:
        found["host_processor_model_name"] = DetectedValue(
            cpus.model_name, "/proc/cpuinfo" if (root / "proc/cpuinfo").exists() else "platform"
        )
    if cpus.num_packages:
        found["host_processors_per_node"] = DetectedValue(str(cpus.num_packages), "sysfs cpu topology")
        found["host_processor_core_count"] = DetectedValue(
            str(cpus.num_cores // cpus.num_packages), "sysfs cpu topology"
        )
    if cpus.is_virtual and cpus.num_logical_cpus:
        found["host_processor_vcpu_count"] = DetectedValue(
            str(cpus.num_logical_cpus), "/proc/cpuinfo, hypervisor present"
        )
    frequency = _frequency(root)
    if frequency:
        found["host_processor_frequency"] = frequency
    caches = _caches(root)
    if caches:
        found["host_processor_caches"] = DetectedValue(caches, "sysfs cpu caches")
    return found


def read_processors(root: Path = ROOT) -> Processors:
    """Return the numbers of processors and cores from the topology of the online CPUs, and the model's name from
    /proc/cpuinfo."""
    packages, cores, num_logical = set(), set(), 0
    for folder in sorted((root / _CPU_FOLDERS).glob("cpu[0-9]*")):
        topology = folder / "topology"
        package, core = read_text(topology / "physical_package_id"), read_text(topology / "core_id")
        if package is None or core is None:
            continue
        num_logical += 1
        packages.add(package)
        # core_id repeats across the dies of one package
        cores.add((package, read_text(topology / "die_id"), core))
    return Processors(
        model_name=cpuinfo(root, "model name") or (_model_name_elsewhere() if root == ROOT else None),
        num_packages=len(packages),
        num_cores=len(cores),
        num_logical_cpus=num_logical,
        is_virtual="hypervisor" in (cpuinfo(root, "flags") or "").split(),
    )


def read_processor_numbers(root: Path = ROOT) -> str | None:
    """Return an x86 processor's vendor, family and model, such as "AuthenticAMD family 25 model 1"; None for other
    processors."""
    found = [cpuinfo(root, name) for name in ("vendor_id", "cpu family", "model")]
    return None if None in found else "{} family {} model {}".format(*found)


def describe_memory(root: Path = ROOT) -> dict[str, DetectedValue]:
    """Return the memory fields: capacity without firmware reservations, and the memory modules where udev or EDAC
    list them."""
    found: dict[str, DetectedValue] = {}
    match = re.search(r"^MemTotal:\s*(\d+) kB", read_text(root / "proc/meminfo") or "", re.MULTILINE)
    if match:
        found["host_memory_capacity"] = DetectedValue(
            f"{int(match[1]) * KIB / GIB:.1f} GiB", "/proc/meminfo MemTotal"
        )
    for modules, source in ((_udev_modules(root), "udev, SMBIOS type 17"), (_edac_modules(root), "sysfs EDAC")):
        if modules:
            found["host_memory_configuration"] = DetectedValue(count_alike(modules), source)
            break
    return found


def describe_storage(root: Path = ROOT) -> dict[str, DetectedValue]:
    """Return host_storage_type and host_storage_capacity: every fixed disk that is backed by a device."""
    disks = [disk for folder in sorted((root / "sys/block").glob("*")) if (disk := _read_disk(folder))]
    if not disks:
        return {}
    kinds = dict.fromkeys(kind for kind, _ in disks)
    capacities = count_alike(f"{_decimal(num_bytes)} {kind}" for kind, num_bytes in disks)
    return {
        "host_storage_type": DetectedValue(", ".join(kinds), "sysfs block devices"),
        "host_storage_capacity": DetectedValue(capacities, "sysfs block devices"),
    }


def describe_networking(root: Path = ROOT) -> dict[str, DetectedValue]:
    """Return host_networking: physical interfaces, with their speed where the driver reports it."""
    interfaces = [text for folder in sorted((root / "sys/class/net").glob("*")) if (text := _read_interface(folder))]
    ports = [
        f"InfiniBand {rate}"
        for file in sorted((root / "sys/class/infiniband").glob("*/ports/*/rate"))
        if read_text(file.parent / "link_layer") == "InfiniBand" and (rate := read_text(file))
    ]
    if ports:
        # the IP interfaces of the same ports would count them twice
        interfaces = [text for text in interfaces if not text.startswith("InfiniBand")] + ports
    return (
        {"host_networking": DetectedValue(count_alike(interfaces), "sysfs network interfaces")} if interfaces else {}
    )


def virtualization(root: Path = ROOT) -> str | None:
    """Return the hypervisor's name, 'unnamed hypervisor' where only its presence is reported; None without one."""
    hypervisor = read_text(root / "sys/hypervisor/type")
    product = " ".join(_dmi(root, name) for name in ("sys_vendor", "product_name")).lower()
    for word in _HYPERVISORS:
        if word in product and "metal" not in product:
            return word.removesuffix(" corporation virtual")
    if hypervisor:
        return hypervisor
    return "unnamed hypervisor" if read_processors(root).is_virtual else None


def count_alike(items: Iterable[str]) -> str:
    """Return hardware parts counted by kind, such as '8 x 32 GiB DDR5, 2 x …', in the order of first appearance."""
    return ", ".join(f"{count} x {item}" for item, count in Counter(items).items())


def format_bytes(num_bytes: float) -> str:
    """Return a number of bytes in KiB, MiB or GiB, without decimals where it is whole."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB")):
        if num_bytes >= unit:
            return f"{num_bytes / unit:.4g} {name}"
    return f"{num_bytes / KIB:.4g} KiB"


def cpuinfo(root: Path, key: str) -> str | None:
    """Return the value of a key for the first processor in /proc/cpuinfo; None where it is missing."""
    match = re.search(rf"^{re.escape(key)}\s*:\s*(.+)$", read_text(root / "proc/cpuinfo") or "", re.MULTILINE)
    return match[1].strip() if match else None


def _model_name_elsewhere() -> str | None:
    """Return the processor's name where /proc/cpuinfo has none: from lscpu (ARM part numbers) or macOS's sysctl."""
    if platform.system() == "Darwin":
        return run_for_output("sysctl", "-n", "machdep.cpu.brand_string") or None
    match = re.search(r"^Model name:\s*(.+)$", run_for_output("lscpu", LC_ALL="C") or "", re.MULTILINE)
    return match[1].strip() if match and match[1].strip() != "-" else None


def _frequency(root: Path) -> DetectedValue | None:
    folder = root / _CPU_FOLDERS / "cpu0/cpufreq"
    parts = [
        f"{int(text) / 1000:.0f} MHz {name}"
        for file, name in (("base_frequency", "base"), ("cpuinfo_max_freq", "maximum"))
        if (text := read_text(folder / file) or "").isdecimal()
    ]
    if parts:
        return DetectedValue(", ".join(parts), "sysfs cpufreq")
    match = re.fullmatch(r"(\d+)(\.\d+)?", cpuinfo(root, "cpu MHz") or "")
    return DetectedValue(f"{float(match[0]):.0f} MHz", "/proc/cpuinfo cpu MHz, now") if match else None


def _caches(root: Path) -> str:
    """Return each CPU cache once, however many CPUs share it: 'L1d 2 x 48 KiB, …'."""
    caches: dict[tuple[str, str, str], str] = {}
    for folder in sorted((root / _CPU_FOLDERS).glob("cpu[0-9]*/cache/index[0-9]*")):
        level, kind, size, shared = (read_text(folder / n) for n in ("level", "type", "size", "shared_cpu_list"))
        match = re.fullmatch(r"(\d+)K", size or "")
        if level and kind and match:
            letter = {"Data": "d", "Instruction": "i"}.get(kind, "")
            caches[level, letter, shared or str(folder)] = format_bytes(int(match[1]) * KIB)
    names = sorted({(level, letter) for level, letter, _ in caches})
    return ", ".join(
        f"L{level}{letter} {count_alike(size for key, size in caches.items() if key[:2] == (level, letter))}"
        for level, letter in names
    )


def _udev_modules(root: Path) -> list[str]:
    text = read_text(root / "run/udev/data/+dmi:id") or ""
    fields = dict(re.findall(r"^E:MEMORY_DEVICE_(\d+_\w+)=(.*)$", text, re.MULTILINE))
    modules = []
    for number in range(1024):
        size = fields.get(f"{number}_SIZE", "")
        if size.isdecimal() and int(size):
            words = [format_bytes(int(size)), fields.get(f"{number}_TYPE", "")]
            speed = fields.get(f"{number}_CONFIGURED_SPEED_MTS") or fields.get(f"{number}_SPEED_MTS", "")
            modules.append(" ".join([*filter(None, words), *([f"{speed} MT/s"] if speed.isdecimal() else [])]))
    return modules


def _edac_modules(root: Path) -> list[str]:
    modules = []
    for folder in sorted((root / "sys/devices/system/edac/mc").glob("mc[0-9]*/dimm[0-9]*")):
        size, kind = read_text(folder / "size") or "", read_text(folder / "dimm_mem_type") or ""
        if size.isdecimal() and int(size):
            modules.append(f"{format_bytes(int(size) * MIB)} {kind}".strip())
    return modules


def _describe_product(root: Path) -> dict[str, DetectedValue]:
    product = " ".join(filter(None, (_dmi(root, name) for name in ("sys_vendor", "product_name"))))
    hypervisor = virtualization(root)
    if hypervisor:
        product = "; ".join(filter(None, (product, f"virtualised: {hypervisor}")))
    return {"hw_notes": DetectedValue(product, "DMI, /proc/cpuinfo")} if product else {}


def _dmi(root: Path, name: str) -> str:
    text = read_text(root / "sys/class/dmi/id" / name) or ""
    return "" if text.lower() in _PLACEHOLDERS else text


def _read_disk(folder: Path) -> tuple[str, int] | None:
    """Return (kind, bytes) of a fixed disk; None for any other block device."""
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
