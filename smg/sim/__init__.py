"""A simulated inference engine over HTTP, for trying the gateway without hardware, tests and benchmarks.

Stands alone: it shares no code with the gateway, so the two cannot agree on a mistake.
"""
