"""Parts of `python -m bench routing`."""
