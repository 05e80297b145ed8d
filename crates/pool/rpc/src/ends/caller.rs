//! The end of a pair of queues that makes calls.

use super::{CallerBuffer, QueueLayout};
use crate::queue::entry::{ANSWER, Answer, EntryStatus, GENERATIONS, Kind, REQUEST, Request};
use crate::queue::{AwaitedEntry, Receiver, Sender};
use std::ops::ControlFlow;
use unrack_pool::cache_control::SharedMemory;

/// Error if all slots are in use or all entries are unanswered. A call has to be answered before the next one is
/// possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("all entries of the queue have calls under way")]
pub struct QueueFull;

/// Change of the state of a call, found by polling the answers.
pub enum CallChange<B> {
    /// The call of this slot was answered.
    Answered(u16),
    /// A call that its caller had abandoned was answered, so that its buffer, given here, is free.
    Freed(B),
}

/// How many answers ahead the caller prefetches while more calls than this are in flight. It prefetches the line of the
/// answer and the first line of its buffer, which is correct if answers come in the order of the requests. Without
/// this, the cache misses would come one after the other, and each takes as long as the rest of a call.
const EXPECTED: usize = 2;

/// The end of a pair of queues that makes calls.
pub struct Caller<M, B> {
    memory: M,
    requests: Sender<M>,
    answers: Receiver<M>,
    slots: Vec<Slot<B>>,
    free: Vec<u16>,
    /// For each line of the request queue, the slot whose request was last sent in it.
    sent: Vec<u16>,
    /// Number of entries that are not answered yet.
    owed: usize,
    /// Number of answers that match no request, because the peer broke the protocol.
    foreign: u64,
}

struct Slot<B> {
    state: State,
    /// Number of answers still to come. Until they have come, the peer may write to the buffer.
    owed: u16,
    /// Entries of the request. An answer is checked against the fields after this one.
    request: [u64; REQUEST],
    generation: u64,
    offset: u64,
    capacity: u64,
    /// Entries of the answer, once it has come. They are kept as they came and read a word at a time. A load that is
    /// wider than the stores that it reads would wait until all earlier stores are globally visible, which would undo
    /// the gain of a window.
    answer: [u64; ANSWER],
    buffer: Option<B>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    /// Reserved: the user of the slot is filling its buffer.
    Reserved,
    Waiting,
    Answered,
    /// Abandoned: the buffer is freed as soon as the last answer has come.
    Abandoned,
}

impl<M: SharedMemory, B: CallerBuffer> Caller<M, B> {
    /// Makes the caller of a pair of queues in a memory area.
    ///
    /// # Safety
    /// The area must stay mapped as long as the caller lives, and must have been zero when the pair began. Only this
    /// caller may write it, except that the peer writes the answers.
    pub unsafe fn new(memory: M, area: *mut u8, layout: QueueLayout) -> Self {
        let lines = layout.lines();
        // SAFETY: the caller keeps the whole area mapped.
        let (requests, answers) = unsafe {
            (
                Sender::new(memory.clone(), area.add(layout.requests()), lines),
                Receiver::new(memory.clone(), area.add(layout.answers()), lines),
            )
        };
        let slot = |_| Slot {
            state: State::Free,
            owed: 0,
            request: [0; REQUEST],
            generation: 0,
            offset: 0,
            capacity: 0,
            answer: [0; ANSWER],
            buffer: None,
        };
        let count = lines as u16;
        Caller {
            memory,
            requests,
            answers,
            slots: (0..count).map(slot).collect(),
            free: (0..count).rev().collect(),
            sent: vec![0; lines],
            owed: 0,
            foreign: 0,
        }
    }

    /// Reserves a slot for a call whose request will be written to `buffer`, and returns the slot.
    ///
    /// # Errors
    /// Returns the buffer if all slots are in use.
    #[inline(always)]
    pub fn reserve(&mut self, buffer: B) -> Result<u16, B> {
        let Some(index) = self.free.pop() else { return Err(buffer) };
        let slot = &mut self.slots[usize::from(index)];
        debug_assert!(slot.state == State::Free && slot.owed == 0);
        slot.state = State::Reserved;
        slot.buffer = Some(buffer);
        Ok(index)
    }

