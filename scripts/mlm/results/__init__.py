"""What lies below results/: sealed artefacts, and the checks of what they were made from."""
