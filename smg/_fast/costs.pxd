# Sums over what was seen with one of the candidates' amounts, weights fading.
cdef struct Line:
    double x
    double xx
    double xy


cdef class Costs:
    cdef readonly Py_ssize_t candidates
    cdef readonly Py_ssize_t seen
    cdef double _fade
    cdef double _n
    cdef double _y
    cdef double _yy
    cdef Line* _lines
