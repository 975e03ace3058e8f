"""How much a Parquet column unpacks to, from its page headers.

A page of a few bytes may say that it holds two thousand million equal values, and the file's footer may say otherwise: the
reader follows the page. So the page headers are read, before anything is unpacked. They are Thrift structures in the compact
protocol (parquet.thrift, PageHeader), of which three numbers matter.
"""

from typing import Any

_BOOLEANS, _BYTE, _INTEGERS, _DOUBLE, _BINARY, _STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, 12
_DATA_PAGES = (5, 8)  # versions 1 and 2
_DICTIONARY_PAGE = 7
_DEEPEST = 16  # real headers are nested three deep; without a limit a file could exhaust the stack

Fields = dict[int, Any]


def unpacked(data: bytes, column: Any) -> tuple[int, int]:
    """Values and bytes of a column chunk once unpacked, as its pages say; ValueError if they are no pages."""
    position, left = _first_page(column), column.num_values
    end = position + column.total_compressed_size
    values = size = 0
    while left > 0 and position < end:
        reader = _Reader(data, position)
        header = reader.struct()
        # A page of another kind, such as an index, holds no values.
        inner = next((header[kind] for kind in (*_DATA_PAGES, _DICTIONARY_PAGE) if kind in header), {1: 0})
        count, unpacks_to, packed = (_whole(number) for number in (inner.get(1), header.get(2), header.get(3)))
        values, size = values + count, size + unpacks_to
        # A dictionary's entries are not among the values that the footer counts for the column.
        left -= 0 if _DICTIONARY_PAGE in header else count
        position = reader.position + packed
    return values, size


def _first_page(column: Any) -> int:
    first = int(column.data_page_offset)
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < first:
        first = int(column.dictionary_page_offset)
    return _whole(first)


def _whole(number: object) -> int:
    if not isinstance(number, int) or number < 0:
        raise ValueError("a page header without its sizes")
    return number


class _Reader:
    """Thrift's compact protocol, as much of it as a page header can hold; strings are passed over."""

    def __init__(self, data: bytes, position: int) -> None:
        self.data, self.position = data, position

    def struct(self, depth: int = 0) -> Fields:
        if depth > _DEEPEST:
            raise ValueError("a page header nested too deeply")
        fields: Fields = {}
        number = 0
        # A field's head has the distance to the last field's number in its upper half, or 0 and then the number itself. A zero byte
        # ends the structure.
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else _signed(self._varint())
            fields[number] = self._value(head & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _BOOLEANS:
            return None
        if kind == _BYTE:
            return self._byte()
        if kind in _INTEGERS:
            return _signed(self._varint())
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_DOUBLE, _BINARY):
            length = 8 if kind == _DOUBLE else self._varint()
            self.position += length
            return None
        raise ValueError(f"a page header with a field of kind {kind}")

    def _byte(self) -> int:
        if not 0 <= self.position < len(self.data):
            raise ValueError("a page header beyond the end of the file")
        self.position += 1
        return self.data[self.position - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a page header with an endless number")


def _signed(zigzag: int) -> int:
    return (zigzag >> 1) ^ -(zigzag & 1)
