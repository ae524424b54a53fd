"""Runs the official conformance suite against a fixture server, alone and behind the gateway."""
