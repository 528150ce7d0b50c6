"""A large body, received into the very buffer that it is sent from."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.string cimport memcpy

from smg._fast.front cimport Answering

from smg._fast.freeing import free_texts

cdef extern from "Python.h":
    int PyBUF_WRITE

cdef enum:
    _MOST = 1 << 15        # of one read; the loop does up to 32 of them in one turn
    _FREED_APART = 1 << 22


cdef class Receiving(Answering):
    """The part of a client's connection that receives in place; what its bytes mean is its subclass's."""

    cdef void _receive_in_place(self) except *:
        """From now on the kernel writes the rest of the body, which must have a known length, behind its pieces."""
        cdef Py_ssize_t at = 0
        self._body = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>(self._have + self._left))
        if self._pieces is not None:
            for piece in self._pieces:
                memcpy(PyBytes_AS_STRING(self._body) + at, PyBytes_AS_STRING(piece), PyBytes_GET_SIZE(piece))
                at += PyBytes_GET_SIZE(piece)
            self._pieces = None
        self.transport.pause_reading()
        self.transport.set_protocol(_Receiver(self))
        self._paused = False
        self.transport.resume_reading()

    cdef void _received_in_place(self, Py_ssize_t size) except *:
        cdef bytes body
        self._have += size
        self._left -= size
        if self._left:
            self.front.limits.body_stall.arm(self)
            return
        self._leave_receiver()
        body, self._body = self._body, None
        self._body_done = True
        self.disarm()
        self._body_arrived(body)

    cdef void _give_up_in_place(self) except *:
        """If a body is being received, nobody wants it any more."""
        if self._body is not None:
            self._forget_body()
            self._leave_receiver()

    cdef void _forget_body(self) except *:
        """What has come of it is freed in a thread when it is much."""
        cdef list texts = [self._body]
        self._body = None
        if texts[0] is None or self._have < _FREED_APART:
            return
        try:
            self.front.limits.loop.run_in_executor(None, free_texts, texts)
        except RuntimeError:
            pass                                                 # the loop is at its end

    cdef void _leave_receiver(self) except *:
        self.transport.pause_reading()
        self.transport.set_protocol(self)
        self.transport.resume_reading()

    cdef void _body_arrived(self, bytes body) except *:
        """The body is whole."""


@cython.final
cdef class _Receiver:
    """Stands in as the transport's protocol while a large body comes in."""
    cdef Receiving connection

    def __init__(self, Receiving connection):
        self.connection = connection

    def get_buffer(self, Py_ssize_t hint):
        cdef Receiving one = self.connection
        cdef Py_ssize_t room = min(<Py_ssize_t>one._left, <Py_ssize_t>_MOST)
        return PyMemoryView_FromMemory(PyBytes_AS_STRING(one._body) + one._have, room, PyBUF_WRITE)

    def buffer_updated(self, Py_ssize_t size):
        self.connection._received_in_place(size)

    def eof_received(self):
        return self.connection.eof_received()

    def connection_lost(self, error):
        self.connection.connection_lost(error)

    def pause_writing(self):
        self.connection.pause_writing()

    def resume_writing(self):
        self.connection.resume_writing()
