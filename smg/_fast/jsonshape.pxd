"""The types of a request as C tables: what a value may be, and a type's known members by name."""
from libc.stdint cimport int16_t, uint64_t
from libc.string cimport memcmp


cdef enum:
    SLOTS = 64             # known members of one object
    LONGEST_NAME = 64      # of a known member, a tag or a choice

cdef enum:
    IS_NULL = 1
    IS_BOOL = 2
    IS_INTEGER = 4
    IS_REAL = 8
    IS_TEXT = 16
    IS_LIST = 32
    IS_OBJECT = 64
    IS_ANY = 127

cdef struct Name:
    const char* text
    Py_ssize_t size
    int slot
    int shape
    int mark               # told of when the member is there and not null; 0 for not
    const char* written    # only when its value is written so, or with escapes; NULL for any
    Py_ssize_t written_size

cdef struct Shape:
    int kinds
    int names              # of the first of its members, variants and choices, which follow each other
    int members
    int variants
    int choices
    int16_t* table         # members by hash, -1 where there is none
    int table_mask
    uint64_t required
    int tag                # a name, -1 for an object without variants
    int items
    int values
    int mark               # told of when an object of this shape is entered
    double low
    double high
    bint has_low
    bint has_high
    bint open_low
    bint full_text         # not empty
    bint full_list
    Py_ssize_t longest     # elements of a list, -1 for any number
    int width              # of an integer: 1 signed, 2 unsigned, of 64 bits; 0 any


cdef inline int name_hash(const char* text, Py_ssize_t size) noexcept nogil:
    if size == 0:
        return 0
    return <int>(size * 5 + <unsigned char>text[0] * 7 + <unsigned char>text[size - 1] * 31
                 + <unsigned char>text[size >> 1] * 13)


cdef inline bint is_name(const Name* name, const char* text, Py_ssize_t size) noexcept nogil:
    return name.size == size and memcmp(name.text, text, size) == 0


cdef inline int member_index(const Name* names, const Shape* shape, const char* text, Py_ssize_t size) noexcept nogil:
    """Index of a known member among the names, or -1."""
    cdef int at = name_hash(text, size) & shape.table_mask
    while shape.table[at] >= 0:
        if is_name(&names[shape.table[at]], text, size):
            return shape.table[at]
        at = (at + 1) & shape.table_mask
    return -1


cdef class Shapes:
    cdef Shape* shapes
    cdef Name* names
    cdef int _count
    cdef object _kept        # the bytes that the names point into

    cdef int _name(self, int at, bytes text, int slot, int shape) except -1
    cdef int _mark(self, int at, int mark, bytes written) except -1
    cdef int _describe(self, int index, dict one, int at) except -1
    cdef int _index(self, Shape* shape) except -1
    cdef str known(self, int index, bint tag)
    cdef str expected(self, int index)
