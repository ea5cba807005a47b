"""Print the JSON Schema of a file beside the logs: python -m rules.records NAME."""

import json
import sys

from rules.records.codec import json_schema
from rules.records.kinds import RECORDS


def main(names: list[str]) -> int:
    """Print one schema. Returns 2 and lists the names where another number of names, or no known one, is given."""
    if len(names) != 1 or names[0] not in RECORDS:
        sys.stderr.write(f"Usage: python -m rules.records NAME, one of {', '.join(RECORDS)}\n")
        return 2
    sys.stdout.write(json.dumps(json_schema(RECORDS[names[0]]), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
