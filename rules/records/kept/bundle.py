"""bundle.json: what a bundle, one archive of a system's reference sets, holds, with the digest of each file."""

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from rules.records.codec import Document, Sha256

BUNDLE_FILE = "bundle.json"


class BundleRecord(Document, frozen=True, kw_only=True):
    """The reference sets of one system, and its rates, as one archive (`measure-system --bundle`)."""

    name: Annotated[str, Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$", max_length=100)]
    created_utc: Annotated[str, Meta(max_length=40)]
    harness_version: Annotated[str, Meta(max_length=40)]
    files: Annotated[dict[Annotated[str, Meta(max_length=600)], Sha256], Meta(max_length=2000)]
    """The digest of each member but this file, by its name."""
    files_sha256: Sha256
    """The digest of the above, by which an edited list shows. Digests find damage and edits, no forgery."""


def digest_files(files: Mapping[str, str]) -> str:
    """Return the digest of the names and digests of all members, whatever their order."""
    return hashlib.sha256(json.dumps(sorted(files.items())).encode()).hexdigest()
