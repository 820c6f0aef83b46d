"""Training a tokenizer, and encoding text with it."""
