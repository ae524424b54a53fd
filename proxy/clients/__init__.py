"""The configuration files of MCP clients: reading servers out of them and writing ourselves into them."""
