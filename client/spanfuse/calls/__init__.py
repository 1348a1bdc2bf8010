"""Around calls: what is asked before a model call or a tool, what is held, counted and settled after it."""
