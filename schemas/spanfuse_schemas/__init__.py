"""The wire contracts of spanfuse: what travels in its topics, and how it is read."""

from spanfuse_schemas.budget import Budget, BudgetBook, BudgetOrder
from spanfuse_schemas.call import Action, Alias, Call, CallBatch, Drift, Fingerprint, Message, Moved, Reset, Tokens
from spanfuse_schemas.charge import Charge, ChargeBatch, Grown
from spanfuse_schemas.decision import Decision, LoopPrint
from spanfuse_schemas.detection import Detection, Evidence
from spanfuse_schemas.notice import POLICY_KEY, PolicyNotice
from spanfuse_schemas.policy import Override, Policy, Rules
from spanfuse_schemas.record import SCHEMA_VERSION, Record
from spanfuse_schemas.tool_policy import Matcher, ToolAction, ToolRule

__all__ = [
    "POLICY_KEY",
    "SCHEMA_VERSION",
    "Action",
    "Alias",
    "Budget",
    "BudgetBook",
    "BudgetOrder",
    "Call",
    "CallBatch",
    "Charge",
    "ChargeBatch",
    "Decision",
    "Detection",
    "Drift",
    "Evidence",
    "Fingerprint",
    "Grown",
    "LoopPrint",
    "Matcher",
    "Message",
    "Moved",
    "Override",
    "Policy",
    "PolicyNotice",
    "Record",
    "Reset",
    "Rules",
    "Tokens",
    "ToolAction",
    "ToolRule",
]
