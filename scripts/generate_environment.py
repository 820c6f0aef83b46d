"""Write envs/environment.yaml, for `snakemake --sdm conda`, from envs/requirements-conda.txt.

.venv/bin/python scripts/generate_environment.py
"""

from pathlib import Path

ENVS = Path(__file__).resolve().parents[1] / "envs"

#: Snakemake copies this file alone to where it makes the environment, so that it can name no other.
HEAD = """\
# The environment of every rule, for `snakemake --sdm conda`: the packages and hashes of
# requirements-conda.txt, on conda's Python. Written by scripts/generate_environment.py.
channels:
  - conda-forge
dependencies:
  - python=3.11
  - pip
  - pip:
      - --require-hashes
"""


def environment_yaml(requirements: str) -> str:
    """The environment that installs `requirements`, pins with their hashes as uv writes them.

    Each pin is an entry of the list `pip`, which conda writes to a requirements file line by line;
    YAML joins the lines of an entry with spaces.
    """
    lines = [line.removesuffix("\\").rstrip() for line in requirements.splitlines()]
    entries = [f"      {'  ' if line.startswith(' ') else '- '}{line.strip()}" for line in lines]
    return HEAD + "\n".join(entries) + "\n"


if __name__ == "__main__":
    pins = (ENVS / "requirements-conda.txt").read_text(encoding="utf-8")
    (ENVS / "environment.yaml").write_text(environment_yaml(pins), encoding="utf-8")
