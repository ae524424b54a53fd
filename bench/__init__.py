"""What measures the product: `python -m bench NAME [--json OUT]`."""
