"""A server of MCP that counts what it executes; as a process it speaks over its standard streams."""

from __future__ import annotations

from typing import Any

try:
    from mcp.server.mcpserver import MCPServer as Server
except ImportError:  # before version 2
    from mcp.server.fastmcp import FastMCP as Server


def made() -> Any:
    """A new server, which has executed nothing."""
    server, executed = Server("counting"), []

    @server.tool()
    def search(query: str) -> str:
        """Search."""
        executed.append(query)
        if query == "nothing":
            raise ValueError("there is nothing")
        return f"found {query}"

    @server.tool()
    def count() -> int:
        """How many searches were executed."""
        return len(executed)

    return server


if __name__ == "__main__":
    made().run("stdio")
