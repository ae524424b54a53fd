"""Criteria that code decides. Each is one function with the decorator of base.py; library.py collects them."""
