"""How good the policies of a run are: on held-out problems, against each other, step by step."""
