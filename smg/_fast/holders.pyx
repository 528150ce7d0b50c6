"""Sets of workers as numbers: equal sets are stored once, so that a node of an index holds its set in four bytes.

Memory is bounded. When there is no room for another set, the answer is the set of everybody: whoever reads it may
ask a worker that holds nothing, which costs time and is no error.
"""
cimport cython
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from libc.string cimport memcpy, memset

from secrets import token_bytes


cdef extern from *:
    """
    static inline int smg_lowest_bit(uint64_t bits) { return __builtin_ctzll(bits); }
    static inline int smg_bit_count(uint64_t bits) { return __builtin_popcountll(bits); }
    """
    int smg_lowest_bit(uint64_t bits) noexcept
    int smg_bit_count(uint64_t bits) noexcept


@cython.final
cdef class Holders:
    """Takes at most `limit_bytes` bytes, or 128 KiB if that is more, give or take one chunk of records."""

    def __cinit__(self, Py_ssize_t limit_bytes):
        self._limit_bytes = max(limit_bytes, 1 << 17)
        self._pool = Pool(sizeof(Stored), self._limit_bytes // <Py_ssize_t>(sizeof(Stored) + 28))
        self._salt = int.from_bytes(token_bytes(8), "little")

    def __dealloc__(self):
        if self._pool is not None:
            self.clear()

    cdef void clear(self) noexcept:
        cdef uint32_t number
        for number in range(FIRST, self._pool.top):
            PyMem_RawFree((<Stored*>record(self._pool, number)).bits)
        self._pool.clear()
        self._bits_bytes = 0
        memset(self._known, 0, sizeof(self._known))
        self.settle()

    cdef Py_ssize_t bytes_taken(self) noexcept:
        return self._pool.bytes + self._bits_bytes

    cdef uint64_t _key(self, uint32_t worker) noexcept:
        """Keys of sets are the keys of their members, xored: one more or less is one step."""
        cdef uint64_t key = self._salt + (worker + 1) * 0x9E3779B97F4A7C15ULL
        key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9ULL
        key = (key ^ (key >> 27)) * 0x94D049BB133111EBULL
        return key ^ (key >> 31)

    cdef const uint64_t* _bits(self, uint32_t number, uint64_t* scratch, uint32_t* words) noexcept:
        """The set as bits; those of a single worker are written to `scratch`, WORDS long."""
        cdef uint32_t worker
        if number >= _STORED:
            words[0] = stored(self, number).words
            return stored(self, number).bits
        if number == EVERYBODY:
            words[0] = WORDS
            return self._known
        words[0] = 0
        if number != NOBODY:
            worker = number - 1
            words[0] = worker // 64 + 1
            memset(scratch, 0, words[0] * sizeof(uint64_t))
            scratch[worker // 64] = <uint64_t>1 << (worker & 63)
        return scratch

    cdef bint has(self, uint32_t number, uint32_t worker) noexcept:
        cdef Stored* one
        if number >= _STORED:
            one = stored(self, number)
            return worker // 64 < one.words and (one.bits[worker // 64] >> (worker & 63)) & 1
        return number == alone(worker) or number == EVERYBODY

    cdef uint32_t adding(self, uint32_t number, uint32_t worker) noexcept:
        """The set with this worker in it as well; the caller's use of `number` becomes one of the result."""
        cdef uint64_t scratch[64]
        cdef const uint64_t* bits
        cdef uint64_t key
        cdef uint32_t words, found
        self._known[worker // 64] |= <uint64_t>1 << (worker & 63)
        if number == NOBODY:
            return alone(worker)
        if self.has(number, worker):
            return number
        bits = self._bits(number, scratch, &words)
        key = self._key(worker) ^ (stored(self, number).base.key if number >= _STORED else self._key(number - 1))
        found = self._pool.find(key)
        if found:
            found += _STORED
        else:
            found = self._store(bits, words, worker, key)
        self.retain(found)
        self.release(number)
        return found

    cdef uint32_t _store(self, const uint64_t* bits, uint32_t words, uint32_t worker, uint64_t key) noexcept:
        """A new set, of nobody's use yet: these bits and this worker."""
        cdef uint32_t size = max(words, worker // 64 + 1)
        cdef Stored* one
        cdef uint64_t* copied
        cdef uint32_t number
        # Each allocation costs the system 16 bytes of its own.
        if self.bytes_taken() + size * sizeof(uint64_t) + 16 > <size_t>self._limit_bytes:
            return EVERYBODY
        copied = <uint64_t*>PyMem_RawMalloc(size * sizeof(uint64_t))
        number = self._pool.take() if copied != NULL else 0
        if number == 0:
            PyMem_RawFree(copied)
            return EVERYBODY
        memset(copied, 0, size * sizeof(uint64_t))
        memcpy(copied, bits, words * sizeof(uint64_t))
        copied[worker // 64] |= <uint64_t>1 << (worker & 63)
        one = <Stored*>record(self._pool, number)
        one.bits = copied
        one.words = size
        one.users = one.alias = 0
        one.base.key = key
        self._pool.enter(number)
        self._bits_bytes += size * sizeof(uint64_t) + 16
        return number + _STORED

    cdef void retain(self, uint32_t number) noexcept:
        if number >= _STORED:
            stored(self, number).users += 1

    cdef void release(self, uint32_t number) noexcept:
        cdef Stored* one
        if number < _STORED:
            return
        one = stored(self, number)
        one.users -= 1
        if one.users == 0:
            if one.alias == 0:
                self._pool.leave(number - _STORED)
            else:
                self.release(one.alias)
            PyMem_RawFree(one.bits)
            one.bits = NULL
            self._bits_bytes -= one.words * sizeof(uint64_t) + 16
            self._pool.drop(number - _STORED)

    cdef void forget(self, uint32_t worker) noexcept:
        """The worker is in no set any more. In its own time the owner asks of every record whether it `is_dead`, and
        drops it then; when it has asked of all it says so by `settle`.
        """
        cdef uint64_t bit = <uint64_t>1 << (worker & 63)
        cdef uint32_t number, same, i
        cdef uint64_t key
        cdef Stored* one
        self._known[worker // 64] &= ~bit
        self._retired[worker // 64] |= bit
        for number in range(FIRST, self._pool.top):
            one = <Stored*>record(self._pool, number)
            if one.bits == NULL or worker // 64 >= one.words or not one.bits[worker // 64] & bit:
                continue
            one.bits[worker // 64] &= ~bit
            if one.alias:
                continue                                 # one with the same members is on this list as well
            key = one.base.key ^ self._key(worker)
            self._pool.leave(number)
            same = self._pool.find(key)
            if same:
                one.alias = same + _STORED
                self.retain(one.alias)
                continue
            if self._count(one) == 1:
                i = 0
                while one.bits[i] == 0:
                    i += 1
                one.alias = alone(i * 64 + smg_lowest_bit(one.bits[i]))
                continue
            one.base.key = key
            self._pool.enter(number)

    cdef int _count(self, Stored* one) noexcept:
        cdef int count = 0
        cdef uint32_t i
        for i in range(one.words):
            count += smg_bit_count(one.bits[i])
        return count

    cdef bint is_retired(self, uint32_t worker) noexcept:
        """Was it forgotten, and may a record still be marked with it? Then it must not come back: see `settle`."""
        return (self._retired[worker // 64] >> (worker & 63)) & 1

    cdef void settle(self) noexcept:
        """No record is marked any more with a set as it was before a worker was forgotten."""
        memset(self._retired, 0, sizeof(self._retired))

    cdef bint is_dead(self, Record* one) noexcept:
        """Does nobody hold the record, since workers were forgotten? It is marked with the set as it is by now."""
        one.mark = self._resolved(one.mark >> 1) << 1 | (one.mark & 1)
        return self.is_nobody(one.mark >> 1)

    cdef uint32_t _resolved(self, uint32_t number) noexcept:
        """What a set is since `forget`; the caller's use of `number` becomes one of the result."""
        cdef uint32_t alias
        while number >= _STORED and stored(self, number).alias:
            alias = stored(self, number).alias
            self.retain(alias)
            self.release(number)
            number = alias
        return number

    cdef bint is_nobody(self, uint32_t number) noexcept:
        """Is it empty, but for workers that were forgotten?"""
        while number >= _STORED and stored(self, number).alias:
            number = stored(self, number).alias
        if number > WORKERS:
            return False
        return number == NOBODY or not (self._known[(number - 1) // 64] >> ((number - 1) & 63)) & 1

    cdef bint knows(self, uint32_t worker) noexcept:
        return (self._known[worker // 64] >> (worker & 63)) & 1

    cdef bint knows_anybody(self) noexcept:
        cdef int i
        for i in range(WORDS):
            if self._known[i]:
                return True
        return False

    cdef tuple members(self, uint32_t number):
        """The slots, in order."""
        cdef uint64_t scratch[64]
        cdef uint32_t words
        cdef const uint64_t* bits = self._bits(number, scratch, &words)
        cdef uint32_t slot
        return tuple([slot for slot in range(words * 64) if (bits[slot // 64] >> (slot & 63)) & 1])
