from libc.stdint cimport uint32_t

from smg._fast.holders cimport Holders
from smg._fast.pool cimport Pool


cdef class Index:
    cdef readonly bint sweeping          # workers were removed, and what they alone held is still there
    cdef uint32_t _swept                 # records below this number have been looked at since
    cdef Py_ssize_t _swept_by_insert
    cdef int _evictions                  # for the present insert
    cdef Pool _pool
    cdef Holders _holders

    cdef int _build(self, Py_ssize_t record_bytes, Py_ssize_t limit, Py_ssize_t set_bytes) except -1
    cdef int _admit(self, Py_ssize_t worker) except -1
    cdef void _sweep(self, Py_ssize_t count) noexcept
    cdef void _bury(self, uint32_t number) noexcept
