"""How the hosts that stay keep the garbage collector out of the way."""

from __future__ import annotations

import gc


def spare_the_collector() -> None:
    """What is loaded now stays, and calls are many, short-lived and without cycles: by default the collector would cost as
    much as parsing them, and look through all sessions in pauses of 50 to 100 ms."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
