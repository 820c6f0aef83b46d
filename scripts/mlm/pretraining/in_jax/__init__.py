"""Pretraining in JAX: the encoder of `mlm.encoder`, on a mesh of devices."""
