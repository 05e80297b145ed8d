//! The calls that threads of a process have under way, behind one lock: slots, buffers, tasks that wait.

use super::road::Buffers;
use crate::ends::{Buffer, Caller, Change};
use crate::error::Error;
use crate::queue::entry::{Kind, MOST_BYTES};
use std::task::Waker;
use std::time::{Duration, Instant};
use unrack_pool::cache_control::AnyMemory;

impl Buffer for unrack_pool::arena::Buffer {
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

pub struct Calls {
    pub caller: Caller<AnyMemory, unrack_pool::arena::Buffer>,
    buffers: Buffers,
    /// A request was sent, and the server may have gone to sleep before.
    pub unrung: bool,
    /// By slot: the task that waits for its answer.
    wakers: Vec<Option<Waker>>,
    /// By slot: when the task that awaits it gives up.
    deadlines: Vec<Option<Instant>>,
    /// Tasks whose answers came, to be woken when the calls are not locked any more.
    pub woken: Vec<Waker>,
    /// When the earliest of them gives up.
    pub alarm: Option<Instant>,
}

impl Calls {
    pub fn new(caller: Caller<AnyMemory, unrack_pool::arena::Buffer>, buffers: Buffers) -> Calls {
        let slots = caller.lines();
        Calls {
            caller,
            buffers,
            unrung: false,
            wakers: (0..slots).map(|_| None).collect(),
            deadlines: vec![None; slots],
            woken: Vec::new(),
            alarm: None,
        }
    }

    #[inline(always)]
    pub fn reserve(&mut self, bytes: usize) -> Result<Option<(u16, *mut u8)>, Error> {
        if bytes > MOST_BYTES {
            return Err(Error::TooLong { asked: bytes });
        }
        if self.caller.free_slots() == 0 {
            return Ok(None);
        }
        let buffer = self.buffers.alloc(bytes.max(1) as u64)?;
        let base = buffer.as_ptr();
        match self.caller.reserve(buffer) {
            Ok(slot) => Ok(Some((slot, base))),
            Err(buffer) => {
                self.buffers.free(buffer);
                Ok(None)
            }
        }
    }

    /// Sends the request of a slot, for which there is room.
    pub fn send(&mut self, slot: u16, what: (Kind, u16, u32), (length, room): (usize, usize)) {
        self.caller.post(slot, what, length, room).expect("there is room");
        self.unrung = true;
    }

    /// Takes what was answered, and says whether anything was that is not whoever asks's: they are to be told.
    #[inline(always)]
    pub fn take_answers(&mut self, mine: u16) -> bool {
        let mut others = false;
        let Calls { caller, buffers, wakers, woken, .. } = self;
        caller.poll(|change| match change {
            Change::Answered(slot) if slot == mine => {}
            Change::Answered(slot) => {
                others = true;
                woken.extend(wakers[usize::from(slot)].take());
            }
            Change::Freed(buffer) => buffers.free(buffer),
        });
        others
    }

    /// The call of a slot is over for its caller.
    #[inline(always)]
    pub fn release(&mut self, slot: u16) {
        self.wakers[usize::from(slot)] = None;
        self.deadlines[usize::from(slot)] = None;
        if let Some(buffer) = self.caller.release(slot) {
            self.buffers.free(buffer);
        }
    }

    /// When the task that awaits a slot gives up: so long after it was first asked.
    pub fn deadline(&mut self, slot: u16, after: Option<Duration>) -> Option<Instant> {
        let after = after?;
        Some(*self.deadlines[usize::from(slot)].get_or_insert_with(|| Instant::now() + after))
    }

    /// Has a task woken when a slot is answered, or at its deadline. Says whether the alarm is now earlier.
    pub fn register(&mut self, slot: u16, waker: &Waker, deadline: Option<Instant>) -> bool {
        let waiting = &mut self.wakers[usize::from(slot)];
        if !waiting.as_ref().is_some_and(|waiting| waiting.will_wake(waker)) {
            *waiting = Some(waker.clone());
        }
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

    pub fn anybody_registered(&self) -> bool {
        self.wakers.iter().any(Option::is_some)
    }

    /// All tasks that wait: each looks for itself what it is about.
    pub fn take_wakers(&mut self) -> Vec<Waker> {
        self.alarm = None;
        self.wakers.iter_mut().filter_map(Option::take).collect()
    }
}
