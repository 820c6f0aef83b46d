"""Text in, documents out: sources, filters, splits."""
