"""Straight lines through (amount, seconds) by least squares with fading weights, for several candidates of the
amount at once: the candidate whose line leaves the least unexplained is the likely truth."""
cimport cython
from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from libc.stdint cimport int32_t


@cython.final
cdef class Costs:
    """`fade`: the weight that what was seen keeps at the next observation."""

    def __cinit__(self, Py_ssize_t candidates, double fade):
        if not 1 <= candidates <= 1024 or not 0 < fade <= 1:
            raise ValueError("1 to 1024 candidates, and a weight above 0 and up to 1")
        self.candidates = candidates
        self._fade = fade
        self._lines = <Line*>PyMem_RawCalloc(candidates, sizeof(Line))
        if self._lines == NULL:
            raise MemoryError()

    def __dealloc__(self):
        PyMem_RawFree(self._lines)

    def learn(self, object amounts, double seconds):
        """One observation: what it took, and the amount by each candidate as 32-bit integers."""
        cdef Py_buffer given
        cdef Py_ssize_t i
        cdef double amount
        cdef Line* line
        PyObject_GetBuffer(amounts, &given, PyBUF_C_CONTIGUOUS)
        if given.itemsize != 4 or given.len // 4 != self.candidates:
            PyBuffer_Release(&given)
            raise ValueError("a 32-bit amount for each candidate is needed")
        self.seen += 1
        self._n = self._n * self._fade + 1
        self._y = self._y * self._fade + seconds
        self._yy = self._yy * self._fade + seconds * seconds
        for i in range(self.candidates):
            amount = (<const int32_t*>given.buf)[i]
            line = self._lines + i
            line.x = line.x * self._fade + amount
            line.xx = line.xx * self._fade + amount * amount
            line.xy = line.xy * self._fade + amount * seconds
        PyBuffer_Release(&given)

    def fit(self, Py_ssize_t candidate):
        """(seconds that every one takes, seconds for each of the amount), neither negative; (0, 0) before
        anything was seen."""
        cdef double mean_x, mean_y, spread, slope = 0.0
        cdef Line* line
        if not 0 <= candidate < self.candidates:
            raise IndexError(candidate)
        if self._n == 0:
            return 0.0, 0.0
        line = self._lines + candidate
        mean_x = line.x / self._n
        mean_y = self._y / self._n
        spread = line.xx / self._n - mean_x * mean_x
        if spread > 1e-9 * (1 + mean_x * mean_x):
            slope = (line.xy / self._n - mean_x * mean_y) / spread
        if slope <= 0 or mean_y - slope * mean_x < 0:
            # All of one amount, or noise: through the origin.
            slope = line.xy / line.xx if line.xx > 0 else 0.0
        slope = max(slope, 0.0)
        return max(mean_y - slope * mean_x, 0.0), slope

    def add_unexplained(self, object totals):
        """Add to `totals`, doubles, each candidate's share of the squared times that its line does not explain,
        weighted by how much was seen."""
        cdef Py_buffer written
        cdef Py_ssize_t i
        cdef double mean_x, mean_y, spread, shared, left
        cdef Line* line
        PyObject_GetBuffer(totals, &written, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE)
        if written.itemsize != 8 or written.len // 8 != self.candidates:
            PyBuffer_Release(&written)
            raise ValueError("a double for each candidate is needed")
        if self._n > 0 and self._yy > 0:
            mean_y = self._y / self._n
            for i in range(self.candidates):
                line = self._lines + i
                mean_x = line.x / self._n
                spread = line.xx / self._n - mean_x * mean_x
                shared = line.xy / self._n - mean_x * mean_y
                left = self._yy / self._n - mean_y * mean_y
                if shared > 0 and spread > 1e-9 * (1 + mean_x * mean_x):
                    left -= shared * shared / spread
                (<double*>written.buf)[i] += max(left, 0.0) * self._n * self._n / self._yy
        PyBuffer_Release(&written)
