"""The client's wire: connections, requests as bytes, replies and errors read back."""