    /// Sends the request of a slot that is reserved, or that is used again after its answer. The request consists of
    /// the first `length` bytes of the slot's buffer, and the answer may use the first `capacity` bytes.
    ///
    /// # Errors
    /// If the queue is full; then nothing was sent, and the slot is as before.
    #[inline(always)]
    pub fn post(
        &mut self,
        index: u16,
        (kind, connection, method): (Kind, u16, u32),
        length: usize,
        capacity: usize,
    ) -> Result<(), QueueFull> {
        if self.is_full() {
            return Err(QueueFull);
        }
        let slot = &mut self.slots[usize::from(index)];
        assert!(
            slot.owed == 0 && matches!(slot.state, State::Reserved | State::Answered),
            "a call is posted once"
        );
        let buffer = slot.buffer.as_ref().expect("a reserved slot has a buffer");
        assert!(length <= buffer.capacity() && capacity <= buffer.capacity());
        // SAFETY: the buffer belongs to this end until the entry is sent.
        unsafe { self.memory.publish(buffer.base(), length) };
        let generation = (slot.generation as u32 + 1) % GENERATIONS;
        let request = Request {
            kind,
            connection,
            slot: index,
            generation,
            offset: buffer.offset(),
            method,
            length: length as u32,
            capacity: capacity as u32,
        };
        slot.offset = request.offset;
        slot.generation = u64::from(generation);
        slot.capacity = capacity as u64;
        let entries = request.entries();
        slot.request = entries;
        slot.state = State::Waiting;
        slot.owed = 1;
        self.owed += 1;
        self.sent[self.requests.next_line()] = index;
        self.requests.send(entries);
        Ok(())
    }

    /// Repeats the request of a slot that waits for its answer.
    ///
    /// # Errors
    /// If the queue is full; then nothing was sent.
    pub fn post_again(&mut self, index: u16) -> Result<(), QueueFull> {
        if self.is_full() {
            return Err(QueueFull);
        }
        let slot = &mut self.slots[usize::from(index)];
        assert!(slot.state == State::Waiting);
        slot.owed += 1;
        self.owed += 1;
        self.sent[self.requests.next_line()] = index;
        self.requests.send(slot.request);
        Ok(())
    }

    /// Takes the answers that have come, and calls `changed` with each change of a call; `changed` returns whether to
    /// continue. Takes at most one lap of answers, and returns how many it took.
    #[inline(always)]
    pub fn poll(&mut self, mut changed: impl FnMut(CallChange<B>) -> ControlFlow<()>) -> usize {
        let mut count = 0;
        while let Some(entries) = self.answers.receive() {
            count += 1;
            if self.owed > EXPECTED {
                self.expect();
            }
            let flow = self.take(entries).map_or(ControlFlow::Continue(()), &mut changed);
            if flow.is_break() || count == self.requests.lines() {
                break;
            }
        }
        count
    }

    /// Prefetches the line and the buffer of an answer that will be read soon.
    #[inline(always)]
    fn expect(&self) {
        let slot = self.sent[self.answers.expect(EXPECTED - 1)];
        if let Some(buffer) = &self.slots[usize::from(slot)].buffer {
            self.memory.expect(buffer.base());
        }
    }

