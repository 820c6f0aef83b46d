"""Pretraining in TensorFlow: the encoder of `mlm.model`, on a distribution strategy."""
