"""Pretraining in TensorFlow: models of transformers, on a distribution strategy."""
