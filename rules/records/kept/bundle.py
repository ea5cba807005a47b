"""bundle.json lists the files of a reference bundle (a .zip of one system's reference results) with the digest of
each file."""

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from rules.records.codec import Document, Sha256

BUNDLE_FILE = "bundle.json"


class BundleRecord(Document, frozen=True, kw_only=True):
    """Contents of a reference bundle: the result sets and measured rates of one system in an archive (`measure-system
    --bundle`)."""

    name: Annotated[str, Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$", max_length=100)]
    created_utc: Annotated[str, Meta(max_length=40)]
    harness_version: Annotated[str, Meta(max_length=40)]
    files: Annotated[dict[Annotated[str, Meta(max_length=600)], Sha256], Meta(max_length=2000)]
    """Map from the name of each file in the bundle's archive, except bundle.json, to the file's SHA-256."""
    files_sha256: Sha256
    """Digest of the list `files`, which reveals edits to that list. Digests reveal damage and edits, not forgery."""


def digest_files(files: Mapping[str, str]) -> str:
    """Return one digest of the names and digests of all files in a bundle's archive, whatever their order."""
    return hashlib.sha256(json.dumps(sorted(files.items())).encode()).hexdigest()
