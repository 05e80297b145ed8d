//! Encoding of numbers and strings as bytes of a recording.

use super::RecordingError;

/// Appends a number in LEB128 encoding.
pub(super) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Appends a signed difference, which takes few bytes if its magnitude is small. The sign is stored in the lowest bit.
pub(super) fn put_difference(bytes: &mut Vec<u8>, difference: u64) {
    let signed = difference as i64;
    put(bytes, ((signed << 1) ^ (signed >> 63)) as u64);
}

/// Appends a string, preceded by its length.
pub(super) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// Reader of the payload of a record.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Offset of the payload in the file.
    offset: u64,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the beginning of a payload. `offset` is the offset of this payload in the file.
    pub(super) fn new(bytes: &'a [u8], offset: u64) -> Cursor<'a> {
        Cursor { bytes, at: 0, offset }
    }

    /// Returns the error for damage at the current position of the cursor.
    pub(super) fn damaged(&self, what: &'static str) -> RecordingError {
        RecordingError::Damaged { offset: self.offset + self.at as u64, what }
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// If the payload has ended.
    pub(super) fn byte(&mut self) -> Result<u8, RecordingError> {
        let byte = *self.bytes.get(self.at).ok_or_else(|| self.damaged("the record ends too soon"))?;
        self.at += 1;
        Ok(byte)
    }

    /// Reads a number.
    ///
    /// # Errors
    /// If the payload ends within the number, or the number does not fit into 64 bits.
    pub(super) fn number(&mut self) -> Result<u64, RecordingError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(self.damaged("a number does not fit 64 bits"))
    }

    /// Reads a number of the integer type `T`, which may be smaller than 64 bits.
    ///
    /// # Errors
    /// If the payload ends within the number, or the number does not fit into the type.
    pub(super) fn small<T: TryFrom<u64>>(&mut self) -> Result<T, RecordingError> {
        let number = self.number()?;
        T::try_from(number).map_err(|_| self.damaged("a number is too large"))
    }

    /// Reads a signed difference.
    ///
    /// # Errors
    /// If the payload ends within the difference, or the difference does not fit into 64 bits.
    pub(super) fn difference(&mut self) -> Result<u64, RecordingError> {
        let number = self.number()?;
        Ok((number >> 1) ^ (number & 1).wrapping_neg())
    }

    /// Reads the number of items that follow in the payload. Each of these items takes at least one byte.
    ///
    /// # Errors
    /// If the rest of the payload is too short for this number of items.
    pub(super) fn count(&mut self) -> Result<usize, RecordingError> {
        let number = self.number()?;
        let room = (self.bytes.len() - self.at) as u64;
        (number <= room)
            .then_some(number as usize)
            .ok_or_else(|| self.damaged("more is announced than the record has room for"))
    }

    /// Reads a string of at most `longest` bytes.
    ///
    /// # Errors
    /// If the payload ends within the string, or the string is too long or not UTF-8.
    pub(super) fn text(&mut self, longest: usize) -> Result<&'a str, RecordingError> {
        let length = self.count()?;
        if length > longest {
            return Err(self.damaged("a name is too long"));
        }
        let bytes = &self.bytes[self.at..self.at + length];
        let text = std::str::from_utf8(bytes).map_err(|_| self.damaged("a name is not UTF-8"))?;
        self.at += length;
        Ok(text)
    }

    /// Checks that the payload has been read completely.
    ///
    /// # Errors
    /// If bytes of the payload are left.
    pub(super) fn end(&self) -> Result<(), RecordingError> {
        (self.at == self.bytes.len()).then_some(()).ok_or_else(|| self.damaged("the record is too long"))
    }
}
