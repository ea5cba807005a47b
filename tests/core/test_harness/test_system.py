"""This system in MLPerf's 33 fields, from made-up system trees and from the system that the test runs on."""

import json
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.foundation.errors import ExitCode, HarnessError
from harness.system import software
from harness.system.accelerators import describe_accelerators, parse_nvidia_smi, read_accelerators
from harness.system.description import SystemDescription, describe_system, make_system_slug, write_system_json
from harness.system.hardware import describe_hardware, describe_networking, describe_storage, virtualization
from harness.system.software import WORKER_VARIABLES, container, environment, select_environment_variables
from harness.system.submission import SubmissionValue, make_submission_fields
from rules.records.codec import json_schema
from rules.records.system import SYSTEM_FIELDS, SystemRecord
from rules.tree.system_desc import STATUSES


def tree(root: Path, entries: dict[str, str]) -> Path:
    for name, text in entries.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def two_sockets(root: Path) -> Path:
    """2 packages of 2 cores with 2 threads each, 1 MiB of L2 per core."""
    entries = {
        "proc/cpuinfo": "processor : 0\nmodel name : AMD EPYC 9554 64-Core Processor\nflags : fpu avx2 avx512f\n",
        "proc/meminfo": "MemTotal:       1048576 kB\nMemFree: 1 kB",
        "etc/os-release": 'NAME=x\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"',
        "sys/class/dmi/id/sys_vendor": "Example Corp",
        "sys/class/dmi/id/product_name": "E9000",
        "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "3750000",
    }
    for cpu in range(8):
        folder = f"sys/devices/system/cpu/cpu{cpu}"
        core = cpu % 4
        entries[f"{folder}/topology/physical_package_id"] = str(core // 2)
        entries[f"{folder}/topology/core_id"] = str(core % 2)
        entries[f"{folder}/cache/index2/level"] = "2"
        entries[f"{folder}/cache/index2/type"] = "Unified"
        entries[f"{folder}/cache/index2/size"] = "1024K"
        entries[f"{folder}/cache/index2/shared_cpu_list"] = f"{core},{core + 4}"
    return tree(root, entries)


def values(found: dict[str, object]) -> dict[str, str]:
    return {name: entry.value for name, entry in found.items()}  # type: ignore[attr-defined]


def test_sockets_cores_threads_caches_and_memory_of_a_bare_server(tmp_path: Path) -> None:
    assert values(dict(describe_hardware(two_sockets(tmp_path)))) == {
        "host_processor_model_name": "AMD EPYC 9554 64-Core Processor",
        "host_processors_per_node": "2",
        "host_processor_core_count": "2",
        "host_processor_frequency": "3750 MHz maximum",
        "host_processor_caches": "L2 4 x 1 MiB",
        "host_memory_capacity": "1.0 GiB",
        "hw_notes": "Example Corp E9000",
    }


def test_a_processor_whose_name_is_hidden_has_its_numbers(tmp_path: Path) -> None:
    text = "vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 1\nmodel name : AMD EPYC\nstepping : 1"
    root = tree(two_sockets(tmp_path), {"proc/cpuinfo": text})
    assert environment({}, root)["processor"] == "AuthenticAMD family 25 model 1"
    assert environment({}, tree(tmp_path, {"proc/cpuinfo": "CPU part : 0xd40"}))["processor"] is None


def test_virtual_cpus_are_counted_only_in_a_virtual_machine(tmp_path: Path) -> None:
    root = tree(two_sockets(tmp_path), {"proc/cpuinfo": "model name : X\nflags : fpu hypervisor\ncpu MHz : 2596.1"})
    found = values(dict(describe_hardware(root)))
    assert found["host_processor_vcpu_count"] == "8"
    assert virtualization(root) == "unnamed hypervisor"
    assert "virtualised" in found["hw_notes"]


@pytest.mark.parametrize(
    ("vendor", "product", "expected"),
    [
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)", "qemu"),
        ("Amazon EC2", "m7i.4xlarge", "amazon ec2"),
        ("Amazon EC2", "c5.metal", None),
        ("Microsoft Corporation", "Virtual Machine", "microsoft"),
        ("Microsoft Corporation", "Surface", None),
        ("Dell Inc.", "PowerEdge R760", None),
    ],
)
def test_hypervisors_are_known_by_their_product_names(
    tmp_path: Path, vendor: str, product: str, expected: str | None
) -> None:
    entries = {"sys/class/dmi/id/sys_vendor": vendor, "sys/class/dmi/id/product_name": product}
    assert virtualization(tree(tmp_path, entries)) == expected


