"""What the admin routes refuse."""

from __future__ import annotations

from smg.errors.error import GatewayError, Shape, Source


def control_plane_unauthorized(*, wrong_key: bool) -> GatewayError:
    message = "Invalid authentication token" if wrong_key else "Missing or invalid Authorization header"
    headers = (("WWW-Authenticate", 'Bearer realm="control-plane"'),)
    return GatewayError(401, "unauthorized", message, Shape.PLAIN, Source.CLIENT, headers=headers)


def admin_role_required() -> GatewayError:
    message = "Admin role required for this control plane operation"
    return GatewayError(403, "forbidden", message, Shape.PLAIN, Source.CLIENT)


def bad_worker_request(message: str) -> GatewayError:
    return GatewayError(400, "BAD_REQUEST", message, Shape.ADMIN, Source.CLIENT)


def worker_not_found(worker_id: str) -> GatewayError:
    message = f"Worker {worker_id} not found"
    return GatewayError(404, "WORKER_NOT_FOUND", message, Shape.ADMIN, Source.CLIENT)


def worker_already_exists(url: str) -> GatewayError:
    message = f"Worker {url} already exists"
    return GatewayError(409, "WORKER_ALREADY_EXISTS", message, Shape.ADMIN, Source.CLIENT)


def worker_create_in_progress(url: str) -> GatewayError:
    """A worker of that URL has been taken in, but has not been reached yet."""
    message = f"Worker {url} is being registered"
    return GatewayError(409, "WORKER_CREATE_IN_PROGRESS", message, Shape.ADMIN, Source.CLIENT)


def too_many_workers(limit: int) -> GatewayError:
    message = f"No more than {limit} workers can be registered"
    return GatewayError(503, "TOO_MANY_WORKERS", message, Shape.ADMIN)


def too_many_jobs(limit: int) -> GatewayError:
    message = f"{limit} workers are on their way to be registered, no more may be for now"
    return GatewayError(503, "TOO_MANY_JOBS", message, Shape.ADMIN)


def malformed_json(problem: str) -> GatewayError:
    """A body of an admin route that answers in plain text."""
    message = f"Failed to parse the request body as JSON: {problem}"
    return GatewayError(400, "malformed_json", message, Shape.PLAIN, Source.CLIENT)
