"""Pretraining in JAX: the encoder of `mlm.model`, on a mesh of devices."""
