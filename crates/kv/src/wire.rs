//! What a request looks like: a header, the key, the value.

use unrack_rpc::Method;
use unrack_rpc::view::{OutOfRange, View, ViewMut};

/// Finds a value, and holds it in a place. Answer: [`Found`], or nothing.
pub const GET: Method = Method::named("kv.get");
/// Copies a value: for clients that share no memory. Answer: its version and the value, or nothing.
pub const READ: Method = Method::named("kv.read");
/// Writes a value. Answer: its version.
pub const PUT: Method = Method::named("kv.put");
/// Writes a value if the key's version is the header's (0: there is none). Answer: the new version, or nothing.
pub const PUT_IF: Method = Method::named("kv.put_if");
/// Removes a key. Answer: the version that is gone, or nothing.
pub const DELETE: Method = Method::named("kv.delete");
/// Lets go what a place holds. Nobody answers.
pub const LET_GO: Method = Method::named("kv.let_go");

/// Bytes of a key, at most.
pub const MOST_KEY: usize = 256;
/// Values that a client reads at a time, at most.
pub const MOST_PLACES: u16 = 1024;

/// Bytes of a version, before a value that is copied.
pub const VERSION: usize = 8;

/// The request makes no sense.
pub const MALFORMED: u16 = 0;
/// There is no memory for the value.
pub const FULL: u16 = 1;

/// Bytes of a header.
pub const HEADER: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    pub key: u16,
    pub place: u16,
    pub value: u32,
    pub version: u64,
}

impl Header {
    /// Writes header and key, and gives what is left for the value.
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

    /// `None` if the request is not as long as its header says, or names what cannot be.
    pub fn read(body: View<'_>) -> Option<Header> {
        let [key, place] = body.get::<[u16; 2]>(0).ok()?;
        let header = Header { key, place, value: body.get(4).ok()?, version: body.get(8).ok()? };
        let bytes = HEADER + usize::from(key) + header.value as usize;
        (bytes == body.len() && usize::from(key) <= MOST_KEY && place < MOST_PLACES).then_some(header)
    }

    /// The value's bytes in a request that this header was read from.
    pub fn value_of(self, body: View<'_>) -> Option<View<'_>> {
        body.part(HEADER + usize::from(self.key), self.value as usize).ok()
    }
}

/// Where a value is, in the server's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub offset: u64,
    pub length: u64,
    pub version: u64,
}

impl Found {
    /// Bytes of it in an answer.
    pub const BYTES: usize = 24;

    pub fn write(self, mut answer: ViewMut<'_>) {
        answer.put(0, [self.offset, self.length, self.version]).expect("as long as it is");
    }

    pub fn read(answer: View<'_>) -> Option<Found> {
        let [offset, length, version] = answer.get(0).ok()?;
        Some(Found { offset, length, version })
    }
}
