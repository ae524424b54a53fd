"""Web pages and REST over the store: servers, episodes, tools to be read, and labels to be given.

Above: endpoint/http.py puts them beside `/mcp`. Below: store/, and the token file.
"""
