//! Decoder for protobuf's wire format: reads a buffer as a sequence of (number, value).

pub(super) type WireResult<T> = Result<T, Malformed>;

/// A decoding error, with a message for the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Malformed {
    /// Innermost field at fault; empty for the envelope.
    pub(super) field: String,
    pub(super) why: String,
}

impl<T: Into<String>> From<T> for Malformed {
    fn from(why: T) -> Self {
        Self { field: String::new(), why: why.into() }
    }
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.why)
    }
}

/// Value of a field on the wire. The field's type determines how it is decoded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

/// Reads fields from the front of a buffer. Each read consumes at least one byte, so reading terminates.
#[derive(Debug, Clone)]
pub(super) struct WireReader<'a> {
    rest: &'a [u8],
}

impl<'a> WireReader<'a> {
    pub(super) fn new(buffer: &'a [u8]) -> Self {
        Self { rest: buffer }
    }

    /// Returns the next field, or `None` at the end.
    pub(super) fn next(&mut self) -> WireResult<Option<(u64, Wire<'a>)>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = tag >> 3;
        // Protobuf numbers fields with 29 bits.
        if number == 0 || number > 0x1fff_ffff {
            return Err(format!("illegal field number {number}").into());
        }
        let value = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = self.varint()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed32(u32::from_le_bytes(self.array()?)),
            kind => return Err(format!("field {number} has the unsupported wire type {kind}").into()),
        };
        Ok(Some((number, value)))
    }

    /// Reads all bytes as varints: the encoding of packed lists.
    pub(super) fn packed(mut self) -> WireResult<Vec<u64>> {
        let mut values = Vec::new();
        while !self.rest.is_empty() {
            values.push(self.varint()?);
        }
        Ok(values)
    }

    fn varint(&mut self) -> WireResult<u64> {
        let mut value = 0u64;
        for (index, byte) in self.rest.iter().enumerate() {
            // Nine bytes hold 63 bits; only the lowest bit of the tenth fits into 64.
            if index == 9 && *byte > 1 {
                return Err("varint overflow".into());
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err("unexpected end of the body in a varint".into())
    }

    fn take(&mut self, length: u64) -> WireResult<&'a [u8]> {
        // A length that does not fit into `usize` exceeds the buffer as well.
        let taken = usize::try_from(length).ok().and_then(|length| self.rest.split_at_checked(length));
        let Some((taken, rest)) = taken else {
            let left = self.rest.len();
            return Err(
                format!("unexpected end of the body: a value of {length} bytes, {left} bytes left").into()
            );
        };
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> WireResult<[u8; N]> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(format!(
                "unexpected end of the body: a value of {N} bytes, {} bytes left",
                self.rest.len()
            )
            .into());
        };
        self.rest = rest;
        Ok(*taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(buffer: &[u8]) -> WireResult<Vec<(u64, Wire<'_>)>> {
        let mut reader = WireReader::new(buffer);
        std::iter::from_fn(|| reader.next().transpose()).collect()
    }

    #[test]
    fn the_four_wire_types_are_read() {
        assert_eq!(check(&[0x08, 0x96, 0x01]), Ok(vec![(1, Wire::Varint(150))]));
        assert_eq!(check(&[0x12, 0x02, b'h', b'i']), Ok(vec![(2, Wire::Bytes(b"hi"))]));
        assert_eq!(check(&[0x1d, 1, 0, 0, 0]), Ok(vec![(3, Wire::Fixed32(1))]));
        assert_eq!(check(&[0x21, 1, 0, 0, 0, 0, 0, 0, 0]), Ok(vec![(4, Wire::Fixed64(1))]));
        assert_eq!(
            check(&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
            Ok(vec![(1, Wire::Varint(u64::MAX))])
        );
    }

    #[test]
    fn malformed_bytes_are_an_error() {
        for (buffer, error) in [
            (&[0x08][..], "unexpected end of the body in a varint"),
            (&[0x00, 0x00], "illegal field number 0"),
            (&[0x0b], "field 1 has the unsupported wire type 3"),
            (&[0x0a, 0x05, b'h'], "unexpected end of the body: a value of 5 bytes, 1 bytes left"),
            (&[0x09, 1, 2], "unexpected end of the body: a value of 8 bytes, 2 bytes left"),
            (&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], "varint overflow"),
        ] {
            assert_eq!(check(buffer), Err(error.into()));
        }
    }
}
