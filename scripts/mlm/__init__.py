"""The library behind the workflow: plain functions and data classes, free of Snakemake."""
