"""A folder that an interrupted measurement of serving left, and how it is gone on with, held against goldens/."""

from golden_scenarios import STARVED, step
from stored_folders import story

STORIES = {
    "serve": story(step("serve dlrm_tiny -n 2 -q", {2: STARVED}), resumed="resume latest; resume latest -n 3"),
}
