"""Engines that sample tokens."""
