"""Which workers hold how much of a text, by chained hashes of its blocks; no text is kept or joined.

The text is spans of a request's body, read one after the other as they stand. A block's key is a hash of it and of
all before it, so equal keys mean equal prefixes; a collision costs a wrong worker. Blocks are small where texts
begin and grow with depth, which keeps long prompts cheap and the error near 2 %: see `block_ends`. Bounds and order of
use are the token tree's (radix.pyx).
"""
cimport cython
from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from secrets import token_bytes

from smg._fast.holders cimport NOBODY, WORKERS, Alive, Holders, alone
from smg._fast.pool cimport FIRST, KEPT_HEAD, NEW_HEAD, Pool

MAX_WORKERS = WORKERS

cdef enum:
    _SIZE_MASK = 1023              # a key's low bits are its block's size - 1
    _TEXT_PER_BLOCK = 48           # bytes of `max_bytes` for which one block may be kept
    _TEXT_PER_SET_BYTE = 16
    _LEAST_BLOCKS = 64
    _MOST_EVICTIONS = 8192         # for one text: a pause of a millisecond or two


cdef extern from *:
    """
    static inline uint64_t smg_word(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return v; }
    static inline uint64_t smg_folded(uint64_t a, uint64_t b) {
        unsigned __int128 product = (unsigned __int128)a * b;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
    }
    /* Multiply and fold, as in XXH3's middle sizes, with a process's own secrets. */
    static inline uint64_t smg_block_hash(uint64_t hash, const uint8_t *p, size_t size, const uint64_t *secrets) {
        uint8_t padded[16] = {0};
        hash ^= secrets[7] + size;
        for (; size >= 64; p += 64, size -= 64) {
            uint64_t a = smg_folded(smg_word(p) ^ secrets[0], smg_word(p + 8) ^ secrets[1]);
            uint64_t b = smg_folded(smg_word(p + 16) ^ secrets[2], smg_word(p + 24) ^ secrets[3]);
            uint64_t c = smg_folded(smg_word(p + 32) ^ secrets[4], smg_word(p + 40) ^ secrets[5]);
            uint64_t d = smg_folded(smg_word(p + 48) ^ secrets[6], smg_word(p + 56) ^ secrets[7]);
            hash = smg_folded(hash + (a ^ b) + (c ^ d), secrets[0]) ^ a ^ c;
        }
        for (; size >= 16; p += 16, size -= 16)
            hash = smg_folded(smg_word(p) ^ secrets[1] ^ hash, smg_word(p + 8) ^ secrets[2]) + hash;
        if (size) {
            memcpy(padded, p, size);
            hash = smg_folded(smg_word(padded) ^ secrets[3] ^ hash, smg_word(padded + 8) ^ secrets[4]) + hash;
        }
        hash = (hash ^ (hash >> 32)) * secrets[5];
        return hash ^ (hash >> 29);
    }
    """
    uint64_t smg_block_hash(uint64_t hash, const uint8_t* p, size_t size, const uint64_t* secrets) noexcept


cdef inline Py_ssize_t _block_size(Py_ssize_t at) noexcept:
    return 32 if at < 64 else 64 if at < 16384 else 256 if at < 262144 else 1024


cdef inline uint32_t _set(const Record* block) noexcept:
    return block.mark >> 1


cdef inline Py_ssize_t _size(const Record* block) noexcept:
    return (block.key & _SIZE_MASK) + 1


def block_ends(Py_ssize_t size):
    """Where the blocks of a text of `size` bytes end; what is left at its end is a block of its own."""
    ends = []
    cdef Py_ssize_t at = 0
    while at < size:
        at = min(at + _block_size(at), size)
        ends.append(at)
    return ends


