"""The library behind the workflow: plain functions and data classes, free of Snakemake."""

import os

# Read by transformers when it is imported: what it says of frameworks and options concerns no user.
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
