//! Format of requests and answers. A request consists of a header, the key and the value.

use unrack_rpc::Method;
use unrack_rpc::view::{OutOfRange, View, ViewMut};

/// Method that finds a value and holds it in a place. The answer is a [`ValuePosition`], or empty if there is no such key.
pub const GET: Method = Method::named("kv.get");
/// Method that copies a value, for clients that share no memory. The answer is the version and the value, or empty if
/// there is no such key.
pub const READ: Method = Method::named("kv.read");
/// Method that writes a value. The answer is the value's version.
pub const PUT: Method = Method::named("kv.put");
/// Method that writes a value if the key has the version in the header, where 0 means no such key. The answer is the
/// new version, or empty if the key has another version.
pub const PUT_IF: Method = Method::named("kv.put_if");
/// Method that removes a key. The answer is the removed version, or empty if there was no such key.
pub const DELETE: Method = Method::named("kv.delete");
/// Method that releases the value that a place holds. It has no answer.
pub const LET_GO: Method = Method::named("kv.let_go");

/// Maximum bytes of a key.
pub const MOST_KEY: usize = 256;
/// Maximum number of values that a client may read at the same time.
pub const MOST_PLACES: u16 = 1024;

/// Number of bytes of the version, which comes before a copied value.
pub const VERSION: usize = 8;

/// Number with which the store refuses a malformed request.
pub const MALFORMED: u16 = 0;
/// Number with which the store refuses a put for which there is no memory.
pub const FULL: u16 = 1;

/// Number of bytes of a header.
pub const HEADER: usize = 16;

/// Header of a request. `key` and `value` are lengths in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    pub key: u16,
    pub place: u16,
    pub value: u32,
    pub version: u64,
}

impl Header {
    /// Writes the header and the key, and passes the rest of the body to `value`.
    ///
    /// # Errors
    /// [`OutOfRange`] if the body is shorter than the header, the key and the value together.
    pub fn write(
        self,
        key: &[u8],
        mut body: ViewMut<'_>,
        value: impl FnOnce(ViewMut<'_>),
    ) -> Result<(), OutOfRange> {
        body.put(0, [self.key, self.place])?;
        body.put(4, self.value)?;
        body.put(8, self.version)?;
        body.part(HEADER, key.len())?.copy_from(key);
        value(body.part(HEADER + key.len(), self.value as usize)?);
        Ok(())
    }

    /// Reads a header. Returns `None` if the request's length differs from the one that the header implies, or if the
    /// key's length or the place is out of range.
    pub fn read(body: View<'_>) -> Option<Header> {
        let [key, place] = body.get::<[u16; 2]>(0).ok()?;
        let header = Header { key, place, value: body.get(4).ok()?, version: body.get(8).ok()? };
        let bytes = HEADER + usize::from(key) + header.value as usize;
        (bytes == body.len() && usize::from(key) <= MOST_KEY && place < MOST_PLACES).then_some(header)
    }

    /// Returns the bytes of the value in the request from which this header was read.
    pub fn value_of(self, body: View<'_>) -> Option<View<'_>> {
        body.part(HEADER + usize::from(self.key), self.value as usize).ok()
    }
}

/// Position of a value in the server's memory, as an offset and a length in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValuePosition {
    pub offset: u64,
    pub length: u64,
    pub version: u64,
}

impl ValuePosition {
    /// Number of bytes of an answer with a [`ValuePosition`].
    pub const BYTES: usize = 24;

    /// Writes the fields into an answer.
    pub fn write(self, mut answer: ViewMut<'_>) {
        answer.put(0, [self.offset, self.length, self.version]).expect("as long as it is");
    }

    /// Reads the fields of an answer; `None` if the answer is too short.
    pub fn read(answer: View<'_>) -> Option<ValuePosition> {
        let [offset, length, version] = answer.get(0).ok()?;
        Some(ValuePosition { offset, length, version })
    }
}
