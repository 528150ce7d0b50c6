cdef enum:
    CARRIED = 160        # most bytes of an undecided member that are kept from one piece to the next


cdef class UsageMeter:
    cdef readonly long long prompt       # -1: not said
    cdef readonly long long completion
    cdef readonly long long total
    cdef readonly long long cache_read   # prompt tokens that `prompt` leaves out, as Anthropic counts them
    cdef readonly long long cache_written
    cdef readonly long long events       # `data:` lines that begin an object
    cdef bint _begun
    cdef bint _adds                      # the answer is a list: its results are added up
    cdef int _line                       # where a line stands: bytes of `data:` seen, or one of `_Line`
    cdef char _carry[CARRIED]
    cdef Py_ssize_t _carried

    cdef void reset(self) noexcept
    cdef void take(self, const char* data, Py_ssize_t size) except *
    cdef Py_ssize_t _scan(self, const char* data, Py_ssize_t size) noexcept
    cdef void _note(self, const char* name, Py_ssize_t size, long long count) noexcept
    cdef long long _added(self, long long count, long long before) noexcept
    cdef void _note_cached(self, bint read, long long count) noexcept
    cdef void _count_events(self, const char* data, Py_ssize_t size) noexcept
