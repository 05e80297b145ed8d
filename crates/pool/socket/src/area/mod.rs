//! Memory of one connection, shared by its two ends: a header, and a ring for each direction.
//!
//! | part | written by |
//! |---|---|
//! | [`Writer`] of a direction | the sending end |
//! | [`Reader`] of a direction | the receiving end |
//! | [`Journal`] of a direction | the sending end |
//! | [`Signals`] of a direction | both ends: the comment of each word names its writer |
//! | [`End`] | the processes of this end |
//!
//! The other end can write all of this memory at any time, so positions are untrusted input: a difference of positions is bounded before it
//! is used, and an offset is masked. A hostile peer can spoil only its own connection.

mod copy;
mod direction;
mod journal;
#[cfg(not(loom))]
mod map;

pub(crate) use direction::{ByteSource, RingDirection, RingReading};
pub(crate) use journal::PushTimes;
#[cfg(not(loom))]
pub(crate) use map::{AreaMapping, Unmappable};

use crate::sync::{AtomicU32, AtomicU64};

/// First word of a header.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"unracksk");
/// Version of the layout.
pub(crate) const VERSION: u32 = 3;
/// Bytes of the header.
pub(crate) const HEAD_BYTES: usize = 4096;
/// Bytes of a ring. Pages that were never written use no memory.
pub(crate) const RING_BYTES: usize = 4 << 20;
/// Initial limit on the bytes in a ring. It grows when a call has more to send.
pub(crate) const FIRST_BYTES: usize = 512 << 10;
/// Bytes of a connection's area, rounded up to whole sections of the pool.
pub const AREA_BYTES: usize = (HEAD_BYTES + 2 * RING_BYTES).next_multiple_of(unrack_pool::SECTION as usize);
/// Maximum bytes in a ring of a Unix socket. The kernel's buffers can hold this number, in case the bytes must return to the kernel.
pub(crate) const UNIX_BYTES: usize = 160 << 10;
/// Value of a position that is not known yet.
pub(crate) const UNSET: u64 = u64::MAX;
/// Value of `begin` of a direction that was frozen before its ring began.
pub(crate) const NEVER: u64 = UNSET - 1;
/// Bit that marks a direction as frozen, in `tail` and `wakes`: see [`Direction::freeze`].
pub(crate) const FROZEN: u64 = 1 << 63;

/// Header of an area.
#[repr(C, align(4096))]
pub(crate) struct Head {
    pub(crate) magic: AtomicU64,
    pub(crate) version: AtomicU32,
    pub(crate) ends: [EndpointWords; 2],
    /// Direction `i` carries the bytes that end `i` sends.
    pub(crate) directions: [DirectionState; 2],
    /// Journal `i` belongs to direction `i`.
    pub(crate) journals: [PushTimes; 2],
}

/// State of one end, shared by the processes that have it.
#[repr(C, align(128))]
pub(crate) struct EndpointWords {
    /// 1 once a process of this end has mapped the area.
    pub(crate) joined: AtomicU32,
    /// 1 once the last known process of this end has closed it.
    pub(crate) closed: AtomicU32,
    /// Number of the thread that sleeps on the kernel's connection in a blocking call and receives the wake bytes; 0 if there is none.
    pub(crate) leader: AtomicU32,
    /// Futex on which the other threads in blocking calls sleep. It changes when the leader has returned.
    pub(crate) turn: AtomicU32,
    /// Number of threads that sleep on `turn`.
    pub(crate) followers: AtomicU32,
    /// Number of threads that sleep in `poll` or in a blocking call for this end.
    pub(crate) sleepers: AtomicU32,
    /// Name of the wakeup of this end, with a bit for wakeups of `epoll` sets: see [`wakeup`](crate::wakeup).
    pub(crate) wakeup: AtomicU64,
    /// 1 if the program has chosen that closing this end resets the connection (`SO_LINGER` with a time of zero).
    pub(crate) resets: AtomicU32,
}

/// State of one direction.
#[repr(C)]
pub(crate) struct DirectionState {
    pub(crate) writer: Writer,
    pub(crate) reader: Reader,
    pub(crate) signals: AreaSignals,
}

/// Words that the sending end writes.
#[repr(C, align(128))]
pub(crate) struct Writer {
    /// Number of bytes written into the ring so far.
    pub(crate) tail: AtomicU64,
    /// Position of the byte that is stored at the start of the ring's memory. It changes only while the ring is empty, so that the ring
    /// reuses few cache lines.
    pub(crate) base: AtomicU64,
    /// Value of `head` when the writer last read it.
    pub(crate) head_seen: AtomicU64,
    /// Number of bytes that went through the kernel before the ring; [`UNSET`] while the ring has not begun, [`NEVER`] if the receiving end
    /// froze the direction before that.
    pub(crate) begin: AtomicU64,
    /// Value of `tail` at which the direction returns to the kernel for good; [`UNSET`] before. The receiving end sets it when it freezes
    /// the direction.
    pub(crate) end: AtomicU64,
    /// Number of wake bytes sent through the kernel. Each is counted before it is sent.
    pub(crate) wakes: AtomicU64,
    /// Number of wake bytes that were counted but not sent, because the kernel's buffer was full.
    pub(crate) owed: AtomicU64,
    /// Maximum bytes in the ring. A value below [`FIRST_BYTES`] means [`FIRST_BYTES`].
    pub(crate) limit: AtomicU64,
    /// Number of bytes of a frozen ring that were also sent through the kernel, because the receiving end asked for it.
    pub(crate) returned: AtomicU64,
}

