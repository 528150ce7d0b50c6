"""Which worker was given how much of a text, and how long ago in its own count: what it may still hold.

One record for each worker and block, which here is what lies between two ends that are kept, with the worker's stamp
at its last use. Whoever was given a prompt was given all of its beginning, so along a text the stamps of a worker
never rise, and a search by halves finds how far those of a given age reach. Order of use and eviction are the pool's;
a text's end goes before its beginning.
"""
cimport cython
from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from smg._fast.pool cimport KEPT_HEAD, NEW_HEAD, Pool, record
from smg._fast.textblocks cimport Opened, draw_secrets, next_block

cdef enum:
    _LEAST_BLOCKS = 64
    _MOST_BYTES = 1 << 26          # of one text; what follows is not looked at

MOST_BYTES = _MOST_BYTES


cdef inline bint _is_mark(Py_ssize_t at) noexcept:
    """Is the end of a block at this place kept? A few percent are near enough."""
    return at <= 4096 or at % (128 if at <= 16384 else 512 if at <= 262144 else 4096) == 0


cdef inline uint64_t _key(uint64_t hash, uint64_t worker) noexcept:
    return hash ^ ((worker + 1) * <uint64_t>0x9E3779B97F4A7C15)


@cython.final
cdef class Path:
    """A text as `Recency.path` has read it; good for that table only. One made otherwise is empty."""

    @property
    def ends(self):
        """Where its blocks end."""
        return [self._ends[i] for i in range(self.count)]

    def __dealloc__(self):
        PyMem_RawFree(self._hashes)
        PyMem_RawFree(self._ends)


@cython.final
cdef class Recency:
    """Takes at most 40 bytes for each of `limit` blocks at a worker. Workers are numbers below 2**32; one that is
    gone is never numbered so again, so nothing has to be removed."""

    def __cinit__(self, Py_ssize_t limit):
        self._pool = Pool(sizeof(Given), max(limit, <Py_ssize_t>_LEAST_BLOCKS))
        draw_secrets(self._secrets)

    @property
    def limit(self):
        return self._pool.limit

    @property
    def count(self):
        """Blocks known."""
        return self._pool.count

    @property
    def bytes(self):
        """Memory taken."""
        return self._pool.bytes

    def path(self, object body, object spans):
        """The text of a body between its spans: pairs of start and end, 64-bit integers."""
        cdef Opened opened = Opened(body, spans)
        cdef Path path = Path.__new__(Path)
        cdef Py_ssize_t room
        opened.text.left = min(opened.text.left, <Py_ssize_t>_MOST_BYTES)
        path.size = opened.text.left
        # Ends are 64 bytes apart and more, those from 4 KiB on 128 and more, but for the first two and the last.
        room = min(path.size, <Py_ssize_t>4096) // 64 + max(path.size - 4096, <Py_ssize_t>0) // 128 + 4
        path._hashes = <uint64_t*>PyMem_RawMalloc(room * sizeof(uint64_t))
        path._ends = <int32_t*>PyMem_RawMalloc(room * sizeof(int32_t))
        if path._hashes == NULL or path._ends == NULL:
            raise MemoryError
        while opened.text.left > 0:
            next_block(&opened.text, self._secrets)
            if opened.text.left and not _is_mark(opened.text.done):
                continue
            path._hashes[path.count] = opened.text.hash
            path._ends[path.count] = <int32_t>opened.text.done
            path.count += 1
        return path

    def held(self, Path path not None, uint32_t worker, int64_t floor):
        """How many bytes of the text, from its beginning, the worker was given at stamps of `floor` or later."""
        cdef Py_ssize_t blocks = self._reach(path, worker, floor, 0)
        return path._ends[blocks - 1] if blocks else 0

    def profile(self, Path path not None, uint32_t worker, object floors, object missing):
        """For each of `floors`, 64-bit and descending, the bytes that are not held, to 32-bit `missing`."""
        cdef Py_buffer given, written
        cdef Py_ssize_t i, blocks = 0
        PyObject_GetBuffer(floors, &given, PyBUF_C_CONTIGUOUS)
        try:
            PyObject_GetBuffer(missing, &written, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE)
            try:
                if given.itemsize != 8 or written.itemsize != 4 or given.len // 8 != written.len // 4:
                    raise ValueError("64-bit floors and as many 32-bit places are needed")
                for i in range(given.len // 8):
                    blocks = self._reach(path, worker, (<const int64_t*>given.buf)[i], blocks)
                    (<int32_t*>written.buf)[i] = <int32_t>(path.size - (path._ends[blocks - 1] if blocks else 0))
            finally:
                PyBuffer_Release(&written)
        finally:
            PyBuffer_Release(&given)

    def use(self, Path path not None, uint32_t worker, int64_t stamp):
        """The worker is given the text; stamps of a worker must not fall."""
        cdef Pool pool = self._pool
        cdef uint32_t at = KEPT_HEAD, number, first = 0, last = 0
        cdef Py_ssize_t i
        cdef uint64_t key
        for i in range(path.count):
            key = _key(path._hashes[i], worker)
            number = pool.find(key)
            if number:
                pool.touch(number, at)
                at = number
            else:
                number = pool.take() if self._make_room(at) else 0
                if number == 0:
                    break
                record(pool, number).key = key
                pool.enter(number)
                pool.chain(number, last)
                if first == 0:
                    first = number
                last = number
            (<Given*>record(pool, number)).stamp = stamp
        if first:
            pool.settle(first, last, at)

    def drop(self, Path path not None, uint32_t worker, Py_ssize_t kept):
        """The worker holds no more than the first `kept` bytes of the text: an engine has said so."""
        cdef Py_ssize_t i
        cdef uint32_t number
        for i in range(path.count):
            if path._ends[i] > kept:
                number = self._pool.find(_key(path._hashes[i], worker))
                if number:
                    self._evict(number)

    cdef Py_ssize_t _reach(self, Path path, uint64_t worker, int64_t floor, Py_ssize_t least) noexcept:
        """How many blocks, `least` or more, were given at stamps of `floor` or later."""
        cdef Py_ssize_t low = least, high = path.count, middle
        cdef uint32_t number
        while low < high:
            # A text nobody knows is common: its first block tells at once.
            middle = 0 if low == 0 and high == path.count else (low + high) // 2
            number = self._pool.find(_key(path._hashes[middle], worker))
            if number and (<Given*>record(self._pool, number)).stamp >= floor:
                low = middle + 1
            else:
                high = middle
        return low

    cdef bint _make_room(self, uint32_t at) noexcept:
        """Evict for one more, but not `at`, the end of what was known."""
        cdef uint32_t victim
        if self._pool.is_full():
            victim = self._pool.victim()
            if victim == NEW_HEAD or victim == at:
                return False
            self._evict(victim)
        return True

    cdef void _evict(self, uint32_t number) noexcept:
        self._pool.leave(number)
        self._pool.drop(number)
