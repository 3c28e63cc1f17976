"""Proves an artifact's numbers against an oracle, and says what that did and did not prove."""
