"""Microsoft's frameworks: AutoGen, Semantic Kernel, and Agent Framework, in Python and in .NET."""

from __future__ import annotations

from typing import Final

from spanfuse_processor.otlp.dialects.dialect import INPUT_TOKENS, OPERATIONS, OUTPUT_TOKENS, Dialect, Roles
from spanfuse_processor.otlp.dialects.sources import INPUT, Events

AUTOGEN: Final = Dialect(
    name="autogen",
    # It traces agents, tools and its own messages, and leaves model calls to whoever traces the client of the model.
    scopes=("autogen*",),
)

SEMANTIC_KERNEL: Final = Dialect(
    name="semantic_kernel",
    # Messages are log records, which hold a message as JSON text.
    scopes=("semantic_kernel*", "Microsoft.SemanticKernel*"),
    roles=(
        OPERATIONS,
        # .NET's word for it, and Python's for streams
        Roles("gen_ai.operation.name", {"*completions": "llm"}),
    ),
    input=(*INPUT, Events({"gen_ai.prompt": "user"})),
    input_tokens=(*INPUT_TOKENS, "gen_ai.response.prompt_tokens"),
    output_tokens=(*OUTPUT_TOKENS, "gen_ai.response.completion_tokens"),
)

AGENT_FRAMEWORK: Final = Dialect(
    name="agent_framework",
    scopes=("agent_framework*", "Microsoft.Agents*", "Experimental.Microsoft.*", "Microsoft.Extensions.AI*"),
)
