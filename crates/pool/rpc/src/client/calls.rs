//! The calls that all threads of a process have in flight, behind one lock: slots, buffers and waiting tasks.

use super::transport::BufferSource;
use super::window::WindowLimit;
use crate::ends::{self, CallChange, Caller, QueueFull};
use crate::error::Error;
use crate::queue::entry::{Kind, MOST_BYTES};
use std::ops::ControlFlow;
use std::ptr::NonNull;
use std::task::Waker;
use std::time::{Duration, Instant};
use unrack_pool::arena::Buffer;
use unrack_pool::cache_control::{AnyMemory, LINE};

/// Size of the largest buffer that is kept for the next request, in bytes.
const MOST_KEPT: u64 = 64 * 1024;

impl ends::CallerBuffer for Buffer {
    #[inline]
    fn offset(&self) -> u64 {
        self.offset()
    }

    #[inline]
    fn base(&self) -> *mut u8 {
        self.as_ptr()
    }

    #[inline]
    fn capacity(&self) -> usize {
        self.capacity() as usize
    }
}

/// The calls in flight over a pair of queues.
pub(super) struct PendingCalls {
    pub caller: Caller<AnyMemory, Buffer>,
    buffers: BufferSource,
    /// Small buffer that was given back last. It is kept because the next request mostly has the same size.
    last: Option<Buffer>,
    /// True if a request was sent but the server was not rung since; the server may have gone to sleep without seeing
    /// the request.
    pub unrung: bool,
    /// Task that waits for the answer of each slot.
    wakers: Vec<Option<Waker>>,
    /// Deadline of each slot's call and the time until it. It is set if the call has a separate deadline or if a task
    /// awaits the call.
    deadlines: Vec<Option<(Instant, Duration)>>,
    /// Tasks to be woken when the lock on the calls is released, because their answers came.
    pub woken: Vec<Waker>,
    /// Earliest deadline of all tasks.
    pub alarm: Option<Instant>,
    /// Number of threads and tasks that wait for a slot or for room to send.
    pub seekers: usize,
    /// Tasks that wait for a slot or for room to send.
    seeking: Vec<Waker>,
}

impl PendingCalls {
    /// Makes the state of a new connection.
    pub(super) fn new(caller: Caller<AnyMemory, Buffer>, buffers: BufferSource) -> PendingCalls {
        let slots = caller.lines();
        PendingCalls {
            caller,
            buffers,
            last: None,
            unrung: false,
            wakers: (0..slots).map(|_| None).collect(),
            deadlines: vec![None; slots],
            woken: Vec::new(),
            alarm: None,
            seekers: 0,
            seeking: Vec::new(),
        }
    }

    /// Reserves a free slot and a buffer of a size that was used recently; `None` if either is not available.
    #[inline(always)]
    pub(super) fn reserve_kept(&mut self, bytes: usize) -> Option<(u16, NonNull<u8>)> {
        if self.caller.free_slots() == 0 {
            return None;
        }
        let buffer = match self.last.take_if(|last| fits(last, bytes as u64)) {
            Some(last) => last,
            None => self.buffers.take_kept(bytes as u64)?,
        };
        self.give_slot(buffer)
    }

