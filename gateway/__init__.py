"""The network process: WebSocket, HTTP and Opus in front of an engine."""
