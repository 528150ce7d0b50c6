from smg._fast.deadlines cimport Deadlines, Timed
from smg._fast.head cimport RequestHead, ResponseHead
from smg._fast.limits cimport Limits
from smg._fast.usage cimport UsageMeter


cdef enum Received:
    # how the request's body came in
    BODY_COMING
    BODY_COMPLETE
    BODY_TOO_LARGE
    BODY_STALLED
    BODY_LATE            # not complete within the request timeout
    BODY_ABORTED         # the client broke off
    BODY_MALFORMED


cdef enum Outcome:
    # how an attempt at a worker ended
    PENDING
    ANSWERED             # `answer_head` and `answer_body` hold the worker's answer, nothing was sent
    RELAYED              # the client has the whole stream
    BROKEN               # the stream broke or timed out after it began; the client was told
    DIED                 # the worker's connection ended before the first byte of an answer
    CUT                  # the answer broke off; nothing was sent
    MALFORMED            # the worker's bytes are no HTTP answer; nothing was sent
    TOO_LARGE            # the answer is above the limit; nothing was sent
    TIMED_OUT            # no answer in time; nothing was sent
    BODY_FAILED          # the request's body ended badly while it was piped to the worker
    WITHDRAWN            # what runs beside it failed; nothing was sent


cdef class Reply(Timed):
    cdef bint takes_chunks

    cdef void collect(self, Exchange x, long long limit) except *
    cdef void pipe(self, Exchange x, long long limit) except *
    cdef void pause_body(self) noexcept
    cdef void resume_body(self) noexcept
    cdef void answer(self, int status, bytes reason, bytes lines, bytes body) except *
    cdef void start(self, int status, bytes reason, bytes lines, long long length) except *
    cdef void chunk(self, bytes data) except *
    cdef void raw(self, bytes data) except *
    cdef void end(self, bint terminated) except *
    cdef void abort(self) noexcept
    cdef object peer(self)
    cdef bint tell_when_taken(self, told) except -1


cdef class Upstream(Timed):
    cdef readonly bint reused        # has served an exchange before
    cdef readonly bint heard         # a byte of the answer has come
    cdef bint paused                 # the client is too slow: nothing is read
    cdef bint full                   # the worker is too slow: nothing more should be sent for now

    cdef void begin(self, Exchange x, bytes head, object body) except *
    cdef void body_piece(self, bytes data) except *
    cdef void body_end(self, bint chunked) except *
    cdef void pause(self) noexcept
    cdef void resume(self) noexcept
    cdef void drop(self) noexcept
    cdef void on_timeout(self) except *


cdef class Exchange(Timed):
    cdef readonly RequestHead head
    cdef readonly object route
    cdef Reply reply                  # None when the client has left or the answer has ended
    cdef Reply _writer                # the same to the end
    cdef Upstream upstream            # the worker connection in use
    cdef Limits limits
    cdef readonly bytes body
    cdef object sink                  # takes the body piece by piece instead
    cdef readonly int received        # Received
    cdef readonly int outcome         # Outcome
    cdef readonly ResponseHead answer_head
    cdef readonly bytes answer_body
    cdef readonly int status          # sent to the client; 0 before
    cdef readonly bint started        # the client has got a byte of the answer
    cdef readonly bint client_left
    cdef readonly bint interrupted    # ended by `interrupt`, not by its client
    cdef readonly long long begun_ns
    cdef readonly long long first_byte_ns     # the head of the worker's answer; 0 before
    cdef readonly long long first_event_ns    # the first of a stream's body; 0 before
    cdef readonly double longest_gap_s        # between two pieces of a stream
    cdef readonly long long sent_bytes
    cdef readonly bint piped          # the body goes to the worker as it arrives
    cdef public bint stream           # the request asks for a stream
    cdef public bint gather           # the answer is to be translated: never stream it
    cdef public bytes request_id
    cdef public bytes routed_line     # the header line that names the worker, with CR LF, or empty
    cdef public bytes extra_lines     # more header lines for the answer, each with CR LF
    cdef public object worker
    cdef public object call
    cdef public object tenant
    cdef public object on_first_event  # told the time when the first of an answer's body comes; then None
    cdef public object error
    cdef public object trace          # what is noted of the exchange when it is traced
    cdef public UsageMeter meter      # reads what the answer cost; None: nobody asks
    cdef public int attempts
    # the coroutine that carries the exchange
    cdef object _steps
    cdef object _waited_for
    cdef bint _running
    cdef bint _suspended
    cdef bint _ready
    cdef bint _cancelled

    cdef void run(self, object steps) except *
    cdef void _step(self) except *
    cdef void _ended(self) except *
    cdef void _let_go(self) noexcept
    cdef void _wake(self) except *
    cdef void body_arrived(self, bytes body, int received) except *
    cdef void body_failed(self, int received) except *
    cdef void finish_attempt(self, int outcome) except *
    cdef void on_client_left(self) except *
    cdef bytes _head_lines(self, bytes lines)
