"""`python -m spanfuse_processor`: the command line."""

from __future__ import annotations

from spanfuse_processor.cli import main

if __name__ == "__main__":
    main()
