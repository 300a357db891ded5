"""How clients reach the server: stdio, HTTP, and the door of HTTP."""
