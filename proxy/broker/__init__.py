"""The broker: a process of its own that alone reaches the Docker engine, so that the gateway does not.

A request passes through listening.py (who may connect), server.py (what may be said), lease.py (whose container it is)
and sandbox/engine_source.py (the one template). client.py is the gateway's end of the socket.
"""