@cython.final
cdef class _Opened:
    """The buffers of one call, for as long as it lasts."""

    cdef Py_buffer body
    cdef Py_buffer spans
    cdef Text text

    def __cinit__(self, object body, object spans):
        cdef Py_ssize_t total = 0, i
        cdef const int64_t* pairs
        PyObject_GetBuffer(body, &self.body, PyBUF_SIMPLE)
        PyObject_GetBuffer(spans, &self.spans, PyBUF_C_CONTIGUOUS)
        if self.spans.itemsize not in (1, 8) or self.spans.len % 16:
            raise ValueError("spans are pairs of 64-bit integers")
        pairs = <const int64_t*>self.spans.buf
        for i in range(0, self.spans.len // 8, 2):
            if not 0 <= pairs[i] <= pairs[i + 1] <= self.body.len:
                raise ValueError("a span outside the body")
            total += pairs[i + 1] - pairs[i]
        self.text.body = <const uint8_t*>self.body.buf
        self.text.spans = pairs
        self.text.span_count = self.spans.len // 16
        self.text.at = pairs[0] if self.text.span_count else 0
        self.text.left = total

    def __dealloc__(self):
        PyBuffer_Release(&self.spans)
        PyBuffer_Release(&self.body)


@cython.final
cdef class TextIndex:
    """Knows at most `max_bytes` bytes of text, and takes at most 12 bytes for 16 of them, and 256 KiB.

    Both bounds hold at every moment. Workers are slots from 0 to MAX_WORKERS - 1. A text is a body, as bytes, and
    its spans in it: pairs of start and end, 64-bit integers in a buffer of them or of bytes.
    """

    def __cinit__(self, Py_ssize_t max_bytes):
        cdef int i
        if not 1 <= max_bytes <= 1 << 36:
            raise ValueError("an index of at least one byte is needed")
        self.max_bytes = max_bytes
        self._pool = Pool(sizeof(Record), max(max_bytes // _TEXT_PER_BLOCK, <Py_ssize_t>_LEAST_BLOCKS))
        self._holders = Holders(max_bytes // _TEXT_PER_SET_BYTE)
        for i in range(8):
            self._secrets[i] = int.from_bytes(token_bytes(8), "little") | 1

    @property
    def blocks(self):
        return self._pool.count

    @property
    def max_blocks(self):
        return self._pool.limit

    @property
    def bytes(self):
        """Memory taken, with what is free for further blocks."""
        return self._pool.bytes + self._holders.bytes_taken()

    def depths(self, object body, object spans, object out):
        """Write to `out`, 32-bit integers by slot, how many bytes of the text each worker holds; returns the most."""
        cdef Py_buffer written
        cdef _Opened opened = _Opened(body, spans)
        PyObject_GetBuffer(out, &written, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE)
        if written.itemsize != 4:
            PyBuffer_Release(&written)
            raise ValueError("a contiguous buffer of 32-bit integers is needed")
        memset(written.buf, 0, written.len)
        found = self.find_depths(&opened.text, <int*>written.buf, written.len // 4)
        PyBuffer_Release(&written)
        return found

    def best(self, object body, object spans):
        """How many bytes of the text are known, and the slots of the workers that hold them all."""
        cdef _Opened opened = _Opened(body, spans)
        cdef uint32_t holders = NOBODY
        found = self.find_best(&opened.text, &holders)
        return found, self._holders.members(holders)

    def insert(self, object body, object spans, Py_ssize_t worker):
        """This worker holds the text; how many of its bytes were known before, of any worker, is returned.

        What is too long for the index is cut, and so is what would push out more than 8192 blocks.
        """
        if not 0 <= worker < WORKERS:
            raise ValueError("no such slot")
        cdef _Opened opened = _Opened(body, spans)
        return self.add(&opened.text, <uint32_t>worker)

    def remove_worker(self, Py_ssize_t worker):
        """It holds nothing any more; what nobody else holds is dropped. Takes time by the size of the index."""
        cdef uint32_t number
        cdef Record* block
        if not 0 <= worker < WORKERS:
            raise ValueError("no such slot")
        self._holders.forget(<uint32_t>worker)
        if not self._holders.knows_anybody():
            self.clear()
            return
        for number in range(FIRST, self._pool.top):
            block = record(self._pool, number)
            if _set(block) == alone(<uint32_t>worker):
                self._evict(number)
            elif _set(block) != NOBODY:
                block.mark = self._holders.resolved(_set(block)) << 1 | (block.mark & 1)

    def clear(self):
        """Forget everything."""
        self._pool.clear()
        self._holders.clear()
        self.size = 0

    cdef Py_ssize_t find_depths(self, Text* text, int* out, Py_ssize_t room) noexcept:
        cdef Alive alive
        cdef uint32_t number
        cdef Py_ssize_t done = 0
        self._holders.begin(&alive)
        while text.left > 0:
            number = self._pool.find(self._next_block(text))
            if number == 0:
                break
            self._holders.narrow(&alive, _set(record(self._pool, number)), <int>done, out, room)
            done = text.done
        self._holders.finish(&alive, <int>done, out, room)
        return done

    cdef Py_ssize_t find_best(self, Text* text, uint32_t* holders) noexcept:
        cdef uint32_t number
        cdef Py_ssize_t done = 0
        while text.left > 0:
            number = self._pool.find(self._next_block(text))
            if number == 0:
                break
            holders[0] = _set(record(self._pool, number))
            done = text.done
        return done

    cdef Py_ssize_t add(self, Text* text, uint32_t worker) noexcept:
        """See `insert`."""
        cdef Pool pool = self._pool
        cdef uint32_t at = KEPT_HEAD, number, first = 0, last = 0, set_before = NOBODY, set_after = NOBODY
        cdef Py_ssize_t known = 0
        cdef uint64_t key
        cdef Record* block
        self._evictions = 0
        text.left = min(text.left, self.max_bytes)
        while text.left > 0:
            key = self._next_block(text)
            number = pool.find(key) if first == 0 else 0
            if number:
                pool.touch(number, at)
                block = record(pool, number)
                # Neighbours mostly have equal sets: the last change is remembered.
                if _set(block) == set_before:
                    self._holders.retain(set_after)
                    self._holders.release(set_before)
                else:
                    set_before = _set(block)
                    set_after = self._holders.adding(set_before, worker)
                block.mark = set_after << 1 | 1
                at = number
                known = text.done
                continue
            number = pool.take() if self._make_room(text.size, at) else 0
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
            self.size += text.size
        if first:
            pool.settle(first, last, at)
        return known

    cdef uint64_t _next_block(self, Text* text) noexcept:
        """Read on by one block, and give its key."""
        cdef Py_ssize_t size = min(_block_size(text.done), text.left), filled = 0, part
        cdef const uint8_t* block
        while text.at == text.spans[2 * text.span + 1]:
            text.span += 1
            text.at = text.spans[2 * text.span]
        if text.spans[2 * text.span + 1] - text.at >= size:
            block = text.body + text.at
            text.at += size
        else:
            block = text.gathered
            while filled < size:
                while text.at == text.spans[2 * text.span + 1]:
                    text.span += 1
                    text.at = text.spans[2 * text.span]
                part = min(size - filled, text.spans[2 * text.span + 1] - text.at)
                memcpy(text.gathered + filled, text.body + text.at, part)
                text.at += part
                filled += part
        text.size = size
        text.done += size
        text.left -= size
        text.hash = smg_block_hash(text.hash, block, size, self._secrets)
        return (text.hash & ~<uint64_t>_SIZE_MASK) | <uint64_t>(size - 1)

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