/// Words that the receiving end writes.
#[repr(C, align(128))]
pub(crate) struct Reader {
    /// Number of bytes read from the ring so far.
    pub(crate) head: AtomicU64,
    /// Number of wake bytes received.
    pub(crate) skipped: AtomicU64,
    /// Source of the next byte; see [`direction`](self::direction).
    pub(crate) phase: AtomicU32,
}

/// Words that change rarely and that each send or receive reads.
#[repr(C, align(128))]
pub(crate) struct AreaSignals {
    /// 1 once the receiving end knows of the ring and distinguishes wake bytes from data in the kernel. Written by the receiving end.
    pub(crate) consent: AtomicU32,
    /// 1 while a receiving thread sleeps until there are bytes. Set by the receiving end; cleared by the sending end, which then wakes the
    /// thread.
    pub(crate) want_data: AtomicU32,
    /// 1 while a sending thread sleeps until there is room. Set by the sending end; cleared by the receiving end, which then wakes the
    /// thread.
    pub(crate) want_room: AtomicU32,
    /// Futex on which blocking senders sleep. Changed by the receiving end.
    pub(crate) room: AtomicU32,
    /// State of the receiving end's request that the kernel carries this direction from now on: one of the values in [`revert`].
    pub(crate) revert: AtomicU32,
    /// 1 once the receiving end was closed.
    pub(crate) gone: AtomicU32,
}

/// Values of [`Signals::revert`]; zero if the receiving end has made no request.
pub(crate) mod revert {
    /// The kernel is to carry the direction from now on. Set by the receiving end.
    pub(crate) const WISHED: u32 = 1;
    /// The kernel is to carry the bytes of the frozen ring as well. Set by the receiving end.
    pub(crate) const RETURN: u32 = 2;
    /// The sending end is sending the bytes of the frozen ring through the kernel. Set by the sending end, and only in place of [`RETURN`].
    pub(crate) const RETURNING: u32 = 3;
    /// The sending end has sent `returned` bytes of the frozen ring through the kernel. Set by the sending end.
    pub(crate) const RETURNED: u32 = 4;
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Head>() == HEAD_BYTES);
const _: () = assert!(HEAD_BYTES + 2 * RING_BYTES <= AREA_BYTES);
const _: () = assert!(RING_BYTES.is_power_of_two());

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// The two ends may have different releases of the library, so a change of the layout needs another [`VERSION`].
    #[test]
    fn the_layout_of_version_3_stays() {
        assert_eq!((VERSION, AREA_BYTES), (3, 10 << 20));
        let head = [
            offset_of!(Head, magic),
            offset_of!(Head, version),
            offset_of!(Head, ends),
            offset_of!(Head, directions),
            offset_of!(Head, journals),
        ];
        let end = [
            offset_of!(EndpointWords, joined),
            offset_of!(EndpointWords, closed),
            offset_of!(EndpointWords, leader),
            offset_of!(EndpointWords, turn),
            offset_of!(EndpointWords, followers),
            offset_of!(EndpointWords, sleepers),
            offset_of!(EndpointWords, wakeup),
            offset_of!(EndpointWords, resets),
            size_of::<EndpointWords>(),
        ];
        let writer = [
            offset_of!(Writer, tail),
            offset_of!(Writer, base),
            offset_of!(Writer, head_seen),
            offset_of!(Writer, begin),
            offset_of!(Writer, end),
            offset_of!(Writer, wakes),
            offset_of!(Writer, owed),
            offset_of!(Writer, limit),
            offset_of!(Writer, returned),
            size_of::<Writer>(),
        ];
        let reader = [
            offset_of!(Reader, head),
            offset_of!(Reader, skipped),
            offset_of!(Reader, phase),
            size_of::<Reader>(),
        ];
        let signals = [
            offset_of!(AreaSignals, consent),
            offset_of!(AreaSignals, want_data),
            offset_of!(AreaSignals, want_room),
            offset_of!(AreaSignals, room),
            offset_of!(AreaSignals, revert),
            offset_of!(AreaSignals, gone),
            size_of::<AreaSignals>(),
        ];
        let shared = [
            offset_of!(DirectionState, writer),
            offset_of!(DirectionState, reader),
            offset_of!(DirectionState, signals),
            size_of::<DirectionState>(),
        ];
        assert_eq!(head, [0, 8, 128, 384, 1152]);
        assert_eq!(end, [0, 4, 8, 12, 16, 20, 24, 32, 128]);
        assert_eq!(writer, [0, 8, 16, 24, 32, 40, 48, 56, 64, 128]);
        assert_eq!(reader, [0, 8, 16, 128]);
        assert_eq!(signals, [0, 4, 8, 12, 16, 20, 128]);
        assert_eq!(shared, [0, 128, 256, 384]);
    }
}
