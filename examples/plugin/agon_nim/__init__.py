"""Nim for agon-env: `game`, `agent` and `algorithm`, each found through an entry point of this distribution."""
