"""Examples that run: agents with their tools and checks, which import `longshift` only, and a model's server, which
imports nothing of it."""
