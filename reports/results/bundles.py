"""Packs and reads reference bundles. A bundle is one archive with one system's result sets; when it is read, its
contents are not trusted.

A bundle is a ZIP archive of regular files. The file bundle.json has the digest of each other file. The other files
are system.toml, with the system's rates, and the files of run sets that are needed to judge and compare them. Sizes,
names and digests are checked before anything is written, so no archive can write outside of the folder into which it
is unpacked.
"""

import hashlib
import io
import re
import stat
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from reports.text.formatting import printable
from rules.errors import InputError
from rules.open_file import NotRegularError, TooLargeError, read_regular
from rules.records.codec import DamageError, convert, encode, parse_object
from rules.records.kept.bundle import BUNDLE_FILE, BundleRecord, digest_files

SUFFIX = ".zip"
RATES_FILE = "system.toml"
MAX_BYTES = 2 << 20
"""Largest size in bytes of a reference bundle's archive; an archive of eight sets has a few hundred kB."""
MAX_MEMBERS = 2_000
MAX_MEMBER_BYTES = 4 << 20
MAX_TOTAL_BYTES = 32 << 20
"""Largest size in bytes of all files in an archive together. It is counted during decompression, since the archive
may state a smaller size."""
_PART = r"[^./\\\x00-\x1f\x7f][^/\\\x00-\x1f\x7f]{0,199}"
_OF_A_SET = (
    r"extra/(?:definition\.toml|run_set\.json|last_run|throughput\.json|run_\d{1,6}/attempt_\d{1,6}/run\.json)"
    rf"|results/{_PART}/{_PART}/result_\d{{1,6}}\.txt|systems/{_PART}\.json"
)
_MEMBER = re.compile(rf"system\.toml|(?!system\.toml/){_PART}/(?:{_OF_A_SET})")
SET_FILES = (
    "extra/definition.toml",
    "extra/run_set.json",
    "extra/last_run",
    "extra/throughput.json",
    "extra/run_*/attempt_*/run.json",
    "results/*/*/result_*.txt",
    "systems/*.json",
)
"""Files of a run set that a reference bundle (.zip of a system's results) holds, as patterns below the set's
folder."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
_KINDS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_BROKEN = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OverflowError, ValueError,
    IndexError,
)  # fmt: skip
"""Errors that zipfile raises for damaged archives; its documentation names only BadZipFile."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bundle:
    """Reference bundle (.zip of a system's results) in memory: its record bundle.json, and a dict from the name of
    each other file to the file's content."""

    path: Path
    record: BundleRecord
    files: Mapping[str, bytes]


