from smg._fast.exchange cimport Exchange, Upstream
from smg._fast.head cimport ResponseHead
from smg._fast.limits cimport Limits, Spread

cdef enum:
    TAIL = 24


cdef class Relay:
    cdef Exchange exchange
    cdef Upstream upstream
    cdef Limits limits
    cdef Spread gaps
    cdef ResponseHead head
    cdef readonly bint streaming      # the client gets the answer as it comes
    cdef bint _event_stream
    cdef bint _chunked                # the client gets it in the chunked coding
    cdef list _pieces
    cdef long long _size
    cdef char _tail[TAIL]             # the last bytes of the payload, the newest at the end
    cdef double _last                 # when the worker last sent something
    cdef double _pinged               # when the last comment was sent
    cdef object _timer                # one a connection; late rather than moved on every byte
    cdef double _due                  # when it fires

    cdef void attach(self, Exchange x) except *
    cdef int begin(self, ResponseHead head) except -1
    cdef int piece(self, bytes data, Py_ssize_t start, Py_ssize_t size) except -1
    cdef bint takes_raw(self) noexcept
    cdef void raw(self, bytes data, const char* last, Py_ssize_t last_size, Py_ssize_t payload) except *
    cdef void _came(self, Exchange x) except *
    cdef void _tell_first(self, Exchange x) except *
    cdef void end(self, bint terminated) except *
    cdef void broke(self, int outcome) except *
    cdef void timed_out(self) except *
    cdef void detach(self) noexcept
    cdef void close(self) noexcept
    cdef bint _between_frames(self) noexcept
    cdef bint _said_done(self) noexcept
    cdef void _note_tail(self, const char* data, Py_ssize_t size) noexcept
    cdef void _end_with(self, bytes frame) except *
    cdef bint _pings(self) noexcept
    cdef void _arm(self, double now) except *
