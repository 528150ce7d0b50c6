"""The gateway under load, beside other gateways on the same machine in the same run."""
