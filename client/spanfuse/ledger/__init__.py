"""Budgets that nobody outruns: money is reserved before a call and settled after it, in Redis or SQLite.

>>> ledger = RedisLedger("redis://127.0.0.1:6379/0")
>>> hold = ledger.reserve("call-1", {"user": "u-7"}, Amounts(usd=nano(0.05), tokens=4_000))  # raises Refused
>>> ledger.settle(hold, Amounts(usd=nano(0.031), tokens=2_700))
"""

from spanfuse.ledger.amounts import MAX_AMOUNT, Amounts, nano
from spanfuse.ledger.book import Definitions
from spanfuse.ledger.connect import connect
from spanfuse.ledger.errors import InvalidAmount, LedgerError, Refused, Unavailable, UnknownCall
from spanfuse.ledger.ledger import Ledger
from spanfuse.ledger.records import Account, Hold, Refusal, Settled
from spanfuse.ledger.redis import RedisLedger
from spanfuse.ledger.sqlite import SqliteLedger

__all__ = [
    "MAX_AMOUNT",
    "Account",
    "Amounts",
    "Definitions",
    "Hold",
    "InvalidAmount",
    "Ledger",
    "LedgerError",
    "RedisLedger",
    "Refusal",
    "Refused",
    "Settled",
    "SqliteLedger",
    "Unavailable",
    "UnknownCall",
    "connect",
    "nano",
]
