from smg._fast.front cimport Answering


cdef class Receiving(Answering):
    cdef list _pieces               # of the body, as they came
    cdef bytes _body                # a large body, filled in place by the receiver
    cdef long long _have            # bytes of the body so far
    cdef long long _left            # bytes of the body that must still come; unknown when chunked
    cdef bint _paused               # reading

    cdef void _receive_in_place(self) except *
    cdef void _received_in_place(self, Py_ssize_t size) except *
    cdef void _give_up_in_place(self) except *
    cdef void _forget_body(self) except *
    cdef void _leave_receiver(self) except *
    cdef void _body_arrived(self, bytes body) except *
