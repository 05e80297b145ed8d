//! One direction of a connection: where its bytes pass, and how they are put in and taken out.
//!
//! A direction begins in the kernel. It can pass to the ring once, and back once, each at a byte that both ends know:
//!
//! ```text
//! kernel: bytes 0 .. begin | ring: bytes 0 .. end | kernel: all further bytes
//! ```
//!
//! The sending end sets `begin` after the receiving end gave its consent, and `end` when one of them asks for it. While the
//! ring carries, what the sending end sends through the kernel are wake bytes, which it counts first. So the receiving end
//! knows of every byte in the kernel what it is.
//!
//! The receiving end can also end the ring without the sending one, which may be busy, stopped or dead: it *freezes* the
//! direction. From then on no push succeeds and no wake byte is counted, so both sums are final, and the sending end goes on
//! through the kernel with its next byte.

use super::copy::copy_in;
use super::{FIRST_BYTES, FROZEN, Journal, NEVER, RING_BYTES, Shared, UNSET, revert};
use crate::pieces::Pieces;
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Source of the receiving end's next byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The kernel. The receiving end has not given its consent.
    Kernel,
    /// The kernel, up to `begin`, which may be set at any moment.
    Agreed,
    /// The ring.
    Ring,
    /// The kernel, for good, after the wake bytes that are left.
    Over,
}

/// A look at a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// Number of bytes that can be taken.
    Bytes(usize),
    Empty,
    /// No bytes, and none to come: the kernel carries on.
    Ended,
    /// Positions that cannot be: the other end wrote them.
    Broken,
}

/// Bytes after which the writer looks whether the ring is empty, to begin again at its first byte.
const REWIND: u64 = if cfg!(loom) { 1 } else { 16 << 10 };
/// Bytes after which a long copy is made known to the reader, which copies at the same time.
const STRIDE: usize = if cfg!(loom) { 1 } else { 16 << 10 };

/// Most bytes that a function puts into the ring at a time.
const FILL: usize = 256 << 10;

/// A direction, and its ring in this process.
#[derive(Clone, Copy)]
pub(crate) struct Direction<'a> {
    shared: &'a Shared,
    journal: &'a Journal,
    ring: *mut u8,
    /// Most bytes that may ever be in the ring.
    most: u64,
}

impl<'a> Direction<'a> {
    /// Makes the view of a direction.
    ///
    /// # Safety
    /// At `ring` are twice [`RING_BYTES`] bytes for as long as `shared` is borrowed, the second half the same memory as the
    /// first.
    pub(crate) unsafe fn new(
        shared: &'a Shared,
        journal: &'a Journal,
        ring: *mut u8,
        most: usize,
    ) -> Direction<'a> {
        Direction { shared, journal, ring, most: most.min(RING_BYTES) as u64 }
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

    /// Raises the limit for a call that has more to send, as the kernel's buffers grow: programs make such calls again, and
    /// some prepare all of the rest anew after each that was cut short.
    fn make_room(&self, bytes: usize) {
        if bytes as u64 > self.limit() {
            let limit = bytes.checked_next_power_of_two().unwrap_or(RING_BYTES).min(RING_BYTES);
            self.shared.writer.limit.store(limit as u64, Ordering::Relaxed);
        }
    }