def pack(name: str, files: Mapping[str, bytes], *, created_utc: str, harness_version: str) -> bytes:
    """Return the ZIP archive of a system's result files; equal arguments give equal bytes.

    Raises ValueError if a reference bundle must not hold one of the files, or if the archive is larger than
    MAX_BYTES.
    """
    if odd := [member for member in files if not _MEMBER.fullmatch(member)]:
        raise ValueError(f"{printable(odd[0])}: not a file of a bundle.")
    digests = {member: hashlib.sha256(files[member]).hexdigest() for member in sorted(files)}
    record = BundleRecord(
        name=name,
        created_utc=created_utc,
        harness_version=harness_version,
        files=digests,
        files_sha256=digest_files(digests),
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for member, content in {BUNDLE_FILE: encode(record).encode(), **files}.items():
            about = zipfile.ZipInfo(member, date_time=_EPOCH)
            about.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(about, content, zipfile.ZIP_DEFLATED, 9)
    if packed.tell() > MAX_BYTES:
        raise ValueError(f"{packed.tell():,} bytes, expected at most {MAX_BYTES:,}.")
    return packed.getvalue()


def read_bundle(path: Path) -> Bundle:
    """Read a reference bundle (.zip of a system's results) into memory; nothing is written.

    Raises InputError, which names the file in the archive, if the archive is damaged, edited, of another version or
    kind, or beyond MAX_BYTES, MAX_MEMBERS, MAX_MEMBER_BYTES or MAX_TOTAL_BYTES. Raises OSError if the archive cannot
    be read.
    """
    try:
        content = read_regular(path, MAX_BYTES)
    except NotRegularError:
        raise _refused(path, "", "no regular file", "a bundle") from None
    except TooLargeError as error:
        raise _refused(path, "", str(error), f"at most {MAX_BYTES:,} bytes") from None
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            left, files = MAX_TOTAL_BYTES, dict[str, bytes]()
            for member, about in _list_members(path, archive).items():
                files[member] = _read_member(path, archive, about, left)
                left -= len(files[member])
    except InputError:
        raise
    except _BROKEN as error:
        raise _refused(path, "", f"no ZIP archive that can be read ({printable(error, 80)})", "a bundle") from None
    record = _read_record(path, files.pop(BUNDLE_FILE, None))
    _check_digests(path, record, files)
    return Bundle(path=path, record=record, files=files)


def is_bundle(path: Path) -> bool:
    """Return whether a file is a ZIP archive with bundle.json, that is, a reference bundle; it may still be
    damaged."""
    try:
        with zipfile.ZipFile(io.BytesIO(read_regular(path, MAX_BYTES))) as archive:
            return BUNDLE_FILE in archive.namelist()
    except (OSError, *_BROKEN):
        return False


def write_members(bundle: Bundle, folder: Path) -> None:
    """Write the files in a reference bundle (.zip of a system's results) below an empty folder. Raises OSError if a
    file cannot be written."""
    for member, content in bundle.files.items():
        place = folder / member
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("xb") as file:
            file.write(content)


def _list_members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return a dict from file name to archive entry for a reference bundle (a .zip), without decompressing anything.
    Raises InputError if the archive has more than MAX_MEMBERS files, an entry that no bundle may have, or no
    bundle.json."""
    found = archive.infolist()
    if len(found) > MAX_MEMBERS:
        raise _refused(path, "", f"{len(found):,} members", f"at most {MAX_MEMBERS:,}")
    members = dict[str, zipfile.ZipInfo]()
    for about in found:
        name, mode = about.filename, about.external_attr >> 16
        if name in members:
            raise _refused(path, name, "a member twice", "each member once")
        if name != BUNDLE_FILE and not _MEMBER.fullmatch(name):
            raise _refused(path, name, "a file that bundles do not hold", "files of run sets, a folder for each set")
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise _refused(path, name, "a link or another special file", "regular files")
        if about.flag_bits & 1 or about.compress_type not in _KINDS:
            raise _refused(path, name, "an encrypted member, or another compression", "deflate")
        members[name] = about
    if BUNDLE_FILE not in members:
        raise _refused(path, BUNDLE_FILE, "no such member", "an archive of 'dlrmbench measure-system --bundle'")
    return members


def _read_member(path: Path, archive: zipfile.ZipFile, about: zipfile.ZipInfo, left: int) -> bytes:
    """Decompress one file of an archive. Raises InputError if the file has more than MAX_MEMBER_BYTES, or more than
    `left`, the number of bytes that may still be decompressed."""
    most = min(MAX_MEMBER_BYTES, left)
    try:
        with archive.open(about) as file:
            content = file.read(most + 1)
    except _BROKEN as error:
        raise _refused(path, about.filename, f"damage ({printable(error, 80)})", "what was packed") from None
    if len(content) > most:
        allowed = f"at most {MAX_MEMBER_BYTES:,} bytes, and {MAX_TOTAL_BYTES:,} of all members"
        raise _refused(path, about.filename, f"more than {most:,} bytes", allowed)
    return content


def _read_record(path: Path, content: bytes | None) -> BundleRecord:
    try:
        return convert(parse_object(content or b""), BundleRecord)
    except DamageError as damage:
        raise InputError(f"{printable(path)}: {BUNDLE_FILE}: {str(damage).removeprefix(': ')}. {_REMEDY}") from None


def _check_digests(path: Path, record: BundleRecord, files: Mapping[str, bytes]) -> None:
    if digest_files(record.files) != record.files_sha256:
        raise _refused(path, BUNDLE_FILE, "files that files_sha256 is not the digest of", "what was packed")
    for name in sorted(record.files.keys() | files.keys()):
        if name not in files or name not in record.files:
            found = "no such member" if name not in files else "a member that bundle.json does not name"
            raise _refused(path, name, found, "what was packed")
        if (digest := hashlib.sha256(files[name]).hexdigest()) != record.files[name]:
            raise _refused(path, name, f"a file of digest {digest[:12]}…", f"{record.files[name][:12]}…")


_REMEDY = "Get the bundle again, or make it with 'dlrmbench measure-system --bundle NAME'."


def _refused(path: Path, member: str, found: str, expected: str) -> InputError:
    place = f"{printable(path)}: {printable(member, 200)}: " if member else f"{printable(path)}: "
    return InputError(f"{place}found {found}, expected {expected}. {_REMEDY}")
