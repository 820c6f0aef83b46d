"""What the tests of the encoder and of exported models use serves here too."""

import sys
from pathlib import Path

for folder in ("unit", "pytorch"):
    sys.path.append(str(Path(__file__).parents[1] / folder))
