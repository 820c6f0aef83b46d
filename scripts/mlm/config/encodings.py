"""Which encodings files of text can be read in."""

import codecs

#: Encodings of Python in which a line's meaning depends on the lines before, or that are none of
#: files. What writes the end of a line otherwise than in the byte 0x0A is found by trying.
_UNSUITABLE = ("hz", "iso2022", "utf-7", "idna", "punycode", "raw-unicode-escape")


def encoding_name(name: str) -> str:
    """The name of an encoding that has several: UTF8 is utf-8, latin-1 iso8859-1."""
    return codecs.lookup(name).name


def refused_encoding(name: str) -> str | None:
    """Why files cannot be read in the encoding `name`, in words; None: they can.

    Lines are to end with the byte 0x0A, and each is decoded by itself.
    """
    examples = "Expected one such as utf-8, latin-1, cp1252, shift_jis, gb18030 or koi8-r"
    try:
        line = "a\n".encode(name)
        canonical = encoding_name(name)
    except (LookupError, UnicodeError):
        return f"{name!r} is no encoding of text that Python knows. {examples}"
    if canonical == "utf-8-sig":
        return f"{name!r}: write utf-8; a byte-order mark is dropped all the same"
    if line != b"a\n" or canonical.startswith(_UNSUITABLE):
        return (
            f"{name!r} cannot be read line by line. Convert the files to UTF-8 (iconv -f "
            f"{canonical} -t utf-8 FILE > converted) and leave the key out. {examples}"
        )
    return None