    /// Reserves a slot and allocates a buffer; returns `None` if no slot is free.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<Option<(u16, NonNull<u8>)>, Error> {
        if bytes > MOST_BYTES {
            return Err(Error::TooLong { asked: bytes });
        }
        if self.caller.free_slots() == 0 {
            return Ok(None);
        }
        if let Some(last) = self.last.take() {
            self.buffers.free(last);
        }
        let buffer = self.buffers.alloc(bytes.max(1) as u64)?;
        Ok(self.give_slot(buffer))
    }

    #[inline(always)]
    fn give_slot(&mut self, buffer: Buffer) -> Option<(u16, NonNull<u8>)> {
        let base = NonNull::new(buffer.as_ptr())?;
        match self.caller.reserve(buffer) {
            Ok(slot) => Some((slot, base)),
            Err(buffer) => {
                self.buffers.free(buffer);
                None
            }
        }
    }

    /// Sends the request of a slot if the queue and the window have room for it. The call then counts in the window.
    ///
    /// # Errors
    /// If there is no room; then nothing was sent.
    #[inline(always)]
    pub(super) fn post(
        &mut self,
        slot: u16,
        what: (Kind, u16, u32),
        (length, room): (usize, usize),
        window: Option<&WindowLimit>,
    ) -> Result<(), QueueFull> {
        let has_room = !self.caller.is_full() && self.caller.is_settled(slot);
        if !has_room || window.is_some_and(|window| !window.enter()) {
            return Err(QueueFull);
        }
        self.caller.post(slot, what, length, room).expect("there is room");
        self.unrung = true;
        Ok(())
    }

    /// Returns `Some` if the call of a slot is answered.
    #[inline(always)]
    pub(super) fn answered(&self, slot: u16) -> Option<()> {
        self.caller.is_answered(slot).then_some(())
    }

    /// Takes the answers that have come, up to the answer of slot `mine`. Returns whether any of them belongs to
    /// another caller, which has to be woken. Answers after that of `mine` are left to their own callers. A caller that
    /// took all of them would send its next requests only afterwards, so that it and the server would work in turns
    /// instead of in parallel.
    #[inline(always)]
    pub(super) fn take_answers(&mut self, mine: u16) -> bool {
        let mut others = false;
        let PendingCalls { caller, buffers, wakers, woken, .. } = self;
        let count = caller.poll(|change| {
            match change {
                CallChange::Answered(slot) if slot == mine => return ControlFlow::Break(()),
                CallChange::Answered(slot) => {
                    others = true;
                    woken.extend(wakers[usize::from(slot)].take());
                }
                CallChange::Freed(buffer) => buffers.free(buffer),
            }
            ControlFlow::Continue(())
        });
        if count > 0 && self.is_room_sought() {
            others = true;
            self.tell_of_room();
        }
        others
    }

    /// Returns whether a thread or a task waits for a slot or for room to send.
    #[inline(always)]
    pub(super) fn is_room_sought(&self) -> bool {
        self.seekers > 0
    }

    /// Records that there may be room: the tasks that wait for it will be woken when the lock on the calls is released.
    pub(super) fn tell_of_room(&mut self) {
        self.seekers -= self.seeking.len();
        self.woken.append(&mut self.seeking);
    }

    /// Registers a task to be woken when there may be room, or at its deadline. Returns whether the earliest deadline
    /// has become earlier.
    pub(super) fn seek_room(&mut self, waker: &Waker, deadline: Option<Instant>) -> bool {
        if !self.seeking.iter().any(|seeking| seeking.will_wake(waker)) {
            self.seeking.push(waker.clone());
            self.seekers += 1;
        }
        self.set_alarm(deadline)
    }

    /// Releases the slot of a call that its caller no longer uses.
    #[inline(always)]
    pub(super) fn release(&mut self, slot: u16) {
        self.wakers[usize::from(slot)] = None;
        self.deadlines[usize::from(slot)] = None;
        let Some(mut buffer) = self.caller.release(slot) else { return };
        if buffer.capacity() <= MOST_KEPT {
            match self.last.replace(buffer) {
                Some(before) => buffer = before,
                None => return,
            }
        }
        self.buffers.free(buffer);
    }

    /// Returns when the call of a slot is given up. If the call has no deadline yet, it is set to `after` from now, and
    /// later queries return the same time.
    pub(super) fn deadline(&mut self, slot: u16, after: Option<Duration>) -> Option<Instant> {
        let deadline = &mut self.deadlines[usize::from(slot)];
        if deadline.is_none() {
            *deadline = after.map(|after| (Instant::now() + after, after));
        }
        deadline.map(|(at, _)| at)
    }

    /// Sets a deadline for the call of this slot alone.
    pub(super) fn set_deadline(&mut self, slot: u16, after: Duration) {
        self.deadlines[usize::from(slot)] = Some((Instant::now() + after, after));
    }

    /// Returns when the call of a slot is given up, and after how long, if a deadline is set.
    pub(super) fn given_up(&self, slot: u16) -> Option<(Instant, Duration)> {
        self.deadlines[usize::from(slot)]
    }

    /// Registers a task to be woken when a slot is answered, or at its deadline. Returns whether the earliest deadline
    /// has become earlier.
    pub(super) fn register(&mut self, slot: u16, waker: &Waker, deadline: Option<Instant>) -> bool {
        let waiting = &mut self.wakers[usize::from(slot)];
        if !waiting.as_ref().is_some_and(|waiting| waiting.will_wake(waker)) {
            *waiting = Some(waker.clone());
        }
        self.set_alarm(deadline)
    }

    /// Sets the alarm to a deadline if that is earlier; returns whether it is.
    fn set_alarm(&mut self, deadline: Option<Instant>) -> bool {
        let earlier = match (deadline, self.alarm) {
            (Some(deadline), Some(alarm)) => deadline < alarm,
            (deadline, None) => deadline.is_some(),
            (None, Some(_)) => false,
        };
        if earlier {
            self.alarm = deadline;
        }
        earlier
    }

    /// Returns whether any task is waiting.
    pub(super) fn anybody_registered(&self) -> bool {
        !self.seeking.is_empty() || self.wakers.iter().any(Option::is_some)
    }

    /// Takes the wakers of all waiting tasks. Each task checks for itself why it was woken.
    pub(super) fn take_wakers(&mut self) -> Vec<Waker> {
        self.alarm = None;
        self.seekers -= self.seeking.len();
        self.wakers.iter_mut().filter_map(Option::take).chain(self.seeking.drain(..)).collect()
    }
}

/// Returns whether a buffer is large enough for a request of `bytes` bytes, and not much larger.
#[inline(always)]
fn fits(buffer: &Buffer, bytes: u64) -> bool {
    let capacity = buffer.capacity();
    bytes <= capacity && capacity - bytes < capacity / 4 + LINE as u64
}
