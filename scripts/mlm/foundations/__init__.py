"""What every other package uses: atomic writes, digests, errors, the environment."""
