//! Memory of one connection, shared by its two ends: a header and a ring for each direction.
//!
//! | part | written by |
//! |---|---|
//! | [`Writer`] of a direction | the end that sends |
//! | [`Reader`] of a direction | the end that receives |
//! | [`Journal`] of a direction | the end that sends |
//! | [`Signals`] of a direction | both: each word says who |
//! | [`End`] | the end's own processes |
//!
//! The other end can write all of it at any time, so positions are input: a difference of positions is bounded before it is
//! used, and an offset is masked. What a hostile peer writes spoils its own connection only.

mod copy;
mod direction;
mod journal;
#[cfg(not(loom))]
mod map;

pub(crate) use direction::{Direction, Look, Phase};
pub(crate) use journal::Journal;
#[cfg(not(loom))]
pub(crate) use map::{Map, Unmappable};

use crate::sync::{AtomicU32, AtomicU64};

/// First word of a header.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"unracksk");
/// Version of the layout.
pub(crate) const VERSION: u32 = 3;
/// Bytes of the header.
pub(crate) const HEAD_BYTES: usize = 4096;
/// Bytes of a ring. Pages that were never written take no memory.
pub(crate) const RING_BYTES: usize = 4 << 20;
/// Most bytes in a ring until a call has more to send.
pub(crate) const FIRST_BYTES: usize = 512 << 10;
/// Bytes of a connection's area: sections of the pool.
pub const AREA_BYTES: usize = (HEAD_BYTES + 2 * RING_BYTES).next_multiple_of(unrack_pool::SECTION as usize);
/// Most bytes in a ring of a Unix socket: the kernel's own buffers have room for them, should they be asked back.
pub(crate) const UNIX_BYTES: usize = 160 << 10;
/// Value of a position that is not known yet.
pub(crate) const UNSET: u64 = u64::MAX;
/// Value of `begin` of a direction that was frozen before its ring began.
pub(crate) const NEVER: u64 = UNSET - 1;
/// Bit of `tail` and `wakes` of a direction that was frozen: see [`Direction::freeze`].
pub(crate) const FROZEN: u64 = 1 << 63;

/// Header of an area.
#[repr(C, align(4096))]
pub(crate) struct Head {
    pub(crate) magic: AtomicU64,
    pub(crate) version: AtomicU32,
    pub(crate) ends: [End; 2],
    /// Direction `i` carries what end `i` sends.
    pub(crate) directions: [Shared; 2],
    /// Journal `i` is that of direction `i`.
    pub(crate) journals: [Journal; 2],
}

/// State of one end, for the processes that have it.
#[repr(C, align(128))]
pub(crate) struct End {
    /// 1 once a process of this end has mapped the area.
    pub(crate) joined: AtomicU32,
    /// 1 once the last process of this end that was known closed it.
    pub(crate) closed: AtomicU32,
    /// Thread that sleeps on the kernel's connection for a blocking call, and takes in wake bytes; 0 if none.
    pub(crate) leader: AtomicU32,
    /// Word on which other threads of blocking calls sleep: changes when the leader has returned.
    pub(crate) turn: AtomicU32,
    /// Threads that sleep on `turn`.
    pub(crate) followers: AtomicU32,
    /// Threads that sleep in `poll` or in a blocking call for this end.
    pub(crate) sleepers: AtomicU32,
    /// Name of the wakeup of this end, and whether a set has it: see [`wakeup`](crate::wakeup).
    pub(crate) wakeup: AtomicU64,
    /// 1 if the program has its end be a reset (`SO_LINGER` of no time).
    pub(crate) resets: AtomicU32,
}

/// State of one direction.
#[repr(C)]
pub(crate) struct Shared {
    pub(crate) writer: Writer,
    pub(crate) reader: Reader,
    pub(crate) signals: Signals,
}

