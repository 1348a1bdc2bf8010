"""Which tools an agent may use.

>>> policy = ToolPolicy().deny("bash", when=lambda args: "rm " in args["command"], reason="Files are kept.")
>>> guard = Guard(tools=policy)
"""

from spanfuse.tools.asking import Approval, Question
from spanfuse.tools.denials import Denial
from spanfuse.tools.denied import ToolDenied
from spanfuse.tools.policy import ToolPolicy

__all__ = ["Approval", "Denial", "Question", "ToolDenied", "ToolPolicy"]
