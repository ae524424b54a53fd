"""Stdio servers under a user of their own: a host starts them for the gateway, which only holds their pipes."""
