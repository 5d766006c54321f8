"""The contests of a training step: who meets whom, against which opponents, and where the tokens come from."""
