"""What the token tree and the text index have in common: their memory, and how they forget a worker.

When a worker is removed, the sets of holders forget it at once. The records that it alone held are dead then: nobody
is led to them, a later insert may bring them to life again, and the others are dropped a few by each insert.
"""
from libc.stdint cimport uint32_t

from smg._fast.holders cimport NOBODY, WORKERS, Holders
from smg._fast.pool cimport FIRST, Pool, Record, record

MAX_WORKERS = WORKERS

cdef enum:
    _LEAST_RECORDS = 64


cdef class Index:
    """Workers are slots from 0 to MAX_WORKERS - 1.

    `swept_by_insert`: records that an insert looks at after a worker was removed; 256 take some microseconds.
    """

    def __cinit__(self, Py_ssize_t max_size, Py_ssize_t swept_by_insert=256):
        if type(self) is Index:
            raise TypeError("an index is of tokens or of text")
        if not 1 <= max_size <= 1 << 36:
            raise ValueError("an index of at least one token or byte is needed")
        self._swept_by_insert = swept_by_insert

    cdef int _build(self, Py_ssize_t record_bytes, Py_ssize_t limit, Py_ssize_t set_bytes) except -1:
        self._pool = Pool(record_bytes, max(limit, <Py_ssize_t>_LEAST_RECORDS))
        self._holders = Holders(set_bytes)
        return 0

    @property
    def bytes(self):
        """Memory taken, with what is free for further records."""
        return self._pool.bytes + self._holders.bytes_taken()

    def remove_worker(self, Py_ssize_t worker):
        """It holds nothing any more. What nobody else holds is dropped little by little, by `insert` and `sweep`.

        Its slot is better not used again while the index is `sweeping`: its first insert would have to end that.
        """
        if not 0 <= worker < WORKERS:
            raise ValueError("no such slot")
        if not self._holders.knows(<uint32_t>worker):
            return
        self._holders.forget(<uint32_t>worker)
        if not self._holders.knows_anybody():
            self.clear()
            return
        self.sweeping = True
        self._swept = FIRST

    def sweep(self, Py_ssize_t count):
        """Look at so many records for what removed workers held. True: there is nothing left of them."""
        if self.sweeping:
            self._sweep(count)
        return not self.sweeping

    def clear(self):
        """Forget everything."""
        self._pool.clear()
        self._holders.clear()
        self.sweeping = False

    cdef int _admit(self, Py_ssize_t worker) except -1:
        """A worker is going to hold something."""
        if not 0 <= worker < WORKERS:
            raise ValueError("no such slot")
        if self._holders.is_retired(<uint32_t>worker):
            self._sweep(self._pool.top)                  # or what it held before would be its again
        return 0

    cdef void _sweep(self, Py_ssize_t count) noexcept:
        cdef Record* one
        while count > 0 and self._swept < self._pool.top:
            one = record(self._pool, self._swept)
            # A free one, or one that is buried, is marked with nobody.
            if one.mark >> 1 != NOBODY and self._holders.is_dead(one):
                self._bury(self._swept)
            self._swept += 1
            count -= 1
        if self._swept >= self._pool.top:
            self.sweeping = False
            self._holders.settle()

    cdef void _bury(self, uint32_t number) noexcept:
        """Nobody holds the record: see that it is dropped."""
