"""How good the model is, beside baselines that need no training."""
