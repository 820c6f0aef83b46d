"""One encoder for the families of JAX: its architecture, its weights, its network."""
