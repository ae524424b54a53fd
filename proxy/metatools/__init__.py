"""What an agent sees instead of thousands of schemas: the few tools that the gateway itself offers."""
