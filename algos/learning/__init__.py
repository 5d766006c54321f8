"""What the learner is made of: rows in batches, log-probabilities, the optimiser, the update of a policy and of its critic."""
