"""Ready-made tools, each set made with `longshift` alone: it knows nothing of endpoints, the journal or Temporal."""
