"""What is read of messages and answers, whichever library made them, and the fingerprints that remain of it."""
