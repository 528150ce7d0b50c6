"""Records of one size in flat memory: taken and dropped by number, found by key, evicted by last use.

Memory comes in chunks, so nothing is ever moved and no call pauses to copy or to rehash (the buckets grow by one
at a time). Two rings keep the order of use, newest first: a record used once is in the one, a record used again in
the other. What is used once goes first, so a flood of things never seen again leaves the rest alone; a fifth of
the records may always be new ones, or nothing could become old.
"""
cimport cython
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree, PyMem_RawMalloc
from libc.string cimport memset

from secrets import token_bytes

cdef enum:
    _FIRST_BUCKETS = 64
    _MOVES = 2           # records put back among the new ones per eviction, at most


cdef inline uint32_t _mixed(uint64_t key, uint64_t seed, uint64_t factor) noexcept:
    key = (key ^ seed) * factor
    key = (key ^ (key >> 32)) * 0xD6E8FEB86659FD93ULL
    return <uint32_t>(key >> 32)


@cython.final
cdef class Pool:
    """Holds at most `limit` records of `record_bytes` bytes each; a record begins with a `Record`.

    Numbers 0 and 1 are the heads of the rings; their other bytes are free for the owner's use.
    """

    def __cinit__(self, Py_ssize_t record_bytes, Py_ssize_t limit):
        if record_bytes < <Py_ssize_t>sizeof(Record) or record_bytes % 8 or not 1 <= limit <= 0x7FFFFFF0:
            raise ValueError("records of at least 24 bytes, in eights, and a limit of at least one")
        self._record_bytes = record_bytes
        self.limit = limit
        self._chunk_limit = (limit + FIRST + CHUNK - 1) // CHUNK
        self._bucket_limit = (limit + _FIRST_BUCKETS) // BUCKETS + 1
        self._chunks = <char**>PyMem_RawCalloc(self._chunk_limit, sizeof(char*))
        self._buckets = <uint32_t**>PyMem_RawCalloc(self._bucket_limit, sizeof(uint32_t*))
        if self._chunks == NULL or self._buckets == NULL:
            raise MemoryError
        # Chosen anew by every process: nobody can find keys that meet in one bucket.
        self._seed = int.from_bytes(token_bytes(8), "little")
        self._factor = int.from_bytes(token_bytes(8), "little") | 1
        self._buckets[0] = <uint32_t*>PyMem_RawMalloc(BUCKETS * sizeof(uint32_t))
        if self._buckets[0] == NULL:
            raise MemoryError
        self._bucket_chunks = 1
        if not self._grow():
            raise MemoryError
        self.clear()

    def __dealloc__(self):
        self._shrink(0)
        PyMem_RawFree(self._chunks)
        PyMem_RawFree(self._buckets)

    cpdef void clear(self) noexcept:
        """Drop every record and give the memory back, but for a first chunk."""
        cdef uint32_t head
        self._shrink(1)
        memset(self._buckets[0], 0, BUCKETS * sizeof(uint32_t))
        self._bucket_count = _FIRST_BUCKETS
        self._low_mask = _FIRST_BUCKETS - 1
        self._keyed = 0
        self.count = self.kept = 0
        self.top = FIRST
        self._free = 0
        self.bytes = (self._chunk_limit + self._bucket_limit) * sizeof(char*)
        self.bytes += BUCKETS * sizeof(uint32_t) + self._records_in(0) * self._record_bytes
        for head in (KEPT_HEAD, NEW_HEAD):
            memset(record(self, head), 0, self._record_bytes)
            record(self, head).older = record(self, head).newer = head

    cdef void _shrink(self, Py_ssize_t left) noexcept:
        """Give back every chunk but the first `left` of each kind."""
        while self._chunk_count > left:
            self._chunk_count -= 1
            PyMem_RawFree(self._chunks[self._chunk_count])
        while self._bucket_chunks > left:
            self._bucket_chunks -= 1
            PyMem_RawFree(self._buckets[self._bucket_chunks])

    cdef Py_ssize_t _records_in(self, Py_ssize_t chunk) noexcept:
        """The last chunk is only as long as the limit allows."""
        return min(self.limit + FIRST - chunk * CHUNK, <Py_ssize_t>CHUNK)

    cdef bint _grow(self) noexcept:
        cdef Py_ssize_t size = self._records_in(self._chunk_count) * self._record_bytes
        cdef char* chunk = <char*>PyMem_RawMalloc(size)
        if chunk == NULL:
            return False
        self._chunks[self._chunk_count] = chunk
        self._chunk_count += 1
        self.bytes += size
        return True

    # -- numbers -------------------------------------------------------------------------------

    cdef bint is_full(self) noexcept:
        return self._free == 0 and self.top >= self.limit + FIRST

    cdef uint32_t take(self) noexcept:
        """A record with zeros at its start, in no ring and no bucket; 0 when full or out of memory."""
        cdef uint32_t number = self._free
        if number:
            self._free = record(self, number).next
        elif self.top >= self.limit + FIRST:
            return 0
        elif (self.top >> CHUNK_BITS) == self._chunk_count and not self._grow():
            return 0
        else:
            number = self.top
            self.top += 1
        memset(record(self, number), 0, sizeof(Record))
        self.count += 1
        return number

    cdef void drop(self, uint32_t number) noexcept:
        """Out of its ring and free; the owner has taken it out of the buckets.

        In a pool whose owner puts nothing into the rings this leaves them empty.
        """
        cdef Record* one = record(self, number)
        record(self, one.newer).older = one.older
        record(self, one.older).newer = one.newer
        self.kept -= one.mark & 1
        self.count -= 1
        one.mark = 0
        one.next = self._free
        self._free = number

    # -- order of use --------------------------------------------------------------------------

    cdef void push(self, uint32_t number, uint32_t after) noexcept:
        """A record in no ring joins the new ones, behind `after`, or in front where that is no new one."""
        self.settle(number, number, after)

    cdef void chain(self, uint32_t number, uint32_t after) noexcept:
        """A record in no ring waits, behind `after` where that is not 0, for `settle`; no victim until then."""
        record(self, number).newer = after
        if after:
            record(self, after).older = number

    cdef void settle(self, uint32_t first, uint32_t last, uint32_t after) noexcept:
        """What was chained joins the new ones, behind `after`, or in front where that is no new one."""
        cdef Record* newer
        if after == KEPT_HEAD or record(self, after).mark & 1:
            after = NEW_HEAD
        newer = record(self, after)
        record(self, first).newer = after
        record(self, last).older = newer.older
        record(self, newer.older).newer = last
        newer.older = first

    cdef void touch(self, uint32_t number, uint32_t after) noexcept:
        """Used again: to the ring of the kept, behind `after`, one of theirs."""
        cdef Record* one = record(self, number)
        cdef Record* newer = record(self, after)
        if newer.older == number:
            return
        record(self, one.newer).older = one.older
        record(self, one.older).newer = one.newer
        one.newer = after
        one.older = newer.older
        record(self, newer.older).newer = number
        newer.older = number
        self.kept += 1 - (one.mark & 1)
        one.mark |= 1

    cdef void spare(self, uint32_t number) noexcept:
        """To the front of the new ones, from wherever it is."""
        cdef Record* one = record(self, number)
        record(self, one.newer).older = one.older
        record(self, one.older).newer = one.newer
        self.kept -= one.mark & 1
        one.mark &= ~<uint32_t>1
        self.push(number, NEW_HEAD)

    cdef uint32_t victim(self) noexcept:
        """The new record longest unused; NEW_HEAD when there is none and a fifth are new, or waiting to be."""
        cdef int _turn
        cdef uint32_t oldest
        for _turn in range(_MOVES):
            oldest = record(self, KEPT_HEAD).newer
            if self.kept * 5 <= self.count * 4 or oldest == KEPT_HEAD:
                break
            self.spare(oldest)
        return record(self, NEW_HEAD).newer

    # -- keys ----------------------------------------------------------------------------------

    cdef uint32_t* _bucket(self, uint64_t key) noexcept:
        cdef uint32_t mixed = _mixed(key, self._seed, self._factor)
        cdef uint32_t number = mixed & (self._low_mask * 2 + 1)
        if number >= self._bucket_count:
            number = mixed & self._low_mask
        return &self._buckets[number >> BUCKET_BITS][number & (BUCKETS - 1)]

    cdef uint32_t find(self, uint64_t key) noexcept:
        """The number of the record with this key, 0 for none."""
        cdef uint32_t number = self._bucket(key)[0]
        while number and record(self, number).key != key:
            number = record(self, number).next
        return number

    cdef void enter(self, uint32_t number) noexcept:
        """From now on `find` knows the record by its key."""
        cdef Record* one = record(self, number)
        cdef uint32_t* bucket = self._bucket(one.key)
        one.next = bucket[0]
        bucket[0] = number
        self._keyed += 1
        if self._keyed > self._bucket_count:
            self._split_bucket()

    cdef void leave(self, uint32_t number) noexcept:
        """`find` no longer knows it; a record that never entered is left as it is."""
        cdef uint32_t* place = self._bucket(record(self, number).key)
        while place[0] and place[0] != number:
            place = &record(self, place[0]).next
        if place[0]:
            place[0] = record(self, number).next
            self._keyed -= 1

    cdef void _split_bucket(self) noexcept:
        """One bucket more: it takes its half of the records of its lower twin."""
        cdef uint32_t fresh = self._bucket_count
        cdef uint32_t high_mask, number, following
        cdef uint32_t* old
        cdef uint32_t* new
        if (fresh >> BUCKET_BITS) == self._bucket_chunks:
            if self._bucket_chunks == self._bucket_limit:
                return
            new = <uint32_t*>PyMem_RawCalloc(BUCKETS, sizeof(uint32_t))
            if new == NULL:
                return
            self._buckets[self._bucket_chunks] = new
            self._bucket_chunks += 1
            self.bytes += BUCKETS * sizeof(uint32_t)
        if fresh > self._low_mask * 2 + 1:
            self._low_mask = self._low_mask * 2 + 1
        high_mask = self._low_mask * 2 + 1
        self._bucket_count += 1
        old = &self._buckets[(fresh & self._low_mask) >> BUCKET_BITS][fresh & self._low_mask & (BUCKETS - 1)]
        new = &self._buckets[fresh >> BUCKET_BITS][fresh & (BUCKETS - 1)]
        new[0] = 0
        number = old[0]
        while number:
            following = record(self, number).next
            if _mixed(record(self, number).key, self._seed, self._factor) & high_mask == fresh:
                old[0] = following
                record(self, number).next = new[0]
                new[0] = number
            else:
                old = &record(self, number).next
            number = following
