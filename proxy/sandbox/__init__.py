"""Python that agents write, in interpreters that can reach nothing but the tools their agent may call."""
