"""What every other package stands on: atomic writes, digests, errors, the environment."""
