"""smg: an inference gateway in front of fleets of LLM engines."""

__version__ = "0.1.0"