    /// Returns all words of the direction.
    pub(crate) fn shared(&self) -> &'a Shared {
        self.shared
    }

    /// Returns the words that both ends signal by.
    pub(crate) fn signals(&self) -> &'a super::Signals {
        &self.shared.signals
    }

    /// Returns the sending end's words.
    pub(crate) fn writer(&self) -> &'a super::Writer {
        &self.shared.writer
    }

    /// Returns the receiving end's words.
    pub(crate) fn reader(&self) -> &'a super::Reader {
        &self.shared.reader
    }

    /// Returns true if the ring has begun to carry.
    pub(crate) fn has_begun(&self) -> bool {
        self.begin() != UNSET
    }

    /// Returns the number of bytes that went through the kernel before the ring; [`UNSET`] if it has not begun.
    pub(crate) fn begin(&self) -> u64 {
        match self.shared.writer.begin.load(Ordering::Acquire) {
            NEVER => UNSET,
            begin => begin,
        }
    }

    /// Returns the bytes put into the ring so far.
    pub(crate) fn tail(&self) -> u64 {
        self.shared.writer.tail.load(Ordering::Acquire) & !FROZEN
    }

    /// Ends the ring at the bytes that are in it, without the sending end's help. The lock of the receiving end is held.
    pub(crate) fn freeze(&self) {
        let writer = &self.shared.writer;
        let order = (Ordering::SeqCst, Ordering::Relaxed);
        // The sending end is to see this wish before it finds that a push failed.
        let _ = self.shared.signals.revert.compare_exchange(0, revert::WISHED, order.0, order.1);
        let _ = writer.begin.compare_exchange(UNSET, NEVER, order.0, order.1);
        let tail = writer.tail.fetch_or(FROZEN, Ordering::SeqCst) & !FROZEN;
        writer.wakes.fetch_or(FROZEN, Ordering::SeqCst);
        let _ = writer.end.compare_exchange(UNSET, tail, order.0, order.1);
    }

    /// Returns true if the receiving end froze the direction.
    pub(crate) fn is_frozen(&self) -> bool {
        self.shared.writer.tail.load(Ordering::Acquire) & FROZEN != 0
    }

    /// Counts a wake byte that the sending end is about to send. Returns false if it must not: the direction is frozen.
    pub(crate) fn count_wake(&self) -> bool {
        let count = |wakes: u64| (wakes & FROZEN == 0).then(|| wakes + 1);
        self.shared.writer.wakes.fetch_update(Ordering::SeqCst, Ordering::Relaxed, count).is_ok()
    }

    /// Adds bytes of the kernel to those that the receiving end skips. The direction is frozen.
    pub(crate) fn skip_more(&self, bytes: u64) {
        self.shared.writer.wakes.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Ends the ring after what is in it. The lock of the sending end is held, or the connection is over.
    pub(crate) fn finish(&self) {
        let end = &self.shared.writer.end;
        let _ = end.compare_exchange(UNSET, self.tail(), Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Returns true if the kernel carries for good what is sent from now on.
    pub(crate) fn has_ended(&self) -> bool {
        self.shared.writer.end.load(Ordering::Acquire) != UNSET
    }

    /// Returns true if what is sent now goes into the ring.
    pub(crate) fn is_ring(&self) -> bool {
        self.has_begun() && !self.has_ended()
    }

    /// Returns the source of the receiving end's next byte.
    pub(crate) fn phase(&self) -> Phase {
        match self.shared.reader.phase.load(Ordering::Acquire) {
            0 => Phase::Kernel,
            1 => Phase::Agreed,
            2 => Phase::Ring,
            _ => Phase::Over,
        }
    }

    /// Sets the source of the receiving end's next byte.
    pub(crate) fn set_phase(&self, phase: Phase) {
        self.shared.reader.phase.store(phase as u32, Ordering::Release);
    }

    /// Returns true if the sending end was asked to leave the ring, or the receiving one is closed.
    pub(crate) fn is_unwanted(&self) -> bool {
        let signals = &self.shared.signals;
        signals.revert.load(Ordering::Acquire) | signals.gone.load(Ordering::Acquire) != 0
    }

    /// Asks to be woken once there are bytes. Whoever asks looks once more before it sleeps.
    pub(crate) fn request_data(&self) {
        self.shared.signals.want_data.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Asks to be woken once there is room. Whoever asks looks once more before it sleeps.
    pub(crate) fn request_room(&self) {
        self.shared.signals.want_room.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Returns the bytes in the ring, as the receiving end sees them.
    pub(crate) fn look(&self) -> Look {
        let tail = self.tail();
        let head = self.shared.reader.head.load(Ordering::Relaxed);
        match tail.wrapping_sub(head) {
            0 if self.shared.writer.end.load(Ordering::Acquire) == UNSET => Look::Empty,
            // The last bytes may have come between the two loads.
            0 if self.tail() == tail => Look::Ended,
            0 => self.look(),
            bytes if bytes <= RING_BYTES as u64 => Look::Bytes(bytes as usize),
            _ => Look::Broken,
        }
    }

    /// Returns the free bytes of the ring, as the sending end sees them.
    fn room(&self) -> usize {
        self.room_from(&self.shared.reader.head)
    }

    /// Returns true if there is room enough to write on, as the receiving end's words say now.
    pub(crate) fn has_room(&self) -> bool {
        self.room() >= self.enough()
    }

    /// Returns true if the receiving end has not received all.
    pub(crate) fn is_unread(&self) -> bool {
        self.tail() != self.shared.reader.head.load(Ordering::Acquire)
    }

    /// Returns the room from which a socket is writable, as the kernel's is from a third of its buffer.
    fn enough(&self) -> usize {
        (self.limit() as usize / 4).max(1)
    }

    fn room_from(&self, head: &AtomicU64) -> usize {
        let tail = self.shared.writer.tail.load(Ordering::Relaxed);
        let used = tail.wrapping_sub(head.load(Ordering::Acquire));
        self.limit().saturating_sub(used) as usize
    }

    /// Returns true if there is room enough to write on.
    pub(crate) fn is_writable(&self) -> bool {
        self.room_from(&self.shared.writer.head_seen) >= self.enough() || self.has_room()
    }

    /// Puts as many bytes into the ring as there is room for, and returns how many. `woken` is called when a reader sleeps;
    /// the lock of the sending end is held.
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

    /// Has a function put bytes into the ring, at most `left`, until there is no room or it has no more. Returns how many, or
    /// what it returned if that was nothing. `stranded` gets bytes that the function put into a ring which was frozen
    /// meanwhile: they are to be sent through the kernel. The lock of the sending end is held.
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

    /// Returns true if no further byte can come before some are taken out, as the receiving end sees it.
    pub(crate) fn is_full(&self) -> bool {
        self.reader_room() == 0
    }

    /// Returns true if a byte can be put into the ring.
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
            // SAFETY: masked, with a second copy of the ring behind the first; the caller's buffer is as long as it says.
            unsafe { copy_in(source, self.place(tail.wrapping_add(put as u64), base), bytes) };
            from.advance(bytes);
            put += bytes;
        }
        self.journal.write_down(tail);
        // A signal handler that sent on the same socket meanwhile has the lock as well: its bytes go first, and ours are put
        // behind them. Pairs with the acquire in `look`.
        let next = tail.wrapping_add(put as u64);
        if writer.tail.compare_exchange(tail, next, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            return put;
        }
        from.reset(before);
        0
    }

    /// Returns the moment since which the receiving end has something to take: for an order only.
    pub(crate) fn since(&self) -> u64 {
        self.journal.since(self.shared.reader.head.load(Ordering::Relaxed))
    }

    /// Begins again at the ring's first byte, if it is empty and some of it was used.
    fn rewind(&self, tail: u64) {
        let writer = &self.shared.writer;
        if tail.wrapping_sub(writer.base.load(Ordering::Relaxed)) >= REWIND
            && self.shared.reader.head.load(Ordering::Acquire) == tail
        {
            writer.head_seen.store(tail, Ordering::Relaxed);
            writer.base.store(tail, Ordering::Relaxed);
        }
    }

    /// Takes bytes out of the ring, as many as fit, and returns how many. The lock of the receiving end is held.
    pub(crate) fn pop(&self, to: &mut Pieces<'_>, available: usize) -> usize {
        let reader = &self.shared.reader;
        let mut taken = 0;
        while taken < available && to.left() > 0 {
            let (head, before) = (reader.head.load(Ordering::Relaxed), *to);
            let bytes = self.copy_out(to, head, (available - taken).min(STRIDE));
            // A signal handler that received on the same socket meanwhile has taken these bytes.
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

    /// Copies bytes of the ring that stay there, and returns how many.
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

    /// Discards bytes of the ring.
    pub(crate) fn discard(&self, bytes: usize) {
        self.shared.reader.head.fetch_add(bytes as u64, Ordering::Release);
    }

    /// Puts bytes before those that are in the ring, for other processes to receive. The direction is frozen, and the lock of
    /// the receiving end is held.
    ///
    /// # Safety
    /// So many bytes are readable at `from`; with those in the ring, they are no more than it holds.
    pub(crate) unsafe fn put_back(&self, from: *const u8, bytes: usize) {
        let reader = &self.shared.reader;
        let head = reader.head.load(Ordering::Relaxed).wrapping_sub(bytes as u64);
        let base = self.shared.writer.base.load(Ordering::Relaxed);
        // SAFETY: masked, with a second copy of the ring behind the first; the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from, self.place(head, base), bytes) };
        reader.head.store(head, Ordering::Release);
        self.set_phase(Phase::Ring);
    }

    /// Returns the address of the first byte to take.
    pub(crate) fn first(&self) -> *mut u8 {
        let head = self.shared.reader.head.load(Ordering::Relaxed);
        self.place(head, self.shared.writer.base.load(Ordering::Relaxed))
    }

    /// Returns true if a writer sleeps and there is room for it; it is then taken for woken.
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

    /// Returns the wake bytes that are in the kernel, as the receiving end counts.
    pub(crate) fn wakes(&self) -> usize {
        let sent = self.shared.writer.wakes.load(Ordering::Acquire) & !FROZEN;
        // More than the kernel's buffers hold can only be a lie, and does no harm: no more is received than is there.
        sent.saturating_sub(self.shared.reader.skipped.load(Ordering::Relaxed)) as usize
    }
}

/// Takes a signal: returns true if it was set, and clears it. Comes after what the signal is about, in the one order of all
/// sequentially consistent operations.
fn take(signal: &AtomicU32) -> bool {
    // The model checker takes such operations for acquire and release; a fence says what they are.
    #[cfg(loom)]
    fence(Ordering::SeqCst);
    signal.load(Ordering::SeqCst) != 0 && signal.swap(0, Ordering::SeqCst) != 0
}

#[cfg(all(test, loom))]
#[path = "models.rs"]
mod models;
