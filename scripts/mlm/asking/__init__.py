"""What a model was shown, computed from what its training was made from."""
