"""A run's steps compiled for TPUs and GPUs on a machine without either."""
