"""Fills the C tables that a check reads from plain descriptions of types, once a type."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from libc.stdint cimport int16_t, uint64_t
from libc.string cimport memset

NULL_KIND, BOOL_KIND, INTEGER_KIND, REAL_KIND = IS_NULL, IS_BOOL, IS_INTEGER, IS_REAL
TEXT_KIND, LIST_KIND, OBJECT_KIND, ANY_KIND = IS_TEXT, IS_LIST, IS_OBJECT, IS_ANY

cdef tuple _EXPECTED = (
    (IS_TEXT, "a string"),
    (IS_BOOL, "a boolean"),
    (IS_INTEGER, "an integer"),
    (IS_REAL, "a number"),
    (IS_LIST, "an array"),
    (IS_OBJECT, "an object"),
)


cdef class Shapes:
    """Types that name one another by their index; `smg.api.shapes` says what describes one."""

    def __init__(self, list shapes):
        cdef int at = 0, index, name_count
        if self.shapes != NULL:
            raise RuntimeError("already described")
        self._count = len(shapes)
        name_count = sum([
            len(one["members"]) + len(one["variants"]) + len(one["choices"]) + 1 for one in shapes
        ])
        self.shapes = <Shape*>PyMem_RawCalloc(self._count, sizeof(Shape))
        self.names = <Name*>PyMem_RawCalloc(name_count, sizeof(Name))
        if self.shapes == NULL or self.names == NULL:
            raise MemoryError
        self._kept = []
        for index in range(self._count):
            at = self._describe(index, shapes[index], at)

    def __dealloc__(self):
        cdef int i
        if self.shapes != NULL:
            for i in range(self._count):
                PyMem_RawFree(self.shapes[i].table)
        PyMem_RawFree(self.shapes)
        PyMem_RawFree(self.names)

    cdef int _name(self, int at, bytes text, int slot, int shape) except -1:
        if PyBytes_GET_SIZE(text) > LONGEST_NAME or not 0 <= slot < SLOTS:
            raise ValueError(f"too much for one type: {text!r}")
        self._kept.append(text)
        self.names[at].text, self.names[at].size = PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)
        self.names[at].slot, self.names[at].shape = slot, shape
        return 0

    cdef int _mark(self, int at, int mark, bytes written) except -1:
        self.names[at].mark = mark
        if written is not None:
            self._kept.append(written)
            self.names[at].written = PyBytes_AS_STRING(written)
            self.names[at].written_size = PyBytes_GET_SIZE(written)
        return 0

    cdef int _describe(self, int index, dict one, int at) except -1:
        """Fill in a shape, its names from `at` on; gives where the next one's begin."""
        cdef Shape* shape = &self.shapes[index]
        shape.kinds, shape.names, shape.mark = one["kinds"], at, one["mark"]
        shape.items, shape.values = one["items"], one["values"]
        shape.members, shape.variants, shape.choices = len(one["members"]), len(one["variants"]), len(one["choices"])
        shape.has_low, shape.has_high = one["low"] is not None, one["high"] is not None
        shape.low, shape.high = one["low"] or 0, one["high"] or 0
        shape.full_text, shape.full_list = one["full_text"], one["full_list"]
        shape.open_low, shape.longest = one["open_low"], one["longest"]
        shape.width = one["width"]
        for text, slot, child, required, mark, written in one["members"]:
            self._name(at, text, slot, child)
            self._mark(at, mark, written)
            if required:
                shape.required |= <uint64_t>1 << <int>slot
            at += 1
        for text, child in one["variants"]:
            self._name(at, text, 0, child)
            at += 1
        for text in one["choices"]:
            self._name(at, text, 0, -1)
            at += 1
        shape.tag = -1
        if one["tag"] is not None:
            self._name(at, one["tag"], 0, -1)
            shape.tag = at
            at += 1
        self._index(shape)
        return at

    cdef int _index(self, Shape* shape) except -1:
        """Make the table that finds members by name."""
        cdef int size = 4, i, place
        while size < shape.members * 3:
            size *= 2
        shape.table = <int16_t*>PyMem_RawCalloc(size, sizeof(int16_t))
        if shape.table == NULL:
            raise MemoryError
        memset(shape.table, 255, size * sizeof(int16_t))
        shape.table_mask = size - 1
        for i in range(shape.names, shape.names + shape.members):
            place = name_hash(self.names[i].text, self.names[i].size) & shape.table_mask
            while shape.table[place] >= 0:
                place = (place + 1) & shape.table_mask
            shape.table[place] = <int16_t>i
        return 0

    cdef str known(self, int index, bint tag):
        """The values that a text of that shape, or an object's tag, may have."""
        cdef const Shape* shape = &self.shapes[index]
        cdef int first = shape.names + shape.members, count = shape.variants, i
        if not tag:
            first, count = first + shape.variants, shape.choices
        return ", ".join([
            f"`{self.names[i].text[:self.names[i].size].decode()}`" for i in range(first, first + count)
        ])

    cdef str expected(self, int index):
        """What a value of that shape is, in words."""
        cdef int kinds = self.shapes[index].kinds
        if kinds & IS_REAL:
            kinds &= ~IS_INTEGER
        return " or ".join([words for kind, words in _EXPECTED if kinds & kind]) or "another value"
