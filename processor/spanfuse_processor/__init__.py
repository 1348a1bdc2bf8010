"""spanfuse's processor: spans in, decisions out."""
