"""A radix tree of token ids: which workers hold how much of a prompt.

A prefix is stored once, whoever holds it. A node is a page of up to 64 tokens and the number of the set of its
holders, who hold all above it too. Only `insert` counts as use, so that looking a prompt up and then sending it is
one use. A node's parent is always used at least as lately as itself: what is evicted is a leaf.

Below a node that is dead, because the workers that held it were removed, all are dead; they are dropped from their
leaves up. Whatever else an index of prefixes needs is in index.pyx.
"""
cimport cython
from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy, memmove

from smg._fast.holders cimport EVERYBODY, NOBODY, alone
from smg._fast.index cimport Index
from smg._fast.pool cimport KEPT_HEAD, NEW_HEAD, Pool, record

cdef enum:
    _ROOT = KEPT_HEAD
    # Bytes per token of `max_tokens`, in 16ths: 92 for the nodes with their share of the buckets, 4 for the sets.
    _NODE_16THS = 92
    _SET_16THS = 4
    _MOST_EVICTIONS = 8192         # for one prompt: a pause of a millisecond or two


cdef extern from *:
    """
    #include <string.h>
    /* A node is five cache lines. */
    static inline void smg_prefetch(const void *place) {
        const char *p = (const char *)place;
        __builtin_prefetch(p);
        __builtin_prefetch(p + 64);
        __builtin_prefetch(p + 128);
        __builtin_prefetch(p + 192);
        __builtin_prefetch(p + 256);
    }
    /* How many tokens two runs begin with in common. */
    static inline uint32_t smg_common(const uint32_t *a, const uint32_t *b, uint32_t n) {
        uint32_t i = 0;
        uint64_t x, y;
        if (memcmp(a, b, n * 4) == 0) return n;
        for (; i + 2 <= n; i += 2) {
            memcpy(&x, a + i, 8);
            memcpy(&y, b + i, 8);
            if (x != y) break;
        }
        while (i < n && a[i] == b[i]) i++;
        return i;
    }
    """
    void smg_prefetch(const void* place) noexcept
    uint32_t smg_common(const uint32_t* a, const uint32_t* b, uint32_t n) noexcept


cdef inline uint64_t _key(uint32_t parent, uint32_t token) noexcept:
    return <uint64_t>parent << 32 | token


cdef inline uint32_t _parent(const Node* node) noexcept:
    return <uint32_t>(node.base.key >> 32)


cdef inline uint32_t _set(const Node* node) noexcept:
    return node.base.mark >> 1


cdef int _get_tokens(object tokens, Py_buffer* view) except -1:
    PyObject_GetBuffer(tokens, view, PyBUF_C_CONTIGUOUS)
    if view.itemsize != 4:
        PyBuffer_Release(view)
        raise ValueError("a contiguous buffer of 32-bit integers is needed")
    return 0


