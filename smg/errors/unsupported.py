"""What is not offered, and what went wrong in the gateway itself."""

from __future__ import annotations

from smg.errors.error import GatewayError, Shape


def not_implemented(feature: str) -> GatewayError:
    return GatewayError(501, "not_implemented", f"{feature} is not supported by this gateway")


def not_for_pairs(endpoint: str) -> GatewayError:
    """The model has prefill/decode workers only, which do not serve this endpoint."""
    return GatewayError(501, "not_implemented", f"{endpoint.capitalize()} not implemented", Shape.PLAIN)


def decisions_not_supported() -> GatewayError:
    message = "Decisions is supported by regular HTTP and SGLang gRPC routers"
    return GatewayError(501, "decisions_not_supported", message)


def transcriptions_not_supported() -> GatewayError:
    message = "Audio transcriptions not implemented"
    return GatewayError(501, "transcriptions_not_supported", message, Shape.PLAIN)


def webrtc_not_supported() -> GatewayError:
    message = "WebRTC calls need the extra `webrtc` of this gateway; connect to GET /v1/realtime by WebSocket"
    return GatewayError(501, "webrtc_not_supported", message)


def heap_profile_not_built() -> GatewayError:
    message = "There is no heap profiler in this gateway; use a Python memory profiler"
    return GatewayError(501, "heap_profile_not_built", message)


def wasm_not_offered() -> GatewayError:
    """As gateways answer that know these routes and were started without plugins."""
    return GatewayError(500, "wasm_not_offered", "", Shape.EMPTY)


def upload_not_stored() -> GatewayError:
    return GatewayError(500, "upload_not_stored", "The uploaded file could not be stored")


def internal_error() -> GatewayError:
    return GatewayError(500, "internal_error", "The gateway failed to handle the request")
