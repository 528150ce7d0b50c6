"""Compiled modules of the data plane: bytes, integers and transports; no policy, no configuration."""
