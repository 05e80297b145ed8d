//! One direction of a connection: where its bytes pass, and how they are written and read.
//!
//! A direction begins in the kernel. It can change over to the ring once, and back to the kernel once, each time at a byte that both ends
//! know:
//!
//! ```text
//! kernel: bytes 0 .. begin | ring: bytes 0 .. end | kernel: all further bytes
//! ```
//!
//! The sending end sets `begin` after the receiving end has given its consent, and sets `end` when either end asks for it. While the ring
//! carries the direction, the sending end sends only wake bytes through the kernel, and counts each before it sends it. Therefore the
//! receiving end can distinguish wake bytes from data among all bytes in the kernel.
//!
//! The receiving end can also end the ring without the sending end, which may be busy, stopped or dead: it *freezes* the direction. From
//! then on, no write succeeds and no wake byte is counted, so both counts are final. The sending end continues through the kernel with its
//! next byte.

use super::copy::copy_in;
use super::{DirectionState, FIRST_BYTES, FROZEN, NEVER, PushTimes, RING_BYTES, UNSET, revert};
use crate::pieces::Pieces;
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Source of the next byte for the receiving end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteSource {
    /// The kernel. The receiving end has not given its consent to the ring.
    Kernel,
    /// The kernel, up to the byte at position `begin`, where the ring takes over. The sending end may set `begin` at any moment.
    Agreed,
    /// The ring.
    Ring,
    /// The kernel, for good, after any wake bytes that are still in it.
    Over,
}

/// State of a ring, as a look at it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RingReading {
    /// Number of bytes that can be received.
    Bytes(usize),
    Empty,
    /// The ring is empty and will stay so, because the kernel carries all further bytes.
    Ended,
    /// The positions are impossible, so the other end must have written invalid values.
    Broken,
}

/// Number of bytes after which the writer checks whether the ring is empty. If it is, the writer starts again at the ring's first byte.
const REWIND: u64 = if cfg!(loom) { 1 } else { 16 << 10 };
/// Number of bytes after which a long copy is published to the reader, so that writer and reader copy at the same time.
const STRIDE: usize = if cfg!(loom) { 1 } else { 16 << 10 };

/// Maximum bytes that a caller's function puts into the ring at a time.
const FILL: usize = 256 << 10;

/// A direction, and its ring as mapped in this process.
#[derive(Clone, Copy)]
pub(crate) struct RingDirection<'a> {
    shared: &'a DirectionState,
    journal: &'a PushTimes,
    ring: *mut u8,
    /// Maximum bytes that may ever be in the ring.
    most: u64,
}

