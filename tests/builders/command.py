"""The command line as a test starts it: the fixture `dlrmbench` of conftest.py is one."""

import subprocess
from collections.abc import Callable

Command = Callable[..., "subprocess.CompletedProcess[str]"]
