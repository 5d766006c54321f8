"""Verifiers: is the final answer of this text right?"""

from agon_env.verifiers.math import MathVerifier
from agon_env.verifiers.verdict import Verdict, Verifier

__all__ = ["MathVerifier", "Verdict", "Verifier"]
