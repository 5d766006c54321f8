"""A run from its config to its folder: the step, checkpoints, logs, what is shown meanwhile, what it leaves to others."""
