"""Runs what can be trained: with progress, metrics, early stop, and a way back after a kill at any point."""