def test_memory_modules_come_from_udev_or_edac(tmp_path: Path) -> None:
    udev = "E:MEMORY_DEVICE_0_SIZE=34359738368\nE:MEMORY_DEVICE_0_TYPE=DDR5\nE:MEMORY_DEVICE_0_SPEED_MTS=4800"
    empty = "E:MEMORY_DEVICE_1_PRESENT=0\nE:MEMORY_DEVICE_1_SIZE=0"
    root = tree(tmp_path / "udev", {"run/udev/data/+dmi:id": f"{udev}\n{empty}\n{udev.replace('_0_', '_2_')}"})
    assert describe_hardware(root)["host_memory_configuration"].value == "2 x 32 GiB DDR5 4800 MT/s"
    edac = "sys/devices/system/edac/mc/mc0/dimm{}/{}"
    root = tree(tmp_path / "edac", {edac.format(0, "size"): "16384", edac.format(0, "dimm_mem_type"): "DDR4"})
    assert describe_hardware(root)["host_memory_configuration"].value == "1 x 16 GiB DDR4"


def test_disks_are_distinguished_and_what_is_no_disk_is_left_out(tmp_path: Path) -> None:
    entries = {}
    for name, sectors, rotational in (
        ("nvme0n1", 7_501_476_528, "0"),
        ("nvme1n1", 7_501_476_528, "0"),
        ("sda", 1_953_525_168, "1"),
        ("sdb", 1_953_525_168, "0"),
        ("loop0", 4096, "0"),
        ("zram0", 4096, "0"),
        ("md0", 4096, "1"),
        ("vdb", 0, "1"),
    ):
        entries |= {f"sys/block/{name}/size": str(sectors), f"sys/block/{name}/queue/rotational": rotational}
    found = describe_storage(tree(tmp_path, entries))
    assert found["host_storage_type"].value == "NVMe SSD, HDD, SSD"
    assert found["host_storage_capacity"].value == "2 x 3.841 TB NVMe SSD, 1 x 1 TB HDD, 1 x 1 TB SSD"


def test_a_virtual_disk_is_not_called_hdd_or_ssd(tmp_path: Path) -> None:
    found = describe_storage(tree(tmp_path, {"sys/block/vda/size": "2000", "sys/block/vda/queue/rotational": "1"}))
    assert found["host_storage_type"].value == "virtual disk"


def test_only_physical_interfaces_count(tmp_path: Path) -> None:
    net = "sys/class/net"
    root = tree(
        tmp_path,
        {
            f"{net}/eth0/type": "1",
            f"{net}/eth0/speed": "25000",
            f"{net}/eth0/device/vendor": "0x1",
            f"{net}/eth1/type": "1",
            f"{net}/eth1/speed": "-1",
            f"{net}/eth1/device/vendor": "0x1",
            f"{net}/lo/type": "772",
            f"{net}/docker0/type": "1",
            f"{net}/ib0/type": "32",
            f"{net}/ib0/device/vendor": "0x1",
            "sys/class/infiniband/mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)",
            "sys/class/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand",
        },
    )
    assert describe_networking(root)["host_networking"].value == (
        "1 x Ethernet 25 Gb/s, 1 x Ethernet, 1 x InfiniBand 400 Gb/sec (4X NDR)"
    )


def test_accelerators_as_nvidia_smi_prints_them() -> None:
    row = "NVIDIA H100 80GB HBM3, 81559, 1980, 5, 16, 580.82.07"
    found = values(dict(describe_accelerators(parse_nvidia_smi(f"{row}\n{row}\n"))))
    assert found == {
        "accelerators_per_node": "2",
        "accelerator_model_name": "NVIDIA H100 80GB HBM3",
        "accelerator_memory_capacity": "79.6 GiB",
        "accelerator_frequency": "1980 MHz maximum",
        "accelerator_host_interconnect": "PCIe Gen5 x16",
    }


@given(st.text())
def test_any_output_of_nvidia_smi_is_survived(text: str) -> None:
    assert all(
        isinstance(value, str) for value in values(dict(describe_accelerators(parse_nvidia_smi(text)))).values()
    )


def test_no_accelerator_is_a_zero_only_where_one_would_be_seen(tmp_path: Path) -> None:
    assert describe_accelerators(read_accelerators(tmp_path)) == {}
    pci = "sys/bus/pci/devices/0000:00:0{}.0/class"
    root = tree(tmp_path / "none", {pci.format(1): "0x020000"})
    found = describe_accelerators(read_accelerators(root))
    assert found["accelerators_per_node"].value == "0"
    others = {field: entry.value for field, entry in found.items() if field != "accelerators_per_node"}
    assert len(others) == 8 and set(others.values()) == {"N/A"}
    root = tree(tmp_path / "one", {pci.format(1): "0x030200", pci.format(2): "0x120000"})
    found = describe_accelerators(read_accelerators(root))
    assert values(dict(found)) == {"accelerators_per_node": "2"}