@cython.final
cdef class TokenTree(Index):
    """Holds at most `max_tokens` tokens in at most 6 bytes for each of them, and 256 KiB.

    Both bounds hold at every moment. Tokens come as buffers of 32-bit integers.
    """

    def __cinit__(self, Py_ssize_t max_tokens, Py_ssize_t swept_by_insert=256):
        cdef Py_ssize_t node_bytes = sizeof(Node) + sizeof(uint32_t)
        self.max_tokens = max_tokens
        self._build(sizeof(Node), max_tokens * _NODE_16THS // 16 // node_bytes, max_tokens * _SET_16THS // 16)

    @property
    def nodes(self):
        return self._pool.count

    @property
    def max_nodes(self):
        return self._pool.limit

    def best(self, object tokens):
        """How many of these tokens are stored, and the slots of the workers that hold them all."""
        cdef Py_buffer view
        cdef uint32_t holders = NOBODY
        _get_tokens(tokens, &view)
        found = self.find_best(<uint32_t*>view.buf, view.len // 4, &holders)
        PyBuffer_Release(&view)
        return found, self._holders.members(holders)

    def insert(self, object tokens, Py_ssize_t worker):
        """This worker holds these tokens; how many were stored before, of any worker, is returned.

        What is too long for the tree is cut, and so is what would push out more than 8192 nodes.
        """
        cdef Py_buffer view
        self._admit(worker)
        _get_tokens(tokens, &view)
        known = self.add(<uint32_t*>view.buf, view.len // 4, <uint32_t>worker)
        PyBuffer_Release(&view)
        return known

    def clear(self):
        """Forget everything."""
        Index.clear(self)
        self.tokens = 0

    def dump(self):
        """All nodes, least lately used first: number, parent's number (0: the root), tokens, slots, used again.
        Dead ones have no slots."""
        cdef Node* node
        cdef uint32_t head, number, i
        listed = []
        for head in (NEW_HEAD, KEPT_HEAD):
            number = node_of(self._pool, head).base.newer
            while number != head:
                node = node_of(self._pool, number)
                page = tuple([node.page[i] for i in range(node.used)])
                holders = () if self._holders.is_nobody(_set(node)) else self._holders.members(_set(node))
                listed.append((number, _parent(node), page, holders, bool(node.base.mark & 1)))
                number = node.base.newer
        return listed

    # -- looking up ----------------------------------------------------------------------------

    cdef Py_ssize_t find_best(self, const uint32_t* tokens, Py_ssize_t size, uint32_t* holders) noexcept:
        cdef uint32_t at = _ROOT, common
        cdef Py_ssize_t done = 0
        cdef Node* node
        while done < size:
            at = self._child(at, tokens[done])
            if at == 0:
                break
            node = node_of(self._pool, at)
            smg_prefetch(node_of(self._pool, node.child))
            if self.sweeping and self._holders.is_nobody(_set(node)):
                break
            holders[0] = _set(node)
            common = smg_common(tokens + done, node.page, <uint32_t>min(<Py_ssize_t>node.used, size - done))
            done += common
            if common < node.used:
                break
        return done

    cdef uint32_t _child(self, uint32_t at, uint32_t token) noexcept:
        """The child of `at` that begins with this token, 0 for none."""
        cdef Node* node = node_of(self._pool, at)
        if node.child:
            if node_of(self._pool, node.child).page[0] == token:
                return node.child
            if node.children == 1:
                return 0
        elif node.children == 0:
            return 0
        return self._pool.find(_key(at, token))

    # -- adding --------------------------------------------------------------------------------

    cdef Py_ssize_t add(self, const uint32_t* tokens, Py_ssize_t size, uint32_t worker) noexcept:
        """See `insert`."""
        cdef Pool pool = self._pool
        cdef uint32_t at = _ROOT, child, common, set_before = NOBODY, set_after = NOBODY
        cdef uint32_t walked
        cdef Py_ssize_t done = 0, known = -1
        cdef Node* node
        cdef bint widened = False, revived
        self._evictions = 0
        size = min(size, self.max_tokens)
        if self.sweeping:
            self._sweep(self._swept_by_insert)
        while done < size:
            child = self._child(at, tokens[done])
            if child == 0:
                break
            node = node_of(pool, child)
            smg_prefetch(node_of(pool, node.child))
            common = smg_common(tokens + done, node.page, <uint32_t>min(<Py_ssize_t>node.used, size - done))
            revived = self.sweeping and self._holders.is_dead(&node.base)
            if revived:
                self._set_holders(node, self._holders.adding(NOBODY, worker))
                if known < 0:
                    known = done
            if common < node.used and (done + common < size or revived or not self._holders.has(_set(node), worker)):
                walked = child
                child = self._split(walked, common, at)
                if revived:
                    self._bury(walked)
                if child == 0:
                    return done if known < 0 else known
                node = node_of(pool, child)
            pool.touch(child, at)
            # Neighbours mostly have equal sets: the last change is remembered.
            if _set(node) == set_before and set_before != NOBODY:
                self._holders.retain(set_after)
                self._holders.release(set_before)
            else:
                set_before = _set(node)
                set_after = self._holders.adding(set_before, worker)
                widened |= set_after == EVERYBODY
            self._set_holders(node, set_after)
            if at != _ROOT and node_of(pool, at).children == 1 and _set(node_of(pool, at)) == set_after:
                if node_of(pool, at).used + node.used <= PAGE:
                    self._merge(at, child)
            at = child
            done += common
        if widened:
            self._widen(at)
        if done < size:
            self._extend(tokens + done, size - done, worker, at)
        return done if known < 0 else known

    cdef void _extend(self, const uint32_t* tokens, Py_ssize_t size, uint32_t worker, uint32_t at) noexcept:
        """Put tokens that are not stored yet below `at`, as many as there is room for."""
        cdef Pool pool = self._pool
        cdef Node* node = node_of(pool, at)
        cdef uint32_t number, part, above = at, first = 0, last = 0
        if at != _ROOT and node.children == 0 and node.used < PAGE and _set(node) == alone(worker):
            part = <uint32_t>min(size, <Py_ssize_t>PAGE - node.used)
            if not self._make_room(part, False, at, at):
                return
            memcpy(node.page + node.used, tokens, part * sizeof(uint32_t))
            node.used += part
            self.tokens += part
            tokens += part
            size -= part
        while size > 0:
            part = <uint32_t>min(size, <Py_ssize_t>PAGE)
            number = pool.take() if self._make_room(part, True, at, at) else 0
            if number == 0:
                break
            node = node_of(pool, number)
            node.child = node.children = 0
            node.used = part
            memcpy(node.page, tokens, part * sizeof(uint32_t))
            node.base.key = _key(above, tokens[0])
            node.base.mark = self._holders.adding(NOBODY, worker) << 1
            self._attach(number)
            pool.chain(number, last)
            if first == 0:
                first = number
            last = above = number
            self.tokens += part
            tokens += part
            size -= part
        if first:
            pool.settle(first, last, at)

    cdef bint _make_room(self, Py_ssize_t tokens, bint for_node, uint32_t at, uint32_t split) noexcept:
        """Evict until there is room, but neither `at`, the end of what was known, nor the node to be split."""
        cdef uint32_t victim, parent
        cdef bint spared = False
        while self.tokens + tokens > self.max_tokens or (for_node and self._pool.is_full()):
            victim = self._pool.victim()
            if victim == NEW_HEAD or victim == at or self._evictions == _MOST_EVICTIONS:
                return False
            if victim == split:
                if spared:
                    return False
                spared = True
                self._pool.spare(split)
            else:
                parent = _parent(node_of(self._pool, victim))
                self._evict(victim)
                self._evictions += 1
                if self.sweeping and parent != _ROOT and self._holders.is_dead(record(self._pool, parent)):
                    self._bury(parent)
        return True

    cdef uint32_t _split(self, uint32_t number, uint32_t size, uint32_t at) noexcept:
        """The first `size` tokens become a node of their own, which is returned; 0 when there is no room for it."""
        cdef Pool pool = self._pool
        cdef Node* lower = node_of(pool, number)
        cdef Node* upper
        cdef uint32_t fresh
        if not self._make_room(0, True, at, number):
            return 0
        if at != _ROOT and not node_of(pool, at).base.mark & 1:
            return 0                                     # a tree so small that the path itself was let go
        fresh = pool.take()
        if fresh == 0:
            return 0
        upper = node_of(pool, fresh)
        upper.base.key = lower.base.key
        upper.base.mark = _set(lower) << 1
        self._holders.retain(_set(lower))
        upper.used = size
        upper.child = upper.children = 0
        memcpy(upper.page, lower.page, size * sizeof(uint32_t))
        self._detach(number)
        self._attach(fresh)
        pool.push(fresh, lower.base.newer)
        lower.used -= size
        memmove(lower.page, lower.page + size, lower.used * sizeof(uint32_t))
        lower.base.key = _key(fresh, lower.page[0])
        self._attach(number)
        return fresh

    cdef void _merge(self, uint32_t upper, uint32_t lower) noexcept:
        """`lower`, an only child with room for its parent's tokens, takes its parent's place."""
        cdef Node* parent = node_of(self._pool, upper)
        cdef Node* node = node_of(self._pool, lower)
        memmove(node.page + parent.used, node.page, node.used * sizeof(uint32_t))
        memcpy(node.page, parent.page, parent.used * sizeof(uint32_t))
        node.used += parent.used
        self._detach(lower)
        self._detach(upper)
        node.base.key = parent.base.key
        self._attach(lower)
        self._holders.release(_set(parent))
        parent.used = 0
        self._pool.drop(upper)

    cdef void _widen(self, uint32_t at) noexcept:
        """Above a node that everybody is said to hold, everybody holds all."""
        cdef bint below = False
        while at != _ROOT:
            if _set(node_of(self._pool, at)) == EVERYBODY:
                below = True
            elif below:
                self._holders.release(_set(node_of(self._pool, at)))
                self._set_holders(node_of(self._pool, at), EVERYBODY)
            at = _parent(node_of(self._pool, at))

    # -- nodes ---------------------------------------------------------------------------------

    cdef void _set_holders(self, Node* node, uint32_t holders) noexcept:
        node.base.mark = holders << 1 | (node.base.mark & 1)

    cdef void _attach(self, uint32_t number) noexcept:
        """Its parent, known by its key, can find it."""
        cdef Node* parent = node_of(self._pool, _parent(node_of(self._pool, number)))
        parent.children += 1
        if parent.child == 0:
            parent.child = number
        else:
            self._pool.enter(number)

    cdef void _detach(self, uint32_t number) noexcept:
        cdef Node* parent = node_of(self._pool, _parent(node_of(self._pool, number)))
        parent.children -= 1
        if parent.child == number:
            parent.child = 0
        else:
            self._pool.leave(number)

    cdef void _evict(self, uint32_t number) noexcept:
        cdef Node* node = node_of(self._pool, number)
        self._detach(number)
        self._holders.release(_set(node))
        self.tokens -= node.used
        node.used = 0
        self._pool.drop(number)

    # -- what removed workers held -------------------------------------------------------------

    cdef void _bury(self, uint32_t number) noexcept:
        """Nobody holds the node: drop it if it is a leaf, and those above that are dead leaves then."""
        cdef uint32_t parent
        self._set_holders(node_of(self._pool, number), NOBODY)
        while node_of(self._pool, number).children == 0:
            parent = _parent(node_of(self._pool, number))
            self._evict(number)
            if parent == _ROOT or not self._holders.is_dead(record(self._pool, parent)):
                break
            number = parent
