"""Agent-facing side: MCP over HTTP and stdio, both protocol eras. We play the MCP server here."""