impl<'a> RingDirection<'a> {
    /// Makes the view of a direction.
    ///
    /// # Safety
    /// At `ring`, `2 * RING_BYTES` bytes are mapped for as long as `shared` is borrowed, and both halves are the same memory.
    pub(crate) unsafe fn new(
        shared: &'a DirectionState,
        journal: &'a PushTimes,
        ring: *mut u8,
        most: usize,
    ) -> RingDirection<'a> {
        RingDirection { shared, journal, ring, most: most.min(RING_BYTES) as u64 }
    }

    /// Returns the most bytes that may be in the ring now.
    fn limit(&self) -> u64 {
        self.shared
            .writer
            .limit
            .load(Ordering::Relaxed)
            .clamp(FIRST_BYTES as u64, RING_BYTES as u64)
            .min(self.most)
    }

    /// Raises the limit for a call that has more to send, as the kernel does with its buffers. Programs repeat calls of the same size, and
    /// some prepare the whole rest of their data again after each call that was cut short.
    fn make_room(&self, bytes: usize) {
        if bytes as u64 > self.limit() {
            let limit = bytes.checked_next_power_of_two().unwrap_or(RING_BYTES).min(RING_BYTES);
            self.shared.writer.limit.store(limit as u64, Ordering::Relaxed);
        }
    }

    /// Returns all shared words of the direction.
    pub(crate) fn shared(&self) -> &'a DirectionState {
        self.shared
    }

    /// Returns the words by which the two ends signal each other.
    pub(crate) fn signals(&self) -> &'a super::AreaSignals {
        &self.shared.signals
    }

    /// Returns the words that the sending end writes.
    pub(crate) fn writer(&self) -> &'a super::Writer {
        &self.shared.writer
    }

    /// Returns the words that the receiving end writes.
    pub(crate) fn reader(&self) -> &'a super::Reader {
        &self.shared.reader
    }

    /// Returns whether the ring has begun to carry.
    pub(crate) fn has_begun(&self) -> bool {
        self.begin() != UNSET
    }

    /// Returns the number of bytes that went through the kernel before the ring; [`UNSET`] if the ring has not begun.
    pub(crate) fn begin(&self) -> u64 {
        match self.shared.writer.begin.load(Ordering::Acquire) {
            NEVER => UNSET,
            begin => begin,
        }
    }

    /// Returns the number of bytes written into the ring so far.
    pub(crate) fn tail(&self) -> u64 {
        self.shared.writer.tail.load(Ordering::Acquire) & !FROZEN
    }

    /// Ends the use of the ring after the bytes that are in it, without the help of the sending end. The caller holds the receive lock.
    pub(crate) fn freeze(&self) {
        let writer = &self.shared.writer;
        let order = (Ordering::SeqCst, Ordering::Relaxed);
        // The sending end must see this request before it finds that a write failed.
        let _ = self.shared.signals.revert.compare_exchange(0, revert::WISHED, order.0, order.1);
        let _ = writer.begin.compare_exchange(UNSET, NEVER, order.0, order.1);
        let tail = writer.tail.fetch_or(FROZEN, Ordering::SeqCst) & !FROZEN;
        writer.wakes.fetch_or(FROZEN, Ordering::SeqCst);
        let _ = writer.end.compare_exchange(UNSET, tail, order.0, order.1);
    }

    /// Returns whether the receiving end froze the direction.
    pub(crate) fn is_frozen(&self) -> bool {
        self.shared.writer.tail.load(Ordering::Acquire) & FROZEN != 0
    }

    /// Counts a wake byte that the sending end is about to send. Returns false if the byte must not be sent, because the direction is
    /// frozen.
    pub(crate) fn count_wake(&self) -> bool {
        let count = |wakes: u64| (wakes & FROZEN == 0).then(|| wakes + 1);
        self.shared.writer.wakes.fetch_update(Ordering::SeqCst, Ordering::Relaxed, count).is_ok()
    }

    /// Makes the receiving end skip further bytes in the kernel, as it skips wake bytes. The direction is frozen.
    pub(crate) fn skip_more(&self, bytes: u64) {
        self.shared.writer.wakes.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Ends the use of the ring after the bytes that are in it. The caller holds the send lock, or the connection is over.
    pub(crate) fn finish(&self) {
        let end = &self.shared.writer.end;
        let _ = end.compare_exchange(UNSET, self.tail(), Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Returns whether the kernel carries, for good, the bytes that are sent from now on.
    pub(crate) fn has_ended(&self) -> bool {
        self.shared.writer.end.load(Ordering::Acquire) != UNSET
    }

    /// Returns whether bytes that are sent now go into the ring.
    pub(crate) fn is_ring(&self) -> bool {
        self.has_begun() && !self.has_ended()
    }

    /// Returns the source of the next byte for the receiving end.
    pub(crate) fn phase(&self) -> ByteSource {
        match self.shared.reader.phase.load(Ordering::Acquire) {
            0 => ByteSource::Kernel,
            1 => ByteSource::Agreed,
            2 => ByteSource::Ring,
            _ => ByteSource::Over,
        }
    }

    /// Sets the source of the next byte for the receiving end.
    pub(crate) fn set_phase(&self, phase: ByteSource) {
        self.shared.reader.phase.store(phase as u32, Ordering::Release);
    }

    /// Returns whether the sending end should leave the ring: the receiving end asked for it, or is closed.
    pub(crate) fn is_unwanted(&self) -> bool {
        let signals = &self.shared.signals;
        signals.revert.load(Ordering::Acquire) | signals.gone.load(Ordering::Acquire) != 0
    }

    /// Requests a wakeup once there are bytes. The caller must check for bytes once more before it sleeps.
    pub(crate) fn request_data(&self) {
        self.shared.signals.want_data.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Requests a wakeup once there is room. The caller must check for room once more before it sleeps.
    pub(crate) fn request_room(&self) {
        self.shared.signals.want_room.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Returns the state of the ring, as the receiving end sees it.
    pub(crate) fn look(&self) -> RingReading {
        let tail = self.tail();
        let head = self.shared.reader.head.load(Ordering::Relaxed);
        match tail.wrapping_sub(head) {
            0 if self.shared.writer.end.load(Ordering::Acquire) == UNSET => RingReading::Empty,
            // The last bytes may have arrived between the two loads.
            0 if self.tail() == tail => RingReading::Ended,
            0 => self.look(),
            bytes if bytes <= RING_BYTES as u64 => RingReading::Bytes(bytes as usize),
            _ => RingReading::Broken,
        }
    }

    /// Returns the free bytes of the ring, as the sending end sees them.
    fn room(&self) -> usize {
        self.room_from(&self.shared.reader.head)
    }

    /// Returns whether there is enough room for the socket to be writable, according to the current words of the receiving end.
    pub(crate) fn has_room(&self) -> bool {
        self.room() >= self.enough()
    }

    /// Returns whether the receiving end has left bytes unreceived.
    pub(crate) fn is_unread(&self) -> bool {
        self.tail() != self.shared.reader.head.load(Ordering::Acquire)
    }

    /// Returns the room from which on a socket is writable. The kernel uses a third of its buffer.
    fn enough(&self) -> usize {
        (self.limit() as usize / 4).max(1)
    }

    fn room_from(&self, head: &AtomicU64) -> usize {
        let tail = self.shared.writer.tail.load(Ordering::Relaxed);
        let used = tail.wrapping_sub(head.load(Ordering::Acquire));
        self.limit().saturating_sub(used) as usize
    }

    /// Returns whether there is enough room for the socket to be writable.
    pub(crate) fn is_writable(&self) -> bool {
        self.room_from(&self.shared.writer.head_seen) >= self.enough() || self.has_room()
    }

    /// Writes bytes into the ring as far as there is room, and returns their number. `wake` is called when a reader sleeps. The caller
    /// holds the send lock.
    pub(crate) fn push(&self, from: &mut Pieces<'_>, mut wake: impl FnMut()) -> usize {
        let mut sum = 0;
        self.make_room(from.left());
        while from.left() > 0 {
            let room = self.room_for(from.left());
            if room == 0 {
                break;
            }
            sum += self.push_once(from, room.min(STRIDE));
            if from.is_bad() {
                break;
            }
            if take(&self.shared.signals.want_data) {
                wake();
            }
        }
        sum
    }

    /// Lets the function `filler` write bytes into the ring, at most `left`, until the ring is full or the function has no more. Returns
    /// the number of bytes, or the function's own result if it wrote none. If the ring was frozen meanwhile, `stranded` receives the bytes
    /// that the function wrote too late, which must be sent through the kernel. The caller holds the send lock.
    pub(crate) fn fill(
        &self,
        left: &mut usize,
        filler: &mut dyn FnMut(*mut u8, usize) -> isize,
        mut wake: impl FnMut(),
        stranded: impl FnOnce(*const u8, usize),
    ) -> isize {
        let mut sum = 0;
        self.make_room(*left);
        while *left > 0 {
            let room = self.room_for(*left);
            if room == 0 {
                break;
            }
            let writer = &self.shared.writer;
            let tail = writer.tail.load(Ordering::Relaxed);
            self.rewind(tail);
            let place = self.place(tail, writer.base.load(Ordering::Relaxed));
            let most = room.min(*left).min(FILL);
            let put = filler(place, most);
            if put <= 0 {
                return if sum > 0 { sum } else { put };
            }
            let put = (put as usize).min(most);
            self.journal.write_down(tail);
            *left -= put;
            sum += put as isize;
            let next = tail.wrapping_add(put as u64);
            if writer.tail.compare_exchange(tail, next, Ordering::SeqCst, Ordering::Relaxed).is_err() {
                if self.is_frozen() {
                    stranded(place, put);
                    break;
                }
                writer.tail.store(next, Ordering::SeqCst);
            }
            if take(&self.shared.signals.want_data) {
                wake();
            }
        }
        sum
    }

    /// Returns whether the ring is full, as the receiving end sees it, so that bytes must be received before more can come.
    pub(crate) fn is_full(&self) -> bool {
        self.reader_room() == 0
    }

    /// Returns whether at least one byte can be written into the ring.
    pub(crate) fn has_place(&self) -> bool {
        self.room() > 0
    }

    fn room_for(&self, bytes: usize) -> usize {
        let seen = self.room_from(&self.shared.writer.head_seen);
        if seen >= bytes.min(STRIDE) {
            return seen;
        }
        let head = self.shared.reader.head.load(Ordering::Acquire);
        self.shared.writer.head_seen.store(head, Ordering::Relaxed);
        self.room_from(&self.shared.writer.head_seen)
    }

    fn push_once(&self, from: &mut Pieces<'_>, most: usize) -> usize {
        let writer = &self.shared.writer;
        let tail = writer.tail.load(Ordering::Relaxed);
        self.rewind(tail);
        let base = writer.base.load(Ordering::Relaxed);
        let (mut put, before) = (0, *from);
        while put < most {
            let Some((source, bytes)) = from.next(most - put) else { break };
            // SAFETY: the offset is masked, and the ring is mapped a second time behind the first; the caller guarantees the length of the
            // buffer.
            unsafe { copy_in(source, self.place(tail.wrapping_add(put as u64), base), bytes) };
            from.advance(bytes);
            put += bytes;
        }
        self.journal.write_down(tail);
        // This fails if a signal handler sent on the same socket meanwhile, which the lock permits. The handler's bytes go first, and the
        // caller writes its own again behind them. Pairs with the acquire in `look`.
        let next = tail.wrapping_add(put as u64);
        if writer.tail.compare_exchange(tail, next, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            return put;
        }
        from.reset(before);
        0
    }

    /// Returns the time since which the receiving end has bytes to receive. It is used only to order reports.
    pub(crate) fn since(&self) -> u64 {
        self.journal.since(self.shared.reader.head.load(Ordering::Relaxed))
    }

    /// Starts again at the ring's first byte if the ring is empty and enough of it was used.
    fn rewind(&self, tail: u64) {
        let writer = &self.shared.writer;
        if tail.wrapping_sub(writer.base.load(Ordering::Relaxed)) >= REWIND
            && self.shared.reader.head.load(Ordering::Acquire) == tail
        {
            writer.head_seen.store(tail, Ordering::Relaxed);
            writer.base.store(tail, Ordering::Relaxed);
        }
    }

    /// Reads bytes out of the ring, as many as fit, and returns their number. The caller holds the receive lock.
    pub(crate) fn pop(&self, to: &mut Pieces<'_>, available: usize) -> usize {
        let reader = &self.shared.reader;
        let mut taken = 0;
        while taken < available && to.left() > 0 {
            let (head, before) = (reader.head.load(Ordering::Relaxed), *to);
            let bytes = self.copy_out(to, head, (available - taken).min(STRIDE));
            // This fails if a signal handler received these bytes from the same socket meanwhile.
            let next = head.wrapping_add(bytes as u64);
            if reader.head.compare_exchange(head, next, Ordering::Release, Ordering::Relaxed).is_err() {
                to.reset(before);
                break;
            }
            taken += bytes;
            if to.is_bad() {
                break;
            }
        }
        taken
    }

    /// Copies bytes out of the ring without removing them, and returns their number.
    pub(crate) fn peek(&self, to: &mut Pieces<'_>, available: usize) -> usize {
        self.copy_out(to, self.shared.reader.head.load(Ordering::Relaxed), available)
    }

    fn copy_out(&self, to: &mut Pieces<'_>, head: u64, most: usize) -> usize {
        let base = self.shared.writer.base.load(Ordering::Relaxed);
        let mut taken = 0;
        while taken < most {
            let Some((target, bytes)) = to.next(most - taken) else { break };
            let source = self.place(head.wrapping_add(taken as u64), base);
            // SAFETY: as in `push_once`.
            unsafe { std::ptr::copy_nonoverlapping(source, target, bytes) };
            to.advance(bytes);
            taken += bytes;
        }
        taken
    }

    /// Removes bytes from the ring.
    pub(crate) fn discard(&self, bytes: usize) {
        self.shared.reader.head.fetch_add(bytes as u64, Ordering::Release);
    }

    /// Puts bytes in front of those that are in the ring, so that other processes can receive them. The direction is frozen, and the caller
    /// holds the receive lock.
    ///
    /// # Safety
    /// `bytes` bytes are readable at `from`. Together with those in the ring, they fit into the ring.
    pub(crate) unsafe fn put_back(&self, from: *const u8, bytes: usize) {
        let reader = &self.shared.reader;
        let head = reader.head.load(Ordering::Relaxed).wrapping_sub(bytes as u64);
        let base = self.shared.writer.base.load(Ordering::Relaxed);
        // SAFETY: the offset is masked, and the ring is mapped a second time behind the first; the caller guarantees the rest.
        unsafe { std::ptr::copy_nonoverlapping(from, self.place(head, base), bytes) };
        reader.head.store(head, Ordering::Release);
        self.set_phase(ByteSource::Ring);
    }

    /// Returns the address of the first byte to receive.
    pub(crate) fn first(&self) -> *mut u8 {
        let head = self.shared.reader.head.load(Ordering::Relaxed);
        self.place(head, self.shared.writer.base.load(Ordering::Relaxed))
    }

    /// Returns whether a sleeping writer must be woken because the ring has room again, and clears the writer's request if so.
    pub(crate) fn takes_room(&self) -> bool {
        fence(Ordering::SeqCst);
        self.shared.signals.want_room.load(Ordering::Relaxed) != 0
            && self.reader_room() >= self.enough()
            && take(&self.shared.signals.want_room)
    }

    fn reader_room(&self) -> usize {
        let tail = self.tail();
        let head = self.shared.reader.head.load(Ordering::Relaxed);
        self.limit().saturating_sub(tail.wrapping_sub(head)) as usize
    }

    fn place(&self, position: u64, base: u64) -> *mut u8 {
        self.ring.wrapping_add(position.wrapping_sub(base) as usize & (RING_BYTES - 1))
    }

    /// Returns the number of wake bytes that are in the kernel, by the counts of the two ends.
    pub(crate) fn wakes(&self) -> usize {
        let sent = self.shared.writer.wakes.load(Ordering::Acquire) & !FROZEN;
        // A hostile peer can make this number too large. That is harmless, because no more is received than the kernel has.
        sent.saturating_sub(self.shared.reader.skipped.load(Ordering::Relaxed)) as usize
    }
}

/// Clears a signal and returns whether it was set. In the single total order of sequentially consistent operations, this read follows the
/// change that the signal is about.
fn take(signal: &AtomicU32) -> bool {
    // The model checker treats such operations as acquire and release only, so it needs an explicit fence.
    #[cfg(loom)]
    fence(Ordering::SeqCst);
    signal.load(Ordering::SeqCst) != 0 && signal.swap(0, Ordering::SeqCst) != 0
}

#[cfg(all(test, loom))]
#[path = "models.rs"]
mod models;