def test_the_33_fields_are_strings_with_a_provenance_each() -> None:
    description = describe_system({})
    assert tuple(description.fields) == SYSTEM_FIELDS == tuple(description.provenance)
    assert len(SYSTEM_FIELDS) == 33
    assert all(isinstance(value, str) for value in description.fields.values())
    assert all(re.match(r"(detected|given) \(.+\)|unknown", text) for text in description.provenance.values())
    assert description.fields["cooling"] == ""
    assert description.provenance["cooling"] == "unknown"


def test_what_is_given_wins_and_says_who_gave_it(tmp_path: Path) -> None:
    given_fields = {
        "cooling": SubmissionValue("air", "[submission] cooling"),
        "host_memory_capacity": "2 TB",
        "platform": "x",
    }
    description = describe_system(given_fields, root=two_sockets(tmp_path))
    assert description.fields["cooling"] == "air"
    assert description.provenance["cooling"] == "given ([submission] cooling)"
    assert description.fields["host_memory_capacity"] == "2 TB"
    assert "platform" not in description.fields


def test_an_empty_system_says_nothing_and_nothing_is_guessed(tmp_path: Path) -> None:
    description = describe_system({}, root=tmp_path)
    detected = {name for name, text in description.provenance.items() if text.startswith("detected")}
    assert detected == {"system_name", "number_of_nodes", "framework", "other_software_stack"}


def test_unreadable_nonsense_in_system_files_is_survived(tmp_path: Path) -> None:
    root = two_sockets(tmp_path)
    for path in root.rglob("*"):
        if path.is_file():
            path.write_bytes(b"\xff\x00: \n=-1 kB\x1b[31m")
    description = describe_system({}, root=root)
    assert tuple(description.fields) == SYSTEM_FIELDS


def test_the_slug_names_hardware_and_framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.system.description.version_of", lambda package: "2.13.0+cu130")
    description = describe_system({}, root=two_sockets(tmp_path))
    assert make_system_slug(description) == "2x-amd-epyc-9554_torch-2.13.0-cu130" == description.fields["system_name"]
    fields = {"accelerators_per_node": "8", "accelerator_model_name": "NVIDIA H100-SXM5", "number_of_nodes": "4"}
    assert describe_system(fields, root=tmp_path).fields["system_name"] == (
        "4n-8x-nvidia-h100-sxm5_torch-2.13.0-cu130"
    )
    assert describe_system(fields, device="cpu", root=tmp_path).fields["system_name"] == (
        "4n-2x-amd-epyc-9554_torch-2.13.0-cu130"
    )


def test_a_given_name_is_the_name_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.system.description.version_of", lambda package: "2.13.0+cpu")
    description = describe_system({"system_name": "my-box"})
    assert make_system_slug(description) == "my-box" == description.fields["system_name"]
    assert make_system_slug(describe_system({"system_name": "Rack 7 (left)"})) == "rack-7-left"
    long = make_system_slug(describe_system({"system_name": "x" * 200}))
    assert len(long) <= 80 and long != make_system_slug(describe_system({"system_name": "x" * 201}))


@given(st.text())
def test_any_name_makes_a_safe_file_name_that_is_stable(name: str) -> None:
    slug = make_system_slug(SystemDescription(fields={"system_name": name}, provenance={}))
    assert re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,79}", slug)
    assert make_system_slug(SystemDescription(fields={"system_name": slug}, provenance={})) == slug


def test_long_names_stay_different() -> None:
    slugs = {
        make_system_slug(SystemDescription(fields={"system_name": "x" * 200 + end}, provenance={}))
        for end in ("a", "b")
    }
    assert len(slugs) == 2


