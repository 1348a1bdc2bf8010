"""Which tools an agent may use."""
