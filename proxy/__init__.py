"""The gateway process. A call passes through the packages in this order:

    endpoint/    an agent's MCP request over HTTP or stdio, in either protocol era
    metatools/   what the agent sees: search, list, describe, call, read, finish
    catalog/     which tools exist: records, written names, the immutable snapshot, stubs
    router/      ranks servers and tools for a query
    servers/     live connections to the servers, kept by one supervisor each
    store/       the record of every step

`app.py` is the composition root; `cli.py` is the `toolatlas` command. Nothing here imports trainer or judge.
"""

__version__ = "0.1.0"
