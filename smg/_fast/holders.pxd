from libc.stdint cimport uint32_t, uint64_t

from smg._fast.pool cimport FIRST, Pool, Record, record


cdef enum:
    WORKERS = 4096            # slots that workers can have
    WORDS = WORKERS // 64
    NOBODY = 0                # numbers of sets; 1 + slot is the set of that worker alone
    EVERYBODY = WORKERS + 1   # every worker known
    _STORED = WORKERS + 2     # + the number of the record that holds the set


cdef struct Stored:
    Record base               # key: of the members
    uint64_t* bits
    uint32_t words
    uint32_t users            # records marked with this set
    uint32_t alias            # the set that this one is now, when one of its workers is gone; else 0
    uint32_t spare


cdef class Holders:
    cdef Pool _pool
    cdef Py_ssize_t _limit_bytes
    cdef Py_ssize_t _bits_bytes
    cdef uint64_t _salt
    cdef uint64_t _known[64]
    cdef uint64_t _retired[64]         # forgotten, and some records may still be marked with sets of before

    cdef bint has(self, uint32_t number, uint32_t worker) noexcept
    cdef uint32_t adding(self, uint32_t number, uint32_t worker) noexcept
    cdef void retain(self, uint32_t number) noexcept
    cdef void release(self, uint32_t number) noexcept
    cdef void forget(self, uint32_t worker) noexcept
    cdef bint is_retired(self, uint32_t worker) noexcept
    cdef void settle(self) noexcept
    cdef bint is_dead(self, Record* one) noexcept
    cdef uint32_t _resolved(self, uint32_t number) noexcept
    cdef bint is_nobody(self, uint32_t number) noexcept
    cdef bint knows(self, uint32_t worker) noexcept
    cdef bint knows_anybody(self) noexcept
    cdef void clear(self) noexcept
    cdef tuple members(self, uint32_t number)
    cdef Py_ssize_t bytes_taken(self) noexcept

    cdef int _count(self, Stored* one) noexcept
    cdef uint64_t _key(self, uint32_t worker) noexcept
    cdef const uint64_t* _bits(self, uint32_t number, uint64_t* scratch, uint32_t* words) noexcept
    cdef uint32_t _store(self, const uint64_t* bits, uint32_t words, uint32_t worker, uint64_t key) noexcept


cdef inline Stored* stored(Holders holders, uint32_t number) noexcept:
    return <Stored*>record(holders._pool, number - _STORED)


cdef inline uint32_t alone(uint32_t worker) noexcept:
    """The set of one worker."""
    return worker + 1
