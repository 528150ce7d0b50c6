"""A request's body checked against its types in one pass that needs no Python objects.

`check` refuses what does not fit, and notes where the known members of the outermost object stand,
which values break a bound, and the places the caller asked to be told about. Large texts are read
without the interpreter.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int16_t, uint64_t
from libc.stdlib cimport strtod
from libc.string cimport memcmp, memset

from smg._fast.jsonfound cimport Found, Mark
from smg._fast.jsonscan cimport (
    DEEPEST,
    Scan,
    fits_64_bits,
    plain_char,
    scan_colon,
    scan_end,
    scan_key,
    scan_next,
    scan_number,
    scan_open,
    scan_scalar,
    scan_string,
    scan_value,
    skip_blanks,
)
from smg._fast.jsonshape cimport (
    IS_BOOL,
    IS_INTEGER,
    IS_LIST,
    IS_NULL,
    IS_OBJECT,
    IS_REAL,
    IS_TEXT,
    LONGEST_NAME,
    SLOTS,
    Name,
    Shape,
    Shapes,
    is_name,
    member_index,
)
from smg._fast.jsonspan cimport Member, text_of

from smg._fast.jsonspan import JsonError

cdef enum:
    _LARGE = 1 << 16       # bytes from which the interpreter is let go while they are read
    _LONGEST_SHOWN = 80    # of what the client wrote

cdef enum _Fault:
    _FINE
    _SYNTAX
    _KIND
    _MISSING
    _TWICE
    _CHOICE
    _WIDTH
    _MEMORY

cdef struct Step:          # of the path to where the check stands
    Py_ssize_t name        # of a member's opening quote; -1 for an element
    Py_ssize_t place       # behind the name; an element's index

cdef struct Breach:
    Py_ssize_t value
    Py_ssize_t value_end
    Py_ssize_t item
    int shape

cdef struct Walk:
    Scan scan
    const Shape* shapes
    const Name* names
    Step path[DEEPEST + 1]
    int steps
    _Fault fault
    Py_ssize_t fault_at
    int fault_shape
    const Name* fault_name
    int kind               # of the last value
    int slot               # of the outermost member
    Py_ssize_t item
    uint64_t breached
    Breach breaches[SLOTS]


class Mismatch(ValueError):
    """JSON of another shape than asked for; `position` is its offset in bytes."""

    def __init__(self, str message, Py_ssize_t position):
        super().__init__(message)
        self.position = position


cdef Py_ssize_t _plain(const char* at, Py_ssize_t size, char* target) noexcept nogil:
    """A name with escapes, resolved into room for LONGEST_NAME + 4; -1 when it is longer than any known one."""
    cdef const char* end = at + size
    cdef Py_ssize_t length = 0
    while at < end:
        if length > LONGEST_NAME:
            return -1
        length += plain_char(&at, target + length)
    return length


cdef int _fail(Walk* w, _Fault fault, const char* at, int shape, const Name* name) noexcept nogil:
    w.fault = fault
    w.fault_at = at - w.scan.text
    w.fault_shape = shape
    w.fault_name = name
    return -1


cdef inline int _syntax(Walk* w) noexcept nogil:
    return _fail(w, _SYNTAX, w.scan.at, 0, NULL)


cdef int _breach(Walk* w, int shape, const char* begin) noexcept nogil:
    """Note a value that breaks a bound, once for each outermost member."""
    cdef uint64_t bit = <uint64_t>1 << w.slot
    cdef Breach* one = &w.breaches[w.slot]
    if not w.breached & bit:
        w.breached |= bit
        one.value = begin - w.scan.text
        one.value_end = w.scan.at - w.scan.text
        one.item = w.item
        one.shape = shape
    return 0


cdef int _check_number(Walk* w, int index) noexcept nogil:
    cdef const Shape* shape = &w.shapes[index]
    cdef const char* begin = w.scan.at
    cdef float value, low, high
    if scan_number(&w.scan) < 0:
        return _syntax(w)
    w.kind = IS_REAL if w.scan.real else IS_INTEGER
    if not shape.kinds & w.kind:
        return _fail(w, _KIND, begin, index, NULL)
    if shape.width and not fits_64_bits(begin, w.scan.at - begin, shape.width):
        return _fail(w, _WIDTH, begin, index, NULL)
    if shape.has_low or shape.has_high:
        # bounds are those of single precision: what rounds to a bound keeps it
        value, low, high = <float>strtod(begin, NULL), <float>shape.low, <float>shape.high
        if (shape.has_low and (value < low or (shape.open_low and value <= low))) or (shape.has_high and value > high):
            return _breach(w, index, begin)
    return 0


cdef int _chosen(Walk* w, const char* begin, int first, int count) noexcept nogil:
    """Index among `count` names from `first` of the string that ended at `at`, or -1."""
    cdef char buffer[LONGEST_NAME + 4]
    cdef const char* text = begin + 1
    cdef Py_ssize_t size = w.scan.at - begin - 2
    cdef int i
    if w.scan.escaped:
        size = _plain(text, size, buffer)
        text = buffer
    for i in range(first, first + count):
        if is_name(&w.names[i], text, size):
            return i
    return -1


cdef int _check_text(Walk* w, int index) noexcept nogil:
    cdef const Shape* shape = &w.shapes[index]
    cdef const char* begin = w.scan.at
    w.kind = IS_TEXT
    if scan_string(&w.scan) < 0:
        return _syntax(w)
    if not shape.kinds & IS_TEXT:
        return _fail(w, _KIND, begin, index, NULL)
    if shape.choices and _chosen(w, begin, shape.names + shape.members + shape.variants, shape.choices) < 0:
        return _fail(w, _CHOICE, begin, index, NULL)
    if shape.full_text and w.scan.at - begin == 2:
        return _breach(w, index, begin)
    return 0


cdef int _check_list(Walk* w, Found found, int index, int depth) noexcept nogil:
    cdef const Shape* shape = &w.shapes[index]
    cdef const char* begin = w.scan.at
    cdef Py_ssize_t count = 0
    cdef int more
    if not shape.kinds & IS_LIST:
        return _fail(w, _KIND, begin, index, NULL)
    if shape.items < 0 and not shape.full_list and shape.longest < 0:
        w.kind = IS_LIST
        return 0 if scan_value(&w.scan, depth) == 0 else _syntax(w)
    more = scan_open(&w.scan)
    w.path[w.steps].name = -1
    w.steps += 1
    while more > 0:
        w.path[w.steps - 1].place = count
        if depth == 1:
            w.item = count
        count += 1
        if shape.items < 0:
            if scan_value(&w.scan, depth + 1) < 0:
                return _syntax(w)
        elif _check_value(w, found, shape.items, depth + 1) < 0:
            return -1
        more = scan_next(&w.scan, 91)
    if more < 0:
        return _syntax(w)
    w.steps -= 1
    w.kind = IS_LIST
    if (shape.full_list and not count) or (shape.longest >= 0 and count > shape.longest):
        w.breached &= ~(<uint64_t>1 << w.slot)     # the list's own breach is told instead of an element's
        return _breach(w, index, begin)
    return 0


cdef int _pick_variant(Walk* w, int index, int depth) noexcept nogil:
    """The shape of the object at `at` by the value of its tag; -1 after a failure.

    Stays behind the tag when that is the first member, so that it need not be read again, else at the object.
    """
    cdef const Shape* shape = &w.shapes[index]
    cdef const char* begin = w.scan.at
    cdef const char* value
    cdef const char* key
    cdef int more = scan_open(&w.scan), chosen
    cdef bint is_first = depth > 0
    while more > 0:
        key = w.scan.at
        if scan_key(&w.scan) < 0:
            return _syntax(w)
        chosen = _chosen(w, key, shape.tag, 1)
        if scan_colon(&w.scan) < 0:
            return _syntax(w)
        value = w.scan.at
        if chosen < 0:
            if scan_value(&w.scan, depth + 1) < 0:
                return _syntax(w)
            is_first = False
        elif value >= w.scan.end or value[0] != 34:
            if scan_value(&w.scan, depth + 1) < 0:
                return _syntax(w)
            return _fail(w, _CHOICE, value, index, &w.names[shape.tag])
        else:
            if scan_string(&w.scan) < 0:
                return _syntax(w)
            chosen = _chosen(w, value, shape.names + shape.members, shape.variants)
            if chosen < 0:
                return _fail(w, _CHOICE, value, index, &w.names[shape.tag])
            if not is_first:
                w.scan.at = begin
            return w.names[chosen].shape
        more = scan_next(&w.scan, 123)
    if more < 0:
        return _syntax(w)
    return _fail(w, _MISSING, begin, index, &w.names[shape.tag])


cdef int _check_object(Walk* w, Found found, int index, int depth) noexcept nogil:
    cdef const Shape* shape = &w.shapes[index]
    cdef const char* begin = w.scan.at
    cdef uint64_t seen = 0
    cdef Mark mark
    cdef int more, i
    if not shape.kinds & IS_OBJECT:
        return _fail(w, _KIND, begin, index, NULL)
    if shape.tag >= 0:
        index = _pick_variant(w, index, depth)
        if index < 0:
            return -1
        shape = &w.shapes[index]
        if w.scan.at > begin:
            seen = <uint64_t>1 << w.names[shape.names].slot     # a tag is its variant's first member
    elif depth and not shape.members and shape.values < 0:
        w.kind = IS_OBJECT
        return 0 if scan_value(&w.scan, depth) == 0 else _syntax(w)
    if shape.mark:
        memset(&mark, 0, sizeof(Mark))
        mark.kind, mark.item, mark.holder = shape.mark, w.item, begin - w.scan.text
        if found.add_mark(&mark) < 0:
            return _fail(w, _MEMORY, begin, index, NULL)
    more = scan_open(&w.scan) if w.scan.at == begin else scan_next(&w.scan, 123)
    w.path[w.steps].name, w.path[w.steps].place = 0, 0     # no member yet
    w.steps += 1
    while more > 0:
        if _check_member(w, found, shape, begin - w.scan.text, &seen, depth) < 0:
            return -1
        more = scan_next(&w.scan, 123)
    if more < 0:
        return _syntax(w)
    w.steps -= 1
    w.kind = IS_OBJECT
    if shape.required & ~seen:
        for i in range(shape.names, shape.names + shape.members):
            if shape.required >> w.names[i].slot & 1 and not seen >> w.names[i].slot & 1:
                return _fail(w, _MISSING, w.scan.at, index, &w.names[i])
    return 0


cdef int _check_member(Walk* w, Found found, const Shape* shape, Py_ssize_t holder, uint64_t* seen,
                       int depth) noexcept nogil:
    """Over one member of an object."""
    cdef char buffer[LONGEST_NAME + 4]
    cdef const char* begin = w.scan.at
    cdef const char* text = begin + 1
    cdef const Name* name = NULL
    cdef Py_ssize_t size
    cdef Member one
    cdef int index = -1, ended
    if scan_key(&w.scan) < 0:
        return _syntax(w)
    one.key, one.key_end, one.escaped = begin - w.scan.text, w.scan.at - w.scan.text, w.scan.escaped
    w.path[w.steps - 1].name, w.path[w.steps - 1].place = one.key, one.key_end
    size = one.key_end - one.key - 2
    if one.escaped:
        size = _plain(text, size, buffer)
        text = buffer
    if shape.members and size >= 0:
        index = member_index(w.names, shape, text, size)
    if scan_colon(&w.scan) < 0:
        return _syntax(w)
    one.value = w.scan.at - w.scan.text
    if index >= 0:
        name = &w.names[index]
        if seen[0] >> name.slot & 1:
            w.steps -= 1     # told of the object
            return _fail(w, _TWICE, begin, 0, name)
        seen[0] |= <uint64_t>1 << name.slot
        if depth == 0:
            w.slot, w.item = name.slot, -1
        ended = _check_value(w, found, name.shape, depth + 1)
    elif shape.values >= 0:
        ended = _check_value(w, found, shape.values, depth + 1)
    else:
        ended = scan_value(&w.scan, depth + 1)
        if ended < 0:
            return _syntax(w)
    if ended < 0:
        return -1
    one.value_end = w.scan.at - w.scan.text
    return _note(w, found, name, &one, holder, depth)


cdef int _note(Walk* w, Found found, const Name* name, const Member* one, Py_ssize_t holder, int depth) noexcept nogil:
    """Remember a member that has been read."""
    cdef Mark mark
    cdef Py_ssize_t size = one.value_end - one.value
    if depth == 0:
        if name != NULL:
            found._places[name.slot] = <int16_t>found._count
            if w.kind != IS_NULL:
                found._present |= <uint64_t>1 << name.slot
        if found._add(one) < 0:
            return _fail(w, _MEMORY, w.scan.at, 0, NULL)
    if name == NULL or not name.mark or w.kind == IS_NULL:
        return 0
    if name.written != NULL and not (w.kind == IS_TEXT and w.scan.escaped) and not (
        size == name.written_size and memcmp(w.scan.text + one.value, name.written, size) == 0
    ):
        return 0
    mark.kind, mark.item, mark.holder, mark.member = name.mark, w.item, holder, one[0]
    return 0 if found.add_mark(&mark) == 0 else _fail(w, _MEMORY, w.scan.at, 0, NULL)


cdef int _check_value(Walk* w, Found found, int index, int depth) noexcept nogil:
    """Over the value at `at`, which must have that shape."""
    cdef const char* begin = w.scan.at
    cdef char c
    if begin >= w.scan.end:
        w.scan.problem = "EOF while parsing a value"
        return _syntax(w)
    c = begin[0]
    if c == 34:
        return _check_text(w, index)
    if c == 123:
        return _check_object(w, found, index, depth)
    if c == 91:
        return _check_list(w, found, index, depth)
    if c == 45 or 48 <= c <= 57:
        return _check_number(w, index)
    if scan_scalar(&w.scan) < 0:
        return _syntax(w)
    w.kind = IS_NULL if c == 110 else IS_BOOL
    if not w.shapes[index].kinds & w.kind:
        return _fail(w, _KIND, begin, index, NULL)
    return 0


cdef int _check_whole(Walk* w, Found found) noexcept nogil:
    skip_blanks(&w.scan)
    found.start = w.scan.at - w.scan.text
    if _check_value(w, found, 0, 0) < 0:
        return -1
    found.end = w.scan.at - w.scan.text
    return 0 if scan_end(&w.scan) == 0 else _syntax(w)


@cython.final
cdef class Checker(Shapes):
    """Checks texts against the first of its types, which must describe objects."""

    def check(self, bytes text):
        """What the text holds. Raises `JsonError` and `Mismatch`, whichever the text shows first."""
        cdef Walk w
        cdef Found found = self._begin(&w, text, 0, len(text))
        cdef int slot
        if self._run(&w, found) < 0:
            raise self._error(&w, text)
        found._breached = w.breached
        if w.breached:
            found._breaches = [
                (slot, w.breaches[slot].value, w.breaches[slot].value_end, w.breaches[slot].item)
                for slot in range(SLOTS) if w.breached >> slot & 1
            ]
        return found

    def fits(self, bytes text, Py_ssize_t start, Py_ssize_t end):
        """Is that part of a text JSON of this type?"""
        cdef Walk w
        if not 0 <= start <= end <= len(text):
            raise ValueError("outside of the text")
        return self._run(&w, self._begin(&w, text, start, end)) == 0

    cdef Found _begin(self, Walk* w, bytes text, Py_ssize_t start, Py_ssize_t end):
        cdef Found found = Found.__new__(Found)
        found.text = text
        w.scan.text = PyBytes_AS_STRING(text)
        w.scan.at, w.scan.end = w.scan.text + start, w.scan.text + end
        w.scan.problem = NULL
        w.shapes, w.names = self.shapes, self.names
        w.steps = 0
        w.fault = _FINE
        w.breached = 0
        w.slot, w.item = 0, -1
        return found

    cdef int _run(self, Walk* w, Found found) noexcept:
        cdef int ended
        if w.scan.end - w.scan.at < _LARGE:
            return _check_whole(w, found)
        with nogil:
            ended = _check_whole(w, found)
        return ended

    cdef object _error(self, const Walk* w, bytes text):
        cdef str what, path
        if w.fault == _SYNTAX:
            return JsonError(w.scan.problem.decode(), w.fault_at)
        if w.fault == _MEMORY:
            return MemoryError()
        path = _path_of(w, text)
        if w.fault == _MISSING:
            what = f"missing field `{w.fault_name.text[:w.fault_name.size].decode()}`"
        elif w.fault == _TWICE:
            what = f"duplicate field `{w.fault_name.text[:w.fault_name.size].decode()}`"
        elif w.fault == _WIDTH:
            what = "invalid value: the integer does not fit in 64 bits"
        elif w.fault == _CHOICE:
            what = f"expected one of {self.known(w.fault_shape, w.fault_name != NULL)}"
            if w.scan.text[w.fault_at] == 34:
                what = f"unknown variant `{_shown(text, w.fault_at, w.scan.at - w.scan.text)}`, {what}"
            else:
                what = f"invalid type: {_kind_at(w)}, {what}"
            if w.fault_name != NULL:
                name = w.fault_name.text[:w.fault_name.size].decode()
                path = f"{path}.{name}" if path else name
        else:
            what = f"invalid type: {_kind_at(w)}, expected {self.expected(w.fault_shape)}"
        return Mismatch(f"{path}: {what}" if path else what, w.fault_at)

cdef str _kind_at(const Walk* w):
    cdef char c = w.scan.text[w.fault_at]
    if c == 34:
        return "a string"
    if c == 123:
        return "an object"
    if c == 91:
        return "an array"
    if c == 110:
        return "null"
    if c == 116 or c == 102:
        return "a boolean"
    return "a number with a fraction or an exponent" if w.scan.real else "an integer"


cdef str _shown(bytes text, Py_ssize_t start, Py_ssize_t end):
    """A string of the client's in a message, cut when it is long."""
    if end - start <= _LONGEST_SHOWN:
        return text_of(text, start, end).decode()
    return text[start + 1:start + _LONGEST_SHOWN].decode(errors="replace") + "…"


cdef str _path_of(const Walk* w, bytes text):
    """`messages[0].role`, as far as the check had come."""
    cdef int i
    cdef str path = "", name
    for i in range(w.steps):
        if w.path[i].name < 0:
            path += f"[{w.path[i].place}]"
        elif w.path[i].place:
            name = _shown(text, w.path[i].name, w.path[i].place)
            path += f".{name}" if path else name
    return path
