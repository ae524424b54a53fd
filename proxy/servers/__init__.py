"""Server-facing side: configuration, connections, supervision, permission. We play the MCP client here."""
