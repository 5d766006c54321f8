"""The games."""

from agon_env.games.draft_challenge import DraftChallenge, Solo

__all__ = ["DraftChallenge", "Solo"]
