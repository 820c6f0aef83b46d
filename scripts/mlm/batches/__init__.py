"""Samples to masked batches: their order, the masks, the random numbers behind them."""
