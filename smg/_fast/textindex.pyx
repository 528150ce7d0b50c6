"""Which workers hold how much of a text, by chained hashes of its blocks; no text is kept or joined.

How a text is read is in textblocks.pyx, what an index of prefixes needs in index.pyx.
"""
cimport cython
from libc.stdint cimport uint32_t, uint64_t

from smg._fast.holders cimport NOBODY, alone
from smg._fast.index cimport Index
from smg._fast.pool cimport KEPT_HEAD, NEW_HEAD, Pool
from smg._fast.textblocks cimport SIZE_MASK, Opened, Text, draw_secrets, next_block

cdef enum:
    _TEXT_PER_BLOCK = 48           # bytes of `max_bytes` for which one block may be kept
    _TEXT_PER_SET_BYTE = 16
    _KEPT_BYTES = 1 << 20          # of a body that is kept from `best` to `insert`
    _MOST_EVICTIONS = 4096         # for one text: a pause of a millisecond


cdef inline uint32_t _set(const Record* block) noexcept:
    return block.mark >> 1


cdef inline Py_ssize_t _size(const Record* block) noexcept:
    return (block.key & SIZE_MASK) + 1


@cython.final
cdef class TextIndex(Index):
    """Knows at most `max_bytes` bytes of text, and takes at most 12 bytes for 16 of them, and 256 KiB.

    Both bounds hold at every moment. A text is a body, as bytes, and its spans in it: pairs of start and end, 64-bit
    integers in a buffer of them or of bytes.
    """

    def __cinit__(self, Py_ssize_t max_bytes, Py_ssize_t swept_by_insert=256):
        self.max_bytes = max_bytes
        self._build(sizeof(Record), max_bytes // _TEXT_PER_BLOCK, max_bytes // _TEXT_PER_SET_BYTE)
        draw_secrets(self._secrets)

    @property
    def blocks(self):
        return self._pool.count

    @property
    def max_blocks(self):
        return self._pool.limit

    def best(self, object body, object spans):
        """How many bytes of the text are known, and the slots of the workers that hold them all.

        The keys it has read are kept for an `insert` of the same objects, which mostly follows.
        """
        cdef Opened opened = Opened(body, spans)
        cdef uint32_t holders = NOBODY
        cdef Py_ssize_t found
        self._key_count = 0
        self._body = self._spans = None
        found = self.find_best(&opened.text, &holders)
        if self._key_count <= _MOST_KEYS and type(body) is bytes and len(body) <= min(self.max_bytes, _KEPT_BYTES):
            self._body = body
            self._spans = spans
            self._text = opened.text
        return found, self._holders.members(holders)

    def insert(self, object body, object spans, Py_ssize_t worker):
        """This worker holds the text; how many of its bytes were known before, of any worker, is returned.

        What is too long for the index is cut, and so is what would push out more than 4096 blocks.
        """
        cdef Opened opened
        self._admit(worker)
        if body is self._body and spans is self._spans and body is not None:
            self._body = self._spans = None
            return self.add(&self._text, <uint32_t>worker, self._key_count)
        self._body = self._spans = None
        opened = Opened(body, spans)
        return self.add(&opened.text, <uint32_t>worker, 0)

    def clear(self):
        """Forget everything."""
        Index.clear(self)
        self._body = self._spans = None
        self.size = 0

    cdef Py_ssize_t find_best(self, Text* text, uint32_t* holders) noexcept:
        cdef uint32_t number
        cdef Py_ssize_t done = 0
        cdef uint64_t key
        while text.left > 0:
            key = next_block(text, self._secrets)
            number = self._pool.find(key)
            if self._key_count < _MOST_KEYS:
                self._keys[self._key_count] = key
                self._numbers[self._key_count] = number
            self._key_count += 1
            if number == 0 or (self.sweeping and self._holders.is_nobody(_set(record(self._pool, number)))):
                break
            holders[0] = _set(record(self._pool, number))
            done = text.done
        return done

    cdef Py_ssize_t add(self, Text* text, uint32_t worker, Py_ssize_t read) noexcept:
        """See `insert`. The keys of the first `read` blocks are known, and `text` stands behind them."""
        cdef Pool pool = self._pool
        cdef uint32_t at = KEPT_HEAD, number, first = 0, last = 0, set_before = NOBODY, set_after = NOBODY
        cdef Py_ssize_t known = 0, done = 0, size, i = 0
        cdef bint revived = False
        cdef uint64_t key
        cdef Record* block
        self._evictions = 0
        text.left = min(text.left, self.max_bytes)
        while i < read or text.left > 0:
            if i < read:
                key = self._keys[i]
                number = self._numbers[i]
                size = <Py_ssize_t>(key & SIZE_MASK) + 1
                done += size
                i += 1
            else:
                key = next_block(text, self._secrets)
                number = pool.find(key) if first == 0 or self.sweeping else 0
                if number and first:
                    self._evict(number)                  # left over from a removed worker: it would stand twice
                    number = 0
                size = text.size
                done = text.done
            if number:
                pool.touch(number, at)
                block = record(pool, number)
                if self.sweeping and self._holders.is_dead(block):
                    block.mark = alone(worker) << 1
                    revived = True
                # Neighbours mostly have equal sets: the last change is remembered.
                if _set(block) == set_before:
                    self._holders.retain(set_after)
                    self._holders.release(set_before)
                else:
                    set_before = _set(block)
                    set_after = self._holders.adding(set_before, worker)
                block.mark = set_after << 1 | 1
                at = number
                if not revived:
                    known = done
                continue
            number = pool.take() if self._make_room(size, at) else 0
            if number == 0:
                break
            block = record(pool, number)
            block.key = key
            block.mark = self._holders.adding(NOBODY, worker) << 1
            pool.enter(number)
            pool.chain(number, last)
            if first == 0:
                first = number
            last = number
            self.size += size
        if first:
            pool.settle(first, last, at)
        if self.sweeping:
            self._sweep(self._swept_by_insert)
        return known

    cdef bint _make_room(self, Py_ssize_t size, uint32_t at) noexcept:
        """Evict until there is room for a block of `size` bytes, but not `at`, the end of what was known."""
        cdef uint32_t victim
        while self.size + size > self.max_bytes or self._pool.is_full():
            victim = self._pool.victim()
            if victim == NEW_HEAD or victim == at or self._evictions == _MOST_EVICTIONS:
                return False
            self._evict(victim)
            self._evictions += 1
        return True

    cdef void _evict(self, uint32_t number) noexcept:
        cdef Record* block = record(self._pool, number)
        self._pool.leave(number)
        self._holders.release(_set(block))
        self.size -= _size(block)
        self._pool.drop(number)

    cdef void _bury(self, uint32_t number) noexcept:
        self._body = self._spans = None
        self._evict(number)
