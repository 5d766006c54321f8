"""The learning."""
