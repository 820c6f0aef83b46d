"""A run: accelerators, the train step, saved states, the exported model."""
