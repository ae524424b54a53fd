"""Criteria that a model decides, over any OpenAI-compatible endpoint."""
