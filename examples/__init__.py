"""Examples that run: each is an agent with its tools, and imports `longshift` only."""
