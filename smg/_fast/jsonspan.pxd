from smg._fast.jsonedit cimport Edits

cdef struct Member:
    Py_ssize_t key         # of the opening quote
    Py_ssize_t key_end     # behind the closing quote
    Py_ssize_t value
    Py_ssize_t value_end
    bint escaped           # the key is written with escapes


cdef struct Text:
    const char* at
    Py_ssize_t size


cdef class Members:
    cdef readonly bytes text
    cdef readonly Py_ssize_t start     # of the opening brace
    cdef readonly Py_ssize_t end       # behind the closing brace
    cdef Member* _list
    cdef Py_ssize_t _count
    cdef Py_ssize_t _room

    cdef int _add(self, const Member* member) noexcept nogil
    cdef bint _is_named(self, const char* text, Py_ssize_t index, const Text* name) noexcept nogil
    cdef Py_ssize_t _find(self, bytes name) except -2
    cdef Py_ssize_t _last(self, const char* text, const Text* name) noexcept nogil
    cdef int _number(self, Py_ssize_t i, tuple names) except -2
    cdef Py_ssize_t _next(self, Py_ssize_t i, tuple names, bint others) except -1
    cdef Py_ssize_t _next_of(self, Py_ssize_t i, const char* text, const Text* names, int count) noexcept nogil
    cdef int _remove(self, const char* text, Edits edits, const Text* names, int count) noexcept nogil


cpdef bytes text_of(bytes text, Py_ssize_t start, Py_ssize_t end)
