"""Web pages and REST over the store, read only: servers, episodes, tools.

Above: endpoint/http.py puts them beside `/mcp`. Below: store/, and the token file.
"""
