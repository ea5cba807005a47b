"""Bundles: what is packed is read back; what is damaged, edited or hostile is refused, and writes nothing."""

import json
import os
import stat
import struct
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from bundle_builder import rewrite, write_bundle, write_speed

from reports.results import bundles, reference_systems
from reports.results.bundles import read_bundle, write_members
from rules.errors import InputError
from rules.records.kept.bundle import BUNDLE_FILE, digest_files

pytestmark = pytest.mark.usefixtures("temporary")
SET = "dlrm_tiny-box-speed-20261121T030000Z"
MEMBER = f"{SET}/extra/throughput.json"
Members = dict[str, bytes]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return write_bundle(tmp_path / "in" / "box.zip", write_speed(tmp_path / "sets" / SET, 2_000.0))


def refused(path: Path) -> str:
    """Return the error of a bundle that cannot be read; nothing of it is opened."""
    with pytest.raises(InputError) as error:
        reference_systems.open_system(path)
    assert not list(Path(tempfile.gettempdir()).iterdir())
    assert "Get the bundle again, or make it with" in str(error.value)
    return str(error.value)


def test_what_is_packed_is_read_back_and_equal_sets_are_packed_alike(bundle: Path, tmp_path: Path) -> None:
    read = read_bundle(bundle)
    assert read.record.name == "box" and set(read.files) == {"system.toml", MEMBER, f"{SET}/extra/run_set.json"}
    (tmp_path / "out").mkdir()
    write_members(read, tmp_path / "out")
    assert (tmp_path / "out" / MEMBER).read_bytes() == (tmp_path / "sets" / MEMBER).read_bytes()
    assert write_bundle(tmp_path / "box.zip", tmp_path / "sets" / SET).read_bytes() == bundle.read_bytes()


def test_a_bundle_is_opened_once_and_gone_afterwards(bundle: Path) -> None:
    opened = reference_systems.open_system(bundle)
    assert reference_systems.open_system(bundle) is opened and (opened.folder / MEMBER).is_file()
    reference_systems.close_systems()
    assert not opened.folder.exists() and not list(Path(tempfile.gettempdir()).iterdir())


def _edit(member: str, change: Callable[[bytes], bytes]) -> Callable[[Members], None]:
    return lambda members: members.update({member: change(members[member])})


def _edit_record(**changes: object) -> Callable[[Members], None]:
    return _edit(BUNDLE_FILE, lambda content: json.dumps(json.loads(content) | changes).encode())


def _lift_a_digest(members: Members) -> None:
    """A measured number and its digest are edited, and not the digest of the digests."""
    record = json.loads(members[BUNDLE_FILE])
    record["files"][MEMBER] = "0" * 64
    members[BUNDLE_FILE] = json.dumps(record).encode()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_edit(MEMBER, lambda content: content.replace(b"1000", b"9000", 1)), f"{MEMBER}: found a file of digest"),
        (_lift_a_digest, f"{BUNDLE_FILE}: found files that files_sha256 is not the digest of"),
        (lambda members: members.pop(MEMBER), f"{MEMBER}: found no such member"),
        (lambda members: members.update({f"{SET}/extra/last_run": b"1"}), "extra/last_run: found a member that"),
        (lambda members: members.pop(BUNDLE_FILE), f"{BUNDLE_FILE}: found no such member"),
        (_edit(BUNDLE_FILE, lambda content: content[:-9]), f"{BUNDLE_FILE}: found"),
        (_edit_record(schema_version=3), f"{BUNDLE_FILE}: schema_version: found 3, expected 1 (a newer dlrmbench"),
        (_edit_record(name="../up"), f'{BUNDLE_FILE}: name: found "../up"'),
        (_edit_record(files={}), f"{BUNDLE_FILE}: found files that files_sha256"),
        (lambda members: members.update({"setup.py": b"1"}), "setup.py: found a file that bundles do not hold"),
    ],
)
def test_a_bundle_that_was_edited_is_refused_by_the_member(
    change: Callable[[Members], None], said: str, bundle: Path, tmp_path: Path
) -> None:
    assert said in refused(rewrite(bundle, change))


@pytest.mark.parametrize("num_bytes", [0, 1, 30, 200, 500, -1, -20, -100])
def test_a_bundle_that_is_cut_is_refused(num_bytes: int, bundle: Path) -> None:
    bundle.write_bytes(bundle.read_bytes()[:num_bytes])
    assert "found no ZIP archive that can be read" in refused(bundle)


