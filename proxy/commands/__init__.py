"""The subcommands of `toolatlas`, one module per family; `proxy/cli.py` joins them."""