/// Words that the sending end writes.
#[repr(C, align(128))]
pub(crate) struct Writer {
    /// Bytes put into the ring so far.
    pub(crate) tail: AtomicU64,
    /// Position that lies at the ring's first byte. Moved only while the ring is empty, so that few lines are in use.
    pub(crate) base: AtomicU64,
    /// `head` as the writer last read it.
    pub(crate) head_seen: AtomicU64,
    /// Bytes that went through the kernel before the ring; [`UNSET`] while all do, [`NEVER`] if the receiving end froze the
    /// direction then.
    pub(crate) begin: AtomicU64,
    /// `tail` at which the kernel carries again, for good; [`UNSET`] before. The receiving end sets it when it freezes the
    /// direction.
    pub(crate) end: AtomicU64,
    /// Wake bytes sent through the kernel, counted before each is sent.
    pub(crate) wakes: AtomicU64,
    /// Wake bytes that were counted, and not sent since the kernel's buffer was full.
    pub(crate) owed: AtomicU64,
    /// Most bytes in the ring; less than [`FIRST_BYTES`] means that.
    pub(crate) limit: AtomicU64,
    /// Bytes of a frozen ring that were sent through the kernel as well, because the receiving end asked for it.
    pub(crate) returned: AtomicU64,
}

/// Words that the receiving end writes.
#[repr(C, align(128))]
pub(crate) struct Reader {
    /// Bytes taken out of the ring so far.
    pub(crate) head: AtomicU64,
    /// Wake bytes taken in.
    pub(crate) skipped: AtomicU64,
    /// Source of the next byte; see [`direction`](self::direction).
    pub(crate) phase: AtomicU32,
}

/// Words that change seldom, and that each send or receive looks at.
#[repr(C, align(128))]
pub(crate) struct Signals {
    /// 1: the receiving end knows of the ring, and tells wake bytes from data. Written by the receiving end.
    pub(crate) consent: AtomicU32,
    /// 1: somebody sleeps until there are bytes. Set by the receiving end, cleared by the sending one, which then wakes.
    pub(crate) want_data: AtomicU32,
    /// 1: somebody sleeps until there is room. Set by the sending end, cleared by the receiving one, which then wakes.
    pub(crate) want_room: AtomicU32,
    /// Word on which blocking senders sleep. Changed by the receiving end.
    pub(crate) room: AtomicU32,
    /// State of the receiving end's wish that the kernel carries this direction from now on: one of [`revert`].
    pub(crate) revert: AtomicU32,
    /// 1: the receiving end was closed.
    pub(crate) gone: AtomicU32,
}

/// Values of [`Signals::revert`]; zero if the receiving end has no wish.
pub(crate) mod revert {
    /// The kernel is to carry from now on. Set by the receiving end.
    pub(crate) const WISHED: u32 = 1;
    /// The kernel is to carry what is in the frozen ring as well. Set by the receiving end.
    pub(crate) const RETURN: u32 = 2;
    /// The sending end puts the ring's bytes into the kernel. Set by the sending end, in place of [`RETURN`] only.
    pub(crate) const RETURNING: u32 = 3;
    /// The sending end has put `returned` bytes into the kernel. Set by the sending end.
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

    /// Both ends may have different releases of the library: a change needs another [`VERSION`].
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
            offset_of!(End, joined),
            offset_of!(End, closed),
            offset_of!(End, leader),
            offset_of!(End, turn),
            offset_of!(End, followers),
            offset_of!(End, sleepers),
            offset_of!(End, wakeup),
            offset_of!(End, resets),
            size_of::<End>(),
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
            offset_of!(Signals, consent),
            offset_of!(Signals, want_data),
            offset_of!(Signals, want_room),
            offset_of!(Signals, room),
            offset_of!(Signals, revert),
            offset_of!(Signals, gone),
            size_of::<Signals>(),
        ];
        let shared = [
            offset_of!(Shared, writer),
            offset_of!(Shared, reader),
            offset_of!(Shared, signals),
            size_of::<Shared>(),
        ];
        assert_eq!(head, [0, 8, 128, 384, 1152]);
        assert_eq!(end, [0, 4, 8, 12, 16, 20, 24, 32, 128]);
        assert_eq!(writer, [0, 8, 16, 24, 32, 40, 48, 56, 64, 128]);
        assert_eq!(reader, [0, 8, 16, 128]);
        assert_eq!(signals, [0, 4, 8, 12, 16, 20, 128]);
        assert_eq!(shared, [0, 128, 256, 384]);
    }
}
