//! The end of a pair of queues that answers calls.

use super::{QueueLayout, Reach};
use crate::queue::entry::{ANSWER, Answer, EntryStatus, GENERATIONS, REQUEST, Request};
use crate::queue::{AwaitedEntry, Receiver, Sender};
use unrack_pool::cache_control::SharedMemory;

/// The end of a pair of queues that answers calls. Everything that it reads is untrusted input.
pub struct Callee<M> {
    memory: M,
    requests: Receiver<M>,
    answers: Sender<M>,
    /// Last call of each slot.
    seen: Vec<LastCall>,
}

/// Last call of a slot. It is stored in whole words, which are loaded one at a time. A load that is wider than the
/// stores that it reads would wait until all earlier stores are globally visible, among them those of the previous
/// answer.
#[derive(Clone, Copy)]
struct LastCall {
    generation: u64,
    offset: u64,
    /// Number of bytes of the buffer that are mapped in this process.
    bytes: usize,
    base: *mut u8,
    running: bool,
    /// Answer of the call, valid once it has ended.
    answer: [u64; ANSWER],
}

// SAFETY: the pointers are to shared memory, which is accessed only through the pool's cache control.
unsafe impl<M: Send> Send for Callee<M> {}

/// A call that is to be run, and then to be answered by [`Callee::answer`].
#[derive(Debug, Clone, Copy)]
pub struct IncomingCall {
    pub request: Request,
    /// Address of the buffer in this process. At least the bytes of the request and those that the answer may have are
    /// mapped.
    pub base: *mut u8,
}

impl<M: SharedMemory> Callee<M> {
    /// Makes the callee of a pair of queues in a memory area.
    ///
    /// # Safety
    /// The area must stay mapped as long as the callee lives, and must have been zero when the pair began.
    pub unsafe fn new(memory: M, area: *mut u8, layout: QueueLayout) -> Self {
        let lines = layout.lines();
        // SAFETY: the caller keeps the whole area mapped.
        let (requests, answers) = unsafe {
            (
                Receiver::new(memory.clone(), area.add(layout.requests()), lines),
                Sender::new(memory.clone(), area.add(layout.answers()), lines),
            )
        };
        let seen = |slot| {
            let stale = Answer { status: EntryStatus::STALE, slot, generation: 0, offset: 0, length: 0 };
            LastCall {
                generation: 0,
                offset: 0,
                bytes: 0,
                base: std::ptr::null_mut(),
                running: false,
                answer: stale.entries(),
            }
        };
        Callee { memory, requests, answers, seen: (0..lines as u16).map(seen).collect() }
    }

    /// Returns the next call to run. Entries that are not a new call are answered here, at most one lap of them per
    /// invocation.
    #[inline(always)]
    pub fn poll(&mut self, reach: &impl Reach) -> Option<IncomingCall> {
        for _ in 0..self.seen.len() {
            let entries = self.requests.receive()?;
            match self.admit(entries, reach) {
                Ok(incoming) => return Some(incoming),
                Err(answer) => self.answers.send(answer),
            }
        }
        None
    }

    /// Admits a call that was not seen before; otherwise returns the answer to its entry.
    #[inline(always)]
    fn admit(&mut self, entries: [u64; REQUEST], reach: &impl Reach) -> Result<IncomingCall, [u64; ANSWER]> {
        let (slot, generation) = Request::slot_of(entries);
        let refused = |status, offset| Answer { status, slot, generation, offset, length: 0 }.entries();
        let Some(request) = Request::from_entries(entries) else {
            return Err(refused(EntryStatus::MALFORMED, 0));
        };
        let Some(seen) = self.seen.get_mut(usize::from(slot)) else {
            return Err(refused(EntryStatus::MALFORMED, request.offset));
        };
        if generation == seen.generation as u32 {
            return Err(if seen.running {
                refused(EntryStatus::RUNNING, request.offset)
            } else {
                seen.answer
            });
        }
        if seen.running || !is_newer(generation, seen.generation as u32) {
            return Err(refused(EntryStatus::STALE, request.offset));
        }
        let bytes = request.length.max(request.capacity) as usize;
        seen.generation = u64::from(generation);
        seen.offset = request.offset;
        let Some(base) = reach.reach(request.offset, bytes) else {
            seen.answer = refused(EntryStatus::BAD_BUFFER, request.offset);
            return Err(seen.answer);
        };
        // SAFETY: `reach` guarantees that the range is mapped, and this end has published all that it wrote there.
        unsafe { self.memory.refresh(base, request.length as usize) };
        seen.bytes = bytes;
        seen.base = base;
        seen.running = true;
        Ok(IncomingCall { request, base })
    }

    /// Answers the running call of a slot. The handler wrote at most the first `written` bytes of the buffer.
    #[inline(always)]
    pub fn answer(&mut self, slot: u16, status: EntryStatus, length: u32, written: usize) {
        let seen = &mut self.seen[usize::from(slot)];
        assert!(seen.running, "a call is answered once");
        assert!(written <= seen.bytes);
        // SAFETY: the bytes are inside the range that was checked when the call was admitted.
        unsafe { self.memory.publish(seen.base, written) };
        let generation = seen.generation as u32;
        let answer = Answer { status, slot, generation, offset: seen.offset, length }.entries();
        seen.running = false;
        seen.answer = answer;
        self.answers.send(answer);
    }

    /// Announces to the caller that this end sleeps; see [`Sender::announce_sleep`].
    pub fn announce_sleep(&mut self) -> u64 {
        self.answers.announce_sleep()
    }

    /// Announces that a sleep is over; see [`Sender::announce_awake`].
    pub fn announce_awake(&mut self, sleep: u64) {
        self.answers.announce_awake(sleep);
    }

    /// Wakes the caller if it announces that it sleeps; see [`Receiver::wake_sender`].
    pub fn wake_caller(&mut self, ring: impl FnOnce() -> bool) -> bool {
        self.requests.wake_sender(ring)
    }

    /// Returns the number of lines of each queue.
    pub fn lines(&self) -> usize {
        self.answers.lines()
    }

    /// Returns whether the first entry of a request has arrived.
    pub fn has_request(&self) -> bool {
        self.requests.has_next()
    }

    /// Returns the first entry of the next request, so that a caller can wait for its arrival.
    pub fn awaited(&self) -> AwaitedEntry {
        self.requests.awaited()
    }
}

/// Returns whether a generation comes after another one. Generations wrap around at 31 bits, so those less than half
/// the range ahead count as newer.
pub(crate) fn is_newer(generation: u32, than: u32) -> bool {
    let ahead = generation.wrapping_sub(than) % GENERATIONS;
    0 < ahead && ahead < GENERATIONS / 2
}
