"""The audit of a run: what follows from its history, and whether its journal holds just that. Pure."""
