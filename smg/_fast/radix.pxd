from libc.stdint cimport uint32_t

from smg._fast.index cimport Index
from smg._fast.pool cimport Pool, Record, record


cdef enum:
    PAGE = 64          # tokens in a node, at most


# A stretch of tokens below its parent. Its key: the parent's number, then its first token.
cdef struct Node:
    Record base
    uint32_t child     # one of its children; the others are found by their keys
    uint32_t children
    uint32_t used      # tokens in the page; 0 in the root and in free nodes
    uint32_t spare
    uint32_t page[64]


cdef class TokenTree(Index):
    cdef readonly Py_ssize_t max_tokens
    cdef readonly Py_ssize_t tokens      # stored, each shared prefix once

    cdef Py_ssize_t find_best(self, const uint32_t* tokens, Py_ssize_t size, uint32_t* holders) noexcept
    cdef Py_ssize_t add(self, const uint32_t* tokens, Py_ssize_t size, uint32_t worker) noexcept

    cdef uint32_t _child(self, uint32_t at, uint32_t token) noexcept
    cdef void _attach(self, uint32_t number) noexcept
    cdef void _detach(self, uint32_t number) noexcept
    cdef void _evict(self, uint32_t number) noexcept
    cdef bint _make_room(self, Py_ssize_t tokens, bint for_node, uint32_t at, uint32_t split) noexcept
    cdef uint32_t _split(self, uint32_t number, uint32_t size, uint32_t at) noexcept
    cdef void _merge(self, uint32_t upper, uint32_t lower) noexcept
    cdef void _extend(self, const uint32_t* tokens, Py_ssize_t size, uint32_t worker, uint32_t at) noexcept
    cdef void _widen(self, uint32_t at) noexcept
    cdef void _set_holders(self, Node* node, uint32_t holders) noexcept


cdef inline Node* node_of(Pool pool, uint32_t number) noexcept:
    return <Node*>record(pool, number)
