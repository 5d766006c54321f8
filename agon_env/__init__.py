"""Contests between language models."""
