"""Timeouts of one fixed length for many objects, with one loop timer for all of them.

All nodes of a `Deadlines` wait equally long, so the order of arming is the order of expiry:
a linked list, O(1) to arm, re-arm and disarm, instead of a loop timer per request.
A length of 0 or less means that the deadline is off.
"""
cimport cython
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec


cdef inline double _now() noexcept:
    cdef timespec t
    clock_gettime(CLOCK_MONOTONIC, &t)
    return t.tv_sec + t.tv_nsec * 1e-9


cdef class Timed:
    """An object that can wait in one `Deadlines` at a time."""

    cdef void on_deadline(self, Deadlines which) noexcept:
        pass

    cdef void disarm(self) noexcept:
        if self._list is not None:
            self._list._unlink(self)


@cython.final
cdef class Deadlines:
    """`seconds` is how long every node waits; an expired node gets `on_deadline(self)`."""

    def __init__(self, loop, double seconds):
        self._loop = loop
        self.seconds = seconds

    cdef void arm(self, Timed node) noexcept:
        if node._list is not None:
            node._list._unlink(node)
        if self.seconds <= 0:
            return
        node._due = _now() + self.seconds
        node._list = self
        node._earlier = self._tail
        if self._tail is None:
            self._head = node
        else:
            self._tail._later = node
        self._tail = node
        self.armed += 1
        if self._timer is None:
            self._wake_after(self.seconds)

    cdef void _unlink(self, Timed node) noexcept:
        cdef Timed earlier = node._earlier, later = node._later
        if earlier is None:
            self._head = later
        else:
            earlier._later = later
        if later is None:
            self._tail = earlier
        else:
            later._earlier = earlier
        node._earlier = node._later = None
        node._list = None
        self.armed -= 1

    cdef void _wake_after(self, double delay) noexcept:
        try:
            # The loop's clock ticks in milliseconds: one more, or it fires early and has to come again.
            self._timer = self._loop.call_later(delay + 0.001, self._expire)
        except RuntimeError:
            self._timer = None                                  # the loop is closed

    def _expire(self):
        cdef double now = _now()
        cdef Timed node
        # `_timer` stays set meanwhile: a node that is armed by another's end must not set the timer for
        # itself when an earlier one still waits.
        while self._head is not None and self._head._due <= now:
            node = self._head
            self._unlink(node)
            node.on_deadline(self)
        self._timer = None
        if self._head is not None:
            self._wake_after(max(self._head._due - now, 0.0))

    def close(self):
        """Forget every node and the timer."""
        while self._head is not None:
            self._unlink(self._head)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
