"""Tools of MCP servers. Only `connection` imports the MCP package, which takes a second or more, and only when a server
is first reached."""
