//! Messages between a process and the broker. On each connection the process sends a greeting and one request with a descriptor attached,
//! and the broker replies to both.
//!
//! The descriptor attached to a request for an area is the socket itself. The broker reads from the kernel which connection the socket
//! belongs to, so no process can ask for a connection that it does not have.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, transmute};

/// Version of these messages.
pub const VERSION: u32 = 3;
const MAGIC: u32 = u32::from_le_bytes(*b"usk1");
/// Size of a message, in bytes.
pub const BYTES: usize = size_of::<MessageLayout>();
const _: () = assert!(BYTES == 32);

#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct MessageLayout {
    magic: U32,
    version: U32,
    kind: U32,
    zero: U32,
    first: U64,
    second: U64,
}

/// Request to the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Asks for the area of the connection whose socket is attached.
    Area(Connection),
    /// Asks for a name for the wakeup that is attached.
    Name,
    /// Asks for the wakeup that has this name.
    Wakeup(u64),
    /// Asks whether the broker answers, before a descriptor is sent to it. A stopped broker would keep such a descriptor open, and thereby
    /// keep the connection open after its program closed it.
    Hello,
}

/// Connection, as one of its ends identifies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// Inode number of the socket, if it is a Unix socket, because Unix sockets have no other name; zero otherwise.
    pub own: u64,
    /// Inode number of the peer's socket.
    pub peer: u64,
    /// True if the process wants an area that was handed out before, and no new area.
    pub again: bool,
}

/// Reply of the broker to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The area is attached. The number is that of the end that asked (0 or 1).
    Area(u32),
    /// The other end has not asked yet.
    NotYet,
    /// Refusal: the connection stays with the kernel, the broker gives the wakeup no name, or no wakeup has this name.
    Never,
    /// Name of the wakeup.
    Named(u64),
    /// The wakeup is attached.
    Wakeup,
    /// Answer to [`Request::Hello`]: the process may send its request.
    Ready,
}

impl Request {
    /// Returns the bytes to send.
    pub fn encode(self) -> [u8; BYTES] {
        match self {
            Request::Area(asked) => encode(u32::from(asked.again), asked.own, asked.peer),
            Request::Name => encode(2, 0, 0),
            Request::Wakeup(name) => encode(3, name, 0),
            Request::Hello => encode(4, 0, 0),
        }
    }

    /// Decodes a message; `None` if it is not a valid request.
    pub fn decode(bytes: &[u8]) -> Option<Request> {
        match decode(bytes)? {
            (again @ 0..=1, own, peer) => Some(Request::Area(Connection { own, peer, again: again != 0 })),
            (2, ..) => Some(Request::Name),
            (3, name, _) => Some(Request::Wakeup(name)),
            (4, ..) => Some(Request::Hello),
            _ => None,
        }
    }
}

impl Reply {
    /// Returns the bytes to send.
    pub fn encode(self) -> [u8; BYTES] {
        match self {
            Reply::Area(end) => encode(0, end.into(), 0),
            Reply::NotYet => encode(1, 0, 0),
            Reply::Never => encode(2, 0, 0),
            Reply::Named(name) => encode(3, name, 0),
            Reply::Wakeup => encode(4, 0, 0),
            Reply::Ready => encode(5, 0, 0),
        }
    }

    /// Decodes a message; `None` if it is not a valid reply.
    pub fn decode(bytes: &[u8]) -> Option<Reply> {
        match decode(bytes)? {
            (0, end @ 0..=1, _) => Some(Reply::Area(end as u32)),
            (1, ..) => Some(Reply::NotYet),
            (2, ..) => Some(Reply::Never),
            (3, name, _) => Some(Reply::Named(name)),
            (4, ..) => Some(Reply::Wakeup),
            (5, ..) => Some(Reply::Ready),
            _ => None,
        }
    }
}

fn encode(kind: u32, first: u64, second: u64) -> [u8; BYTES] {
    transmute!(MessageLayout {
        magic: MAGIC.into(),
        version: VERSION.into(),
        kind: kind.into(),
        zero: U32::ZERO,
        first: first.into(),
        second: second.into(),
    })
}

fn decode(bytes: &[u8]) -> Option<(u32, u64, u64)> {
    let MessageLayout { magic, version, kind, first, second, .. } = MessageLayout::read_from_bytes(bytes).ok()?;
    (magic == MAGIC && version == VERSION).then(|| (kind.into(), first.into(), second.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Layout of requests and replies. It must not change within a version, because a broker of another release may read them.
    #[test]
    fn each_field_has_its_place() {
        let own = 0x0102_0304_0506_0708;
        let area = Request::Area(Connection { own, peer: 0x1112, again: true });
        let bytes = *b"usk1\x03\0\0\0\x01\0\0\0\0\0\0\0\x08\x07\x06\x05\x04\x03\x02\x01\x12\x11\0\0\0\0\0\0";
        assert_eq!(area.encode(), bytes);
        assert_eq!(Request::decode(&bytes), Some(area));
        assert_eq!(Request::decode(&bytes[1..]), None);
        let mut other = bytes;
        other[4] = 2;
        assert_eq!(Request::decode(&other), None, "another version");
        let mut name = [0; BYTES];
        name[..20].copy_from_slice(b"usk1\x03\0\0\0\x03\0\0\0\0\0\0\0\x07\0\0\x01");
        assert_eq!(Reply::Named(0x0100_0007).encode(), name);
        assert_eq!(Reply::decode(&name), Some(Reply::Named(0x0100_0007)));
    }
}
