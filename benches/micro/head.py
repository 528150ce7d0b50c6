"""`smg._fast.head`: request and response heads."""

import pyperf

from benches import inputs
from smg._fast.head import read_request_head, read_response_head


def head_of(message: bytes) -> bytes:
    return message[: message.index(b"\r\n\r\n") + 4]


def main() -> None:
    runner = pyperf.Runner(program_args=("-m", "benches.micro.head"))
    request, answer = head_of(inputs.request(inputs.chat())), head_of(inputs.answer())
    head = read_request_head(request)
    runner.bench_func("request head, 10 headers", read_request_head, request)
    runner.bench_func("response head", read_response_head, answer)
    runner.bench_func("look a header up", head.get, b"authorization")
    runner.bench_func("miss a header", head.get, b"x-request-id")


if __name__ == "__main__":
    main()
