"""How much a Parquet column unpacks to, from its page headers.

A page of a few bytes may say that it holds two thousand million equal values, and the file's footer may say otherwise: the
reader follows the page. So the page headers are read, before anything is unpacked. They are Thrift structures in the compact
protocol (parquet.thrift, PageHeader), of which three numbers matter.
"""

from typing import Any

_BOOLEANS, _BYTE, _INTEGERS, _DOUBLE, _BINARY, _STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, 12
_DICTIONARY_PAGE = 7
_PAGES = (5, 8, _DICTIONARY_PAGE)  # with data, of versions 1 and 2, or with a dictionary
_DEEPEST = 16  # real headers are nested three deep; without a limit a file could exhaust the stack

Fields = dict[int, Any]


def unpacked(data: bytes, column: Any) -> tuple[int, int]:
    """Values and bytes of a column chunk once unpacked, as its pages say; ValueError if they are no pages."""
    position, left = _first_page(column), column.num_values
    end = position + column.total_compressed_size
    values = size = 0
    while left > 0 and position < end:
        try:
            header, position = _struct(data, position, 0)
        except IndexError:
            raise ValueError("a page header beyond the end of the file") from None
        count, unpacks_to, packed = _whole(_values(header)), _whole(header.get(2)), _whole(header.get(3))
        values, size = values + count, size + unpacks_to
        # A dictionary's entries are not among the values that the footer counts for the column.
        left -= 0 if _DICTIONARY_PAGE in header else count
        position += packed
    return values, size


def _values(header: Fields) -> object:
    """How many values a page says it holds; a page of another kind, such as an index, holds none."""
    for kind in _PAGES:
        if kind in header:
            return header[kind].get(1)
    return 0


def _first_page(column: Any) -> int:
    first = int(column.data_page_offset)
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < first:
        first = int(column.dictionary_page_offset)
    return _whole(first)


def _whole(number: object) -> int:
    if not isinstance(number, int) or number < 0:
        raise ValueError("a page header without its sizes")
    return number


# Thrift's compact protocol, as much of it as a page header can hold; strings are passed over. A store of many small parts has
# hundreds of thousands of headers: so these are functions of a position, in which numbers of one byte, as most are, are read in place.


def _struct(data: bytes, at: int, depth: int) -> tuple[Fields, int]:
    """The fields of a structure that begins at a position, and where it ends; IndexError beyond the data."""
    if depth > _DEEPEST:
        raise ValueError("a page header nested too deeply")
    fields: Fields = {}
    number = 0
    # A field's head has the distance to the last field's number in its upper half, or 0 and then the number itself. A zero byte
    # ends the structure.
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _integer(data, at)
        kind = head & 15
        if kind in _INTEGERS:
            byte = data[at]
            fields[number], at = ((byte >> 1) ^ -(byte & 1), at + 1) if byte < 128 else _integer(data, at)
        elif kind == _STRUCT:
            fields[number], at = _struct(data, at, depth + 1)
        elif kind == _BYTE:
            fields[number], at = data[at], at + 1
        else:
            fields[number], at = None, _after(data, at, kind)
    return fields, at + 1


def _after(data: bytes, at: int, kind: int) -> int:
    """Where a value that does not matter ends."""
    if kind in _BOOLEANS:
        return at
    if kind == _DOUBLE:
        return at + 8
    if kind == _BINARY:
        length, at = _varint(data, at)
        return at + length
    raise ValueError(f"a page header with a field of kind {kind}")


def _integer(data: bytes, at: int) -> tuple[int, int]:
    zigzag, at = _varint(data, at)
    return (zigzag >> 1) ^ -(zigzag & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a page header with an endless number")