@pytest.mark.slow
def test_the_file_is_what_the_official_checker_accepts(tmp_path: Path) -> None:
    given_fields = make_submission_fields({"submitter": "Example Corp", "status": "Available cloud"}, {}, {})
    hostile = {"sw_notes": SubmissionValue('",\n<b>\x1b', "test")}
    path = write_system_json(tmp_path / "systems", describe_system(given_fields | hostile))
    content = json.loads(path.read_text())
    assert tuple(content) == SYSTEM_FIELDS
    schema = json_schema(SystemRecord)
    jsonschema.Draft202012Validator(schema).validate(content)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    official = (
        "import sys; from mlperf_logging.system_desc_checker.system_desc_checker import check_system_desc as check;"
        "sys.exit(0 if check(sys.argv[1], 'training', '6.0.0')[0] else 9)"
    )
    bad = tmp_path / "bad.json"
    bad.write_text(path.read_text().replace("Available cloud", "somewhere"))
    for file, code in ((path, 0), (write_system_json(tmp_path / "default", describe_system({})), 0), (bad, 9)):
        done = subprocess.run([sys.executable, "-c", official, file], cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == code, done.stderr.decode()


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    description = describe_system({})
    (tmp_path / "taken.json" / "x").mkdir(parents=True)
    with pytest.raises(OSError, match=r"taken\.json"):
        write_system_json(tmp_path, description, name="taken")
    assert [file.name for file in tmp_path.iterdir()] == ["taken.json"]


def test_submission_fields_take_the_last_of_table_environment_and_option() -> None:
    fields = make_submission_fields(
        {"submitter": "A", "cooling": "air", "number_of_nodes": 2},
        {"DLRMBENCH_SUBMISSION_SUBMITTER": "B", "DLRMBENCH_SUBMISSION_COOLING": "liquid", "PATH": "/bin"},
        {"submitter": "C", "division": None},
    )
    assert fields["submitter"] == SubmissionValue("C", "--submitter")
    assert fields["cooling"] == SubmissionValue("liquid", "DLRMBENCH_SUBMISSION_COOLING")
    assert fields["number_of_nodes"] == SubmissionValue("2", "[submission] number_of_nodes")
    assert fields["platform"] == SubmissionValue("unspecified", "default")
    assert "division" not in fields


def test_a_field_with_a_hyphen_can_be_given_by_every_source() -> None:
    name = "accelerator_on-chip_memories"
    for table, environ in (
        ({name: "L2 50 MB"}, {}),
        ({name.replace("-", "_"): "L2 50 MB"}, {}),
        ({}, {"DLRMBENCH_SUBMISSION_ACCELERATOR_ON_CHIP_MEMORIES": "L2 50 MB"}),
    ):
        assert make_submission_fields(table, environ, {})[name].value == "L2 50 MB"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"submiter": "A"}, "Did you mean 'submitter'"),
        ({"status": "available cloud"}, "Did you mean 'Available cloud'"),
        ({"status": "yes"}, "Preview"),
        ({"division": "half"}, "closed, open"),
        ({"cooling": ["air"]}, "expected a string"),
        ({"cooling": True}, "expected a string"),
        ({"cooling": "a\nb"}, "one line"),
        ({"cooling": "x" * 2001}, "at most 2000"),
        ({"number_of_nodes": "two"}, "whole number"),
        ({"submitter": " "}, "expected a name"),
    ],
)
def test_impossible_submission_fields_are_refused_with_the_place(table: dict[str, object], message: str) -> None:
    with pytest.raises(HarnessError, match=message) as raised:
        make_submission_fields(table, {}, {}, config_source="mine.toml [submission]")
    assert raised.value.exit_code == ExitCode.USAGE
    assert str(raised.value).startswith("mine.toml [submission]")


@given(st.dictionaries(st.text(), st.one_of(st.text(), st.integers(), st.none(), st.lists(st.text()))))
def test_any_table_is_accepted_or_refused_with_a_message(table: dict[str, object]) -> None:
    try:
        fields = make_submission_fields(table, {}, {})
    except HarnessError as error:
        assert str(error)
    else:
        assert set(fields) >= {"submitter", "platform"}


def test_the_status_vocabulary_is_the_official_checkers() -> None:
    source = (files("mlperf_logging.system_desc_checker") / "system_desc_checker.py").read_text()
    assert all(f'"{status}"' in source for status in STATUSES)
    assert all(f'"{field}"' in source for field in SYSTEM_FIELDS)


def test_the_environment_is_plain_json_without_secrets() -> None:
    environ = {
        "OMP_NUM_THREADS": "2",
        "DLRMBENCH_DATA": "/d",
        "HOME": "/root",
        "CUDA_API_KEY": "k",
        "NCCL_TOKEN": "t",
        "TORCH_MIRROR": "https://user:pw@host/",
        "LD_PRELOAD": "libjemalloc.so",
        "MKL_X": "y" * 1000,
    }
    kept = select_environment_variables(environ)
    assert list(kept) == ["DLRMBENCH_DATA", "LD_PRELOAD", "MKL_X", "OMP_NUM_THREADS"]
    assert len(kept["MKL_X"]) < 500
    found = environment(environ)
    assert json.loads(json.dumps(found)) == found
    assert found["packages"]["torch"] == software.version_of("torch")
    assert found["variables"] == WORKER_VARIABLES | kept, "what workers are given besides"
    assert environment({"MALLOC_MMAP_MAX_": "9"})["variables"]["MALLOC_MMAP_MAX_"] == "9", "the user's own wins"
    assert software.version_of("no-such-package-anywhere") is None


def test_containers_leave_marks(tmp_path: Path) -> None:
    assert container(tmp_path, {}) is None
    assert container(tmp_path, {"APPTAINER_CONTAINER": "/x.sif"}) == "apptainer"
    assert container(tree(tmp_path / "k", {"proc/1/cgroup": "0::/kubepods/pod1"}), {}) == "kubepods"
    assert container(tree(tmp_path / "d", {".dockerenv": ""}), {}) == "docker"