def test_no_byte_of_a_bundle_can_be_changed_unseen(bundle: Path) -> None:
    """Where one is of no member's content, such as a date, all members are read as they were packed."""
    content, known = bundle.read_bytes(), read_bundle(bundle).files
    for place in range(0, len(content), 29):
        changed = bytearray(content)
        changed[place] ^= 0x55
        bundle.write_bytes(changed)
        try:
            assert read_bundle(bundle).files == known, place
        except InputError as error:
            assert "expected" in str(error)


NAMES = [
    "/etc/x", "../x", f"{SET}/../../x", f"../{SET}/extra/throughput.json", f"{SET}/extra/../throughput.json",
    f"{SET}\\extra\\throughput.json", f"./{MEMBER}", f"/{MEMBER}", f"{SET}/extra/", f".hidden/{MEMBER}", "/",
    f"{SET}/results/../box/result_0.txt", f"{SET}/systems/a\n.json", "system.toml/extra/throughput.json",
    f"{SET}/extra/run_0/attempt_0/stderr.txt", f"{SET}/{'x' * 300}/extra/throughput.json", "C:/x", "report.html",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_no_name_leads_out_of_the_folder(name: str, bundle: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    assert "found a file that bundles do not hold" in refused(
        rewrite(bundle, lambda members: members.update({name: b"1"}))
    )
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFDIR, stat.S_IFIFO, stat.S_IFCHR])
def test_links_and_other_special_files_are_refused(kind: int, bundle: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(bundle, "a") as archive:
        about = zipfile.ZipInfo(f"{SET}/extra/last_run")
        about.external_attr = (kind | 0o777) << 16
        archive.writestr(about, "/etc/passwd")
    assert f"{SET}/extra/last_run: found a link or another special file" in refused(bundle)


def test_a_member_that_is_there_twice_is_refused(bundle: Path) -> None:
    with zipfile.ZipFile(bundle, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr(MEMBER, "{}")
    assert f"{MEMBER}: found a member twice" in refused(bundle)


@pytest.mark.parametrize(("num_bytes", "num_members"), [(16 << 20, 1), (3 << 20, 3)])
def test_a_bomb_is_decompressed_no_further_than_the_limit(
    num_bytes: int, num_members: int, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousandfold: in one member, and in many that are small enough each."""
    monkeypatch.setattr(bundles, "MAX_TOTAL_BYTES", 8 << 20)
    with zipfile.ZipFile(bundle, "a", zipfile.ZIP_DEFLATED) as archive:
        for number in range(num_members):
            with archive.open(f"{SET}/extra/run_{number}/attempt_0/run.json", "w") as file:
                for _ in range(num_bytes >> 20):
                    file.write(bytes(1 << 20))
    assert bundle.stat().st_size < bundles.MAX_BYTES
    said = refused(bundle)
    assert "/attempt_0/run.json: found more than" in said and "8,388,608 of all members" in said


def test_a_size_that_is_wrong_allows_no_more_bytes(bundle: Path) -> None:
    """The archive says that a bomb has ten bytes: the first ten have another digest than the whole."""
    name = f"{SET}/extra/run_0/attempt_0/run.json"
    with zipfile.ZipFile(bundle, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, bytes(8 << 20))
    content = bundle.read_bytes()
    bundle.write_bytes(content.replace(struct.pack("<L", 8 << 20), struct.pack("<L", 10)))
    assert f"{name}: found" in refused(bundle)


def test_too_many_members_or_bytes_are_refused_before_any_is_read(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "_read_member", None)
    with zipfile.ZipFile(bundle, "a") as archive:
        for number in range(bundles.MAX_MEMBERS):
            archive.writestr(f"{SET}/extra/run_{number}/attempt_0/run.json", "")
    assert "members, expected at most 2,000" in refused(bundle)
    with bundle.open("ab") as file:
        file.truncate(bundles.MAX_BYTES + 1)
    assert "2,097,153 bytes, expected at most 2,097,152 bytes" in refused(bundle)


def test_a_pipe_a_folder_and_another_archive_are_no_bundle(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.zip")
    (tmp_path / "folder.zip").mkdir()
    (tmp_path / "text.zip").write_text("hello")
    for name, said in {"pipe": "no regular file", "folder": "no regular file", "text": "no ZIP archive"}.items():
        assert said in refused(tmp_path / f"{name}.zip")
    with pytest.raises(FileNotFoundError):
        reference_systems.open_system(tmp_path / "absent.zip")


def test_a_bundle_says_the_digest_of_all_its_files(bundle: Path) -> None:
    record = read_bundle(bundle).record
    assert record.files_sha256 == digest_files(record.files)
    assert digest_files(dict(reversed(record.files.items()))) == record.files_sha256
    with pytest.raises(ValueError, match="not a file of a bundle"):
        bundles.pack("box", {"../x": b""}, created_utc="", harness_version="")
