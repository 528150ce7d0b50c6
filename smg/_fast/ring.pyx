"""A consistent-hash ring: each worker owns the stretches before its points, so one more or less moves only its share.

A point is the XXH3-64 of `url#n`, a key's place the XXH3-64 of the key: the same in every process, so that replicas of
the gateway agree. (The ring of other gateways is hashed with BLAKE3: keys land elsewhere there.)
"""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc, PyMem_RawRealloc
from libc.stdint cimport uint16_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memcpy

from xxhash import xxh3_64_intdigest

from smg._fast.holders cimport WORKERS

POINTS = 150            # of each worker
MAX_WORKERS = WORKERS


def place_of(bytes key not None):
    """Where a key lies on the ring."""
    return xxh3_64_intdigest(key)


cdef int _compare(const void* one, const void* other) noexcept nogil:
    cdef const Point* a = <const Point*>one
    cdef const Point* b = <const Point*>other
    if a.place != b.place:
        return -1 if a.place < b.place else 1
    return <int>a.worker - <int>b.worker


@cython.final
cdef class Ring:
    """Workers are slots from 0 to MAX_WORKERS - 1. Changes are sorted in at the next look-up, together."""

    def __cinit__(self):
        self._urls = {}

    def __dealloc__(self):
        PyMem_RawFree(self._points)

    def __len__(self):
        return len(self._urls)

    def __contains__(self, worker):
        return worker in self._urls

    def add(self, str url not None, Py_ssize_t worker):
        """A slot that is on the ring already moves to this URL's points."""
        cdef Py_ssize_t i
        if not 0 <= worker < WORKERS:
            raise ValueError("no such slot")
        if self._urls.get(worker) == url:
            return
        self.remove(worker)
        self._reserve(self._count + POINTS)
        for i in range(POINTS):
            self._points[self._count + i].place = xxh3_64_intdigest(f"{url}#{i}".encode())
            self._points[self._count + i].worker = <uint16_t>worker
        self._count += POINTS
        self._urls[worker] = url

    def remove(self, Py_ssize_t worker):
        """Nothing happens where it is not on the ring."""
        cdef Py_ssize_t read, write = 0
        if self._urls.pop(worker, None) is None:
            return
        self._settle()
        for read in range(self._count):
            if self._points[read].worker != worker:
                self._points[write] = self._points[read]
                write += 1
        self._count = self._sorted = write

    def pick(self, uint64_t place, object allowed=None):
        """The first worker from `place` on clockwise; -1 for nobody.

        `allowed` has a byte for each slot, 0 for those to pass over; slots behind its end are passed over too.
        """
        cdef Py_buffer flags
        cdef Py_ssize_t at, _turn, found = -1
        cdef uint16_t worker
        self._settle()
        if self._count == 0:
            return -1
        at = self._first_from(place)
        if allowed is None:
            return self._points[at].worker
        PyObject_GetBuffer(allowed, &flags, PyBUF_SIMPLE)
        for _turn in range(self._count):
            worker = self._points[at].worker
            if worker < flags.len and (<const char*>flags.buf)[worker]:
                found = worker
                break
            at = at + 1 if at + 1 < self._count else 0
        PyBuffer_Release(&flags)
        return found

    cdef int _reserve(self, Py_ssize_t count) except -1:
        cdef Py_ssize_t room = max(count, self._room * 2)
        cdef Point* grown
        if count <= self._room:
            return 0
        grown = <Point*>PyMem_RawRealloc(self._points, room * sizeof(Point))
        if grown == NULL:
            raise MemoryError
        self._points = grown
        self._room = room
        return 0

    cdef int _settle(self) except -1:
        """Sort the new points in."""
        cdef Py_ssize_t new = self._count - self._sorted, old = self._sorted, at = self._count
        cdef Point* fresh
        if new == 0:
            return 0
        fresh = <Point*>PyMem_RawMalloc(new * sizeof(Point))
        if fresh == NULL:
            raise MemoryError
        memcpy(fresh, self._points + old, new * sizeof(Point))
        qsort(fresh, new, sizeof(Point), _compare)
        while new > 0:
            at -= 1
            if old > 0 and _compare(&self._points[old - 1], &fresh[new - 1]) > 0:
                old -= 1
                self._points[at] = self._points[old]
            else:
                new -= 1
                self._points[at] = fresh[new]
        PyMem_RawFree(fresh)
        self._sorted = self._count
        return 0

    cdef Py_ssize_t _first_from(self, uint64_t place) noexcept:
        """The first point at `place` or behind it; behind the last one comes the first."""
        cdef Py_ssize_t low = 0, high = self._count, middle
        while low < high:
            middle = (low + high) // 2
            if self._points[middle].place < place:
                low = middle + 1
            else:
                high = middle
        return low if low < self._count else 0
