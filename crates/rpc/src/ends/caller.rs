//! The end that asks.

use super::{Buffer, Layout};
use crate::queue::entry::{ANSWER, Answer, GENERATIONS, Kind, REQUEST, Request, Status};
use crate::queue::{Awaited, Receiver, Sender};
use std::ops::ControlFlow;
use unrack_pool::cache_control::Memory;

/// All slots are in use, or all entries unanswered: something has to be answered first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("as many calls are under way as the queue has entries")]
pub struct Full;

/// What became of a call when the answers were polled.
pub enum Change<B> {
    /// The call of this slot has its answer.
    Answered(u16),
    /// Nobody wanted the answer, and this was its buffer.
    Freed(B),
}

/// While so many calls more are under way, what the answer so many after the one that is taken will be read from is
/// fetched: its line, and the first of its buffer, if answers come in the order of requests. A miss takes as long as all else
/// that a call costs, and these would come one after the other.
const EXPECTED: usize = 2;

/// The end of a pair of queues that asks.
pub struct Caller<M, B> {
    memory: M,
    requests: Sender<M>,
    answers: Receiver<M>,
    slots: Vec<Slot<B>>,
    free: Vec<u16>,
    /// By line of the request queue: the slot whose call was last sent in it.
    sent: Vec<u16>,
    /// Entries that are not answered.
    owed: usize,
    /// Answers to nothing that was asked: the peer breaks the protocol.
    foreign: u64,
}

struct Slot<B> {
    state: State,
    /// Answers that are still to come, which may write to the buffer until then.
    owed: u16,
    /// The request's entries, and of them what an answer is checked against.
    request: [u64; REQUEST],
    generation: u64,
    offset: u64,
    capacity: u64,
    /// Once it is answered, the entries that said so. Kept as they came and read a word at a time: a load of more than was
    /// stored at once waits until all stores before it are everywhere, and so would undo what a window gains.
    answer: [u64; ANSWER],
    buffer: Option<B>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    /// Has a buffer that is being filled.
    Reserved,
    Waiting,
    Answered,
    /// Nobody wants the answer; the buffer is freed when the last has come.
    Abandoned,
}

impl<M: Memory, B: Buffer> Caller<M, B> {
    /// # Safety
    /// The area is mapped as long as this lives, was zero when the pair began, and is written, but for the
    /// answers, by nobody else.
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

    /// A slot for a call whose request is going to be written to `buffer`.
    ///
    /// # Errors
    /// The buffer, if all slots are in use.
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
    /// Nothing was sent, and the slot is as before.
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

    /// Sends the request of a slot that waits once more.
    ///
    /// # Errors
    /// Nothing was sent.
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

    /// Takes what was answered, and tells what became of which call; whether to go on is what it says. At most a lap of
    /// answers at a time.
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

    /// Fetches what will be read soon.
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
                    // SAFETY: we published all that we wrote to the buffer, and the answer is inside.
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

    #[inline(always)]
    pub fn is_answered(&self, index: u16) -> bool {
        self.slots[usize::from(index)].state == State::Answered
    }

    /// The answer of a slot, if it has come.
    #[inline(always)]
    pub fn answer(&self, index: u16) -> Option<Answer> {
        let slot = &self.slots[usize::from(index)];
        (slot.state == State::Answered).then(|| Answer::from_entries(slot.answer))
    }

    /// The buffer of a slot that is in use.
    #[inline(always)]
    pub fn buffer(&self, index: u16) -> &B {
        self.slots[usize::from(index)].buffer.as_ref().expect("a slot that is in use has a buffer")
    }

    /// The bytes that the answer of a slot may have.
    #[inline(always)]
    pub fn room(&self, index: u16) -> usize {
        self.slots[usize::from(index)].capacity as usize
    }

    /// The caller of this slot is done with it. Gives the buffer back, unless the peer may still write to it.
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

    /// Whether a slot can be posted: not while answers to entries that repeated its last call are still to come.
    #[inline(always)]
    pub fn is_settled(&self, index: u16) -> bool {
        self.slots[usize::from(index)].owed == 0
    }

    /// Whether nothing can be sent until something is answered.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.owed == self.requests.lines()
    }

    /// Whether something is waited for.
    pub fn is_owed(&self) -> bool {
        self.owed > 0
    }

    /// Answers so far to nothing that was asked.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }

    /// What the next answer begins with, for whoever waits for it.
    pub fn awaited(&self) -> Awaited {
        self.answers.awaited()
    }

    pub fn lines(&self) -> usize {
        self.requests.lines()
    }

    /// Slots that no call has.
    pub fn free_slots(&self) -> usize {
        self.free.len()
    }
}

/// Whether an answer's length says how many bytes there are.
pub fn has_bytes(status: Status) -> bool {
    matches!(status, Status::DONE | Status::MORE) || status.0 >= Status::SERVICE
}
