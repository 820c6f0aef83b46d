"""A task on top of the pretrained model, in JAX."""
