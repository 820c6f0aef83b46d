"""Small models and artefacts of other tests serve here too."""

import sys
from pathlib import Path

for folder in ("training", "unit"):
    sys.path.append(str(Path(__file__).parents[1] / folder))
