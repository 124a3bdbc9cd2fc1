"""The bytes of a frame and of a segment header."""

import struct

import pytest
from crc32c import crc32c

from driftq.log.frame import HEADER_BYTES, MAX_PAYLOAD, Frame, Header, decode_header, encode_header
from driftq.log.segment import (
    SEGMENT_HEADER_BYTES,
    decode_segment_header,
    encode_segment_header,
    segment_name,
    segment_numbers,
)


def a_frame(capacity: int = 100) -> Frame:
    return Frame(segment=1, lsn=7, position=88, capacity=capacity)


@pytest.mark.clause("W4")
def test_header_and_payload_each_have_a_length_and_a_checksum() -> None:
    frame = a_frame()
    frame.append(b"hello ", b"world")
    header, *payload = frame.encoded()
    assert b"".join(payload) == b"hello world"
    assert struct.unpack("<4sIQII", header) == (
        b"\xffDQ\xfe",
        11,
        7,
        crc32c(b"hello world"),
        crc32c(header[:20]),
    )
    assert (len(header), HEADER_BYTES) == (24, 24)


@pytest.mark.parametrize("parts", [1, 3, 4, 50])
def test_parts_are_one_payload_however_many_they_are(parts: int) -> None:
    frame = a_frame(capacity=1000)
    pieces = [bytes([65 + part % 26]) * (part + 1) for part in range(parts)]
    pieces = pieces[:40]
    frame.append(*pieces)
    header, *payload = frame.encoded()
    found = decode_header(header, 0)
    assert b"".join(payload) == b"".join(pieces)
    assert found == Header(sum(map(len, pieces)), 7, crc32c(b"".join(pieces)))


def test_append_says_where_the_first_part_will_stand() -> None:
    frame = a_frame()
    assert frame.append(b"abc", b"de") == 88
    assert frame.append(b"f") == 93
    assert frame.size == 6


def test_a_frame_takes_what_fits_and_stays_as_it_was_when_something_does_not() -> None:
    frame = a_frame(capacity=4)
    frame.append(b"abc")
    with pytest.raises(ValueError, match="do not fit"):
        frame.append(b"de")
    assert frame.size == 3
    frame.append(b"d")
    assert b"".join(frame.encoded()[1:]) == b"abcd"


@pytest.mark.clause("W4")
def test_every_flipped_bit_of_a_header_is_seen() -> None:
    good = encode_header(Header(length=300, lsn=9, crc=123456))
    assert decode_header(good, 0) == (300, 9, 123456)
    for bit in range(len(good) * 8):
        damaged = bytearray(good)
        damaged[bit // 8] ^= 1 << bit % 8
        assert decode_header(bytes(damaged), 0) is None


@pytest.mark.parametrize("length", [0, MAX_PAYLOAD + 1])
def test_a_length_that_no_frame_has_is_damage(length: int) -> None:
    assert decode_header(encode_header(Header(length, 1, 0)), 0) is None


@pytest.mark.clause("W4")
def test_every_flipped_bit_of_a_segment_header_is_seen() -> None:
    good = encode_segment_header(number=3, first_lsn=40)
    assert len(good) == SEGMENT_HEADER_BYTES == 64
    assert decode_segment_header(good) == (1, 3, 40)
    assert decode_segment_header(good[:63]) is None
    for bit in range(len(good) * 8):
        damaged = bytearray(good)
        damaged[bit // 8] ^= 1 << bit % 8
        assert decode_segment_header(bytes(damaged)) is None


def test_segments_are_named_by_number_and_other_files_are_left_alone() -> None:
    names = [segment_name(12), "00000000000000000002.log.tmp", "notes.txt", "1.log", segment_name(3)]
    assert segment_name(12) == "00000000000000000012.log"
    assert segment_numbers(names) == [3, 12]
