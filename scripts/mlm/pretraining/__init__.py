"""Masked batches, the train step, saved states, the exported model."""
