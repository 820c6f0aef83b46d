"""What the adapter of each rule begins with: the library's path, and the job around its call."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from mlm.foundations.environment import check_environment
from mlm.foundations.errors import MlmError
from mlm.foundations.job import end_by_signals, run

# Before the imports that take seconds.
end_by_signals()
try:
    check_environment()
except MlmError as error:
    sys.exit(f"\nError: {error}\n")

__all__ = ["run"]