    #[inline(always)]
    fn take(&mut self, entries: [u64; ANSWER]) -> Option<CallChange<B>> {
        let answer = Answer::from_entries(entries);
        let known = self.slots.get_mut(usize::from(answer.slot)).filter(|slot| {
            slot.owed > 0
                && u64::from(answer.generation) == slot.generation
                && answer.offset == slot.offset
                && (!has_bytes(answer.status) || u64::from(answer.length) <= slot.capacity)
        });
        let Some(slot) = known else {
            self.foreign += 1;
            return None;
        };
        slot.owed -= 1;
        self.owed -= 1;
        match slot.state {
            State::Waiting if answer.status != EntryStatus::RUNNING => {
                if has_bytes(answer.status) {
                    let buffer = slot.buffer.as_ref().expect("a waiting slot has a buffer");
                    // SAFETY: this end published all that it wrote to the buffer, and the answer is inside the buffer.
                    unsafe { self.memory.refresh(buffer.base(), answer.length as usize) };
                }
                slot.state = State::Answered;
                slot.answer = entries;
                Some(CallChange::Answered(answer.slot))
            }
            State::Abandoned if slot.owed == 0 => self.release(answer.slot).map(CallChange::Freed),
            _ => None,
        }
    }

    /// Announces to the callee that this end sleeps; see [`Sender::announce_sleep`].
    pub fn announce_sleep(&mut self) -> u64 {
        self.requests.announce_sleep()
    }

    /// Announces that a sleep is over; see [`Sender::announce_awake`].
    pub fn announce_awake(&mut self, sleep: u64) {
        self.requests.announce_awake(sleep);
    }

    /// Wakes the callee if it announces that it sleeps; see [`Receiver::wake_sender`].
    pub fn wake_callee(&mut self, ring: impl FnOnce() -> bool) -> bool {
        self.answers.wake_sender(ring)
    }

    /// Returns whether the call of a slot was answered.
    #[inline(always)]
    pub fn is_answered(&self, index: u16) -> bool {
        self.slots[usize::from(index)].state == State::Answered
    }

    /// Returns the answer of a slot; `None` if it has not come yet.
    #[inline(always)]
    pub fn answer(&self, index: u16) -> Option<Answer> {
        let slot = &self.slots[usize::from(index)];
        (slot.state == State::Answered).then(|| Answer::from_entries(slot.answer))
    }

    /// Returns the buffer of a slot that is in use.
    #[inline(always)]
    pub fn buffer(&self, index: u16) -> &B {
        self.slots[usize::from(index)].buffer.as_ref().expect("a slot that is in use has a buffer")
    }

    /// Returns the most bytes that the answer of a slot may have.
    #[inline(always)]
    pub fn room(&self, index: u16) -> usize {
        self.slots[usize::from(index)].capacity as usize
    }

    /// Ends the use of a slot. Returns the slot's buffer, unless the peer may still write to it.
    #[inline(always)]
    pub fn release(&mut self, index: u16) -> Option<B> {
        let slot = &mut self.slots[usize::from(index)];
        if slot.owed > 0 {
            slot.state = State::Abandoned;
            return None;
        }
        slot.state = State::Free;
        self.free.push(index);
        slot.buffer.take()
    }

    /// Returns whether a request can be sent from a slot. It cannot while answers to repetitions of the slot's last
    /// call are still to come.
    #[inline(always)]
    pub fn is_settled(&self, index: u16) -> bool {
        self.slots[usize::from(index)].owed == 0
    }

    /// Returns whether the queue is full, so that an entry must be answered before the next request can be sent.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.owed == self.requests.lines()
    }

    /// Returns whether any answer is still to come.
    pub fn is_owed(&self) -> bool {
        self.owed > 0
    }

    /// Returns the number of answers so far that match no request.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }

    /// Returns the first entry of the next answer, so that a caller can wait for its arrival.
    pub fn awaited(&self) -> AwaitedEntry {
        self.answers.awaited()
    }

    /// Returns the number of lines of each queue.
    pub fn lines(&self) -> usize {
        self.requests.lines()
    }

    /// Returns the number of free slots.
    pub fn free_slots(&self) -> usize {
        self.free.len()
    }
}

/// Returns whether the length of an answer with this status is a number of bytes in the buffer.
pub(crate) fn has_bytes(status: EntryStatus) -> bool {
    matches!(status, EntryStatus::DONE | EntryStatus::MORE) || status.0 >= EntryStatus::SERVICE
}
