"""Training: what turns a recipe into a run that reaches its end."""
