//! The end of a pair of queues that asks.

use super::{CallerBuffer, Layout};
use crate::queue::entry::{ANSWER, Answer, GENERATIONS, Kind, REQUEST, Request, Status};
use crate::queue::{Awaited, Receiver, Sender};
use std::ops::ControlFlow;
use unrack_pool::cache_control::SharedMemory;

/// Error if all slots are in use, or all entries unanswered: a call has to be answered first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("all entries of the queue have calls under way")]
pub struct Full;

/// Change of a call, found by polling the answers.
pub enum Change<B> {
    /// The call of this slot was answered.
    Answered(u16),
    /// An abandoned call was answered; this was its buffer.
    Freed(B),
}

/// Number of answers ahead that are prefetched while more calls than this are under way: the answer's line, and
/// the first line of its buffer, if answers come in the order of requests. A cache miss takes as long as the rest
/// of a call, and these would come one after the other.
const EXPECTED: usize = 2;

/// The end of a pair of queues that asks.
pub struct Caller<M, B> {
    memory: M,
    requests: Sender<M>,
    answers: Receiver<M>,
    slots: Vec<Slot<B>>,
    free: Vec<u16>,
    /// Slot whose call was last sent in each line of the request queue.
    sent: Vec<u16>,
    /// Number of entries that are not answered.
    owed: usize,
    /// Number of answers that match no request: the peer breaks the protocol.
    foreign: u64,
}

struct Slot<B> {
    state: State,
    /// Number of answers still to come, until which the peer may write to the buffer.
    owed: u16,
    /// Entries of the request; the next fields are what an answer is checked against.
    request: [u64; REQUEST],
    generation: u64,
    offset: u64,
    capacity: u64,
    /// Entries of the answer, once it has come. Kept as they came and read a word at a time: a load wider than
    /// the stores it reads would wait until all earlier stores are globally visible, and so undo the gain of a
    /// window.
    answer: [u64; ANSWER],
    buffer: Option<B>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    /// Reserved: its buffer is being filled.
    Reserved,
    Waiting,
    Answered,
    /// Abandoned: the buffer is freed when the last answer has come.
    Abandoned,
}

impl<M: SharedMemory, B: CallerBuffer> Caller<M, B> {
    /// Makes the caller of a pair of queues in an area.
    ///
    /// # Safety
    /// The area is mapped as long as this lives, was zero when the pair began, and nobody else writes it, except
    /// for the answers.
    pub unsafe fn new(memory: M, area: *mut u8, layout: Layout) -> Self {
        let lines = layout.lines();
        // SAFETY: the caller has the whole area mapped.
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

    /// Reserves a slot for a call whose request will be written to `buffer`.
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

    /// Sends the request of a slot that is reserved, or answered and used again: `length` bytes of its buffer, of
    /// which the answer may use `capacity`.
    ///
    /// # Errors
    /// If the queue is full: nothing was sent, and the slot is as before.
    #[inline(always)]
    pub fn post(
        &mut self,
        index: u16,
        (kind, connection, method): (Kind, u16, u32),
        length: usize,
        capacity: usize,
    ) -> Result<(), Full> {
        if self.is_full() {
            return Err(Full);
        }
        let slot = &mut self.slots[usize::from(index)];
        assert!(
            slot.owed == 0 && matches!(slot.state, State::Reserved | State::Answered),
            "a call is posted once"
        );
        let buffer = slot.buffer.as_ref().expect("a reserved slot has a buffer");
        assert!(length <= buffer.capacity() && capacity <= buffer.capacity());
        // SAFETY: the buffer is ours until the entry is sent.
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

    /// Repeats the request of a waiting slot.
    ///
    /// # Errors
    /// If the queue is full: nothing was sent.
    pub fn post_again(&mut self, index: u16) -> Result<(), Full> {
        if self.is_full() {
            return Err(Full);
        }
        let slot = &mut self.slots[usize::from(index)];
        assert!(slot.state == State::Waiting);
        slot.owed += 1;
        self.owed += 1;
        self.sent[self.requests.next_line()] = index;
        self.requests.send(slot.request);
        Ok(())
    }

    /// Takes the answers that have come, and calls `changed` with each change of a call, which returns whether to
    /// go on. Takes at most a lap of answers; returns how many.
    #[inline(always)]
    pub fn poll(&mut self, mut changed: impl FnMut(Change<B>) -> ControlFlow<()>) -> usize {
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

    /// Prefetches the line and buffer of an answer that will be read soon.
    #[inline(always)]
    fn expect(&self) {
        let slot = self.sent[self.answers.expect(EXPECTED - 1)];
        if let Some(buffer) = &self.slots[usize::from(slot)].buffer {
            self.memory.expect(buffer.base());
        }
    }

    #[inline(always)]
    fn take(&mut self, entries: [u64; ANSWER]) -> Option<Change<B>> {
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
            State::Waiting if answer.status != Status::RUNNING => {
                if has_bytes(answer.status) {
                    let buffer = slot.buffer.as_ref().expect("a waiting slot has a buffer");
                    // SAFETY: we published all that we wrote to the buffer, and the answer is inside it.
                    unsafe { self.memory.refresh(buffer.base(), answer.length as usize) };
                }
                slot.state = State::Answered;
                slot.answer = entries;
                Some(Change::Answered(answer.slot))
            }
            State::Abandoned if slot.owed == 0 => self.release(answer.slot).map(Change::Freed),
            _ => None,
        }
    }

    /// Announces to the callee that this end sleeps: see [`Sender::announce_sleep`].
    pub fn announce_sleep(&mut self) -> u64 {
        self.requests.announce_sleep()
    }

    /// Announces that a sleep is over: see [`Sender::announce_awake`].
    pub fn announce_awake(&mut self, sleep: u64) {
        self.requests.announce_awake(sleep);
    }

    /// Wakes the callee if it announces that it sleeps: see [`Receiver::wake_sender`].
    pub fn wake_callee(&mut self, ring: impl FnOnce() -> bool) -> bool {
        self.answers.wake_sender(ring)
    }

    /// Returns whether the call of a slot was answered.
    #[inline(always)]
    pub fn is_answered(&self, index: u16) -> bool {
        self.slots[usize::from(index)].state == State::Answered
    }

    /// Returns the answer of a slot, if it has come.
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

    /// Ends the use of a slot. Returns its buffer, unless the peer may still write to it.
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

    /// Returns whether a slot can be posted: not while answers to repetitions of its last call are still to come.
    #[inline(always)]
    pub fn is_settled(&self, index: u16) -> bool {
        self.slots[usize::from(index)].owed == 0
    }

    /// Returns whether nothing can be sent until an entry is answered.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.owed == self.requests.lines()
    }

    /// Returns whether an answer is still to come.
    pub fn is_owed(&self) -> bool {
        self.owed > 0
    }

    /// Returns the number of answers so far that match no request.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }

    /// Returns the first entry of the next answer, for code that waits for it.
    pub fn awaited(&self) -> Awaited {
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

/// Returns whether an answer's length is a number of bytes in the buffer.
pub(crate) fn has_bytes(status: Status) -> bool {
    matches!(status, Status::DONE | Status::MORE) || status.0 >= Status::SERVICE
}
