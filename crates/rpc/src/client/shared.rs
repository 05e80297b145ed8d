//! A pair of queues that the threads of a process share, and waiting for answers.
//!
//! Whoever waits takes answers for all, so nobody depends on another thread being awake. While they look, each
//! does so for itself; when they sleep, one sleeps on the bell that the server rings, and the others until
//! that one, or anybody, took their answer.

use super::Options;
use super::road::{Buffers, Connected, Road};
use super::window::Limit;
use crate::ends::{Buffer, Caller, Change, Full};
use crate::error::Error;
use crate::lock::{Guard, Lock};
use crate::queue::entry::{Answer, Kind, MOST_BYTES, Status};
use crate::view::View;
use crate::wait::{Patience, Pause};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, PoisonError, TryLockError};
use std::task::Waker;
use std::time::{Duration, Instant};
use unrack_pool::Bell;
use unrack_pool::cache_control::AnyMemory;
use unrack_pool::wire::{Cause, Peer};

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

/// How long to look for an answer even if it was in vain lately: as long as a server takes that has to be woken,
/// for if both sides sleep at each call, neither finds out that looking would be faster.
const SHORT: Duration = Duration::from_micros(50);

pub struct Shared {
    calls: Lock<Calls>,
    /// Held by whoever sleeps on the bell.
    sleeper: Mutex<()>,
    /// For those who sleep while another has the bell.
    parked: Mutex<()>,
    unparked: Condvar,
    parked_count: AtomicUsize,
    /// Somebody is about to sleep on the bell, or does.
    asleep: AtomicBool,
    patience: Patience,
    pause: Pause,
    options: Options,
    slots: usize,
    // In the order in which they may go: the buffers before what they are of.
    road: Road,
}

pub struct Calls {
    pub caller: Caller<AnyMemory, unrack_pool::arena::Buffer>,
    buffers: Buffers,
    /// A request was sent, and the server may have gone to sleep before.
    unrung: bool,
    /// By slot: the task that waits for its answer.
    wakers: Vec<Option<Waker>>,
    /// By slot: when the task that awaits it gives up.
    deadlines: Vec<Option<Instant>>,
    /// Tasks whose answers came, to be woken when the calls are not locked any more.
    woken: Vec<Waker>,
    /// When the earliest of them gives up.
    pub alarm: Option<Instant>,
}

/// No slot.
pub const NOBODY: u16 = u16::MAX;

/// Why waiting ended without what was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    TimeOver,
    Gone(Cause),
}

impl Shared {
    pub fn connect(place: &Path, service: &str, options: Options) -> Result<Shared, Error> {
        let Connected { road, caller, buffers } = Connected::to(place, service, &options)?;
        let slots = caller.lines();
        let wakers = (0..slots).map(|_| None).collect();
        Ok(Shared {
            calls: Lock::new(Calls {
                caller,
                buffers,
                unrung: false,
                wakers,
                deadlines: vec![None; slots],
                woken: Vec::new(),
                alarm: None,
            }),
            sleeper: Mutex::default(),
            parked: Mutex::default(),
            unparked: Condvar::new(),
            parked_count: AtomicUsize::new(0),
            asleep: AtomicBool::new(false),
            patience: Patience::new(options.waiting, SHORT),
            pause: Pause::detect(),
            options,
            slots,
            road,
        })
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    pub fn peer(&self) -> &Peer {
        self.road.peer()
    }

    #[inline]
    pub fn lent(&self, offset: u64, bytes: usize) -> Option<View<'_>> {
        self.road.lent(offset, bytes)
    }

    pub fn slots(&self) -> usize {
        self.slots
    }

    pub fn gone(&self) -> Option<Cause> {
        self.road.gone()
    }

    #[inline(always)]
    pub fn calls(&self) -> Guard<'_, Calls> {
        self.calls.lock()
    }

    /// Where the buffer of a slot begins.
    pub fn base(&self, slot: u16) -> *mut u8 {
        self.calls().caller.buffer(slot).base()
    }

    /// The answer of a slot, if it is there.
    pub fn glance(&self, slot: u16) -> Option<Answer> {
        self.find(slot, false, &mut |calls: &mut Calls| calls.caller.answer(slot))
    }

    /// Tells the server that no more parts are wanted, if there is room to say so. If not, the stream goes when its
    /// slot is used again.
    pub fn close_stream(&self, connection: u16, opener: u16) {
        let mut calls = self.calls();
        if let Ok(Some((slot, _))) = calls.reserve(0) {
            let _ = calls.caller.post(slot, (Kind::Close, connection, u32::from(opener)), 0, 0);
            calls.release(slot);
        }
        drop(calls);
        self.ring();
    }

    /// Sends the request of a slot, and rings if the server is seen asleep. One that is just going to sleep is rung for
    /// when its answer is waited for; if nobody does, it looks once more by itself.
    #[inline(always)]
    pub fn post(
        &self,
        slot: u16,
        what: (Kind, u16, u32),
        bytes: (usize, usize),
        window: Option<&Limit>,
    ) -> Result<(), Full> {
        let mut calls = self.calls();
        if calls.caller.is_full() || window.is_some_and(|window| !window.enter(&mut calls)) {
            return Err(Full);
        }
        calls.send(slot, what, bytes);
        drop(calls);
        if self.road.is_seen_asleep() {
            self.ring();
        }
        Ok(())
    }

    /// Sends the request of a slot that waits once more.
    pub fn post_again(&self, slot: u16) {
        // With no room for it, what is under way will be answered first.
        let _ = self.calls().caller.post_again(slot);
        self.ring();
    }

    /// Who waits for an answer makes sure that the server did not go to sleep before the request.
    pub fn ring_after_all(&self) {
        if std::mem::take(&mut self.calls().unrung) {
            self.ring();
        }
    }

    /// Tells the server that there is something to find, if it sleeps. One that was killed says for ever that it does.
    #[cold]
    fn ring(&self) {
        let deadline = self.options.deadline.map(|deadline| Instant::now() + deadline);
        let over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        self.road.ring(|| self.gone().is_some() || over());
    }

    /// A slot with a buffer.
    #[inline(always)]
    pub fn reserve(&self, bytes: usize, deadline: Option<Instant>) -> Result<(u16, *mut u8), Error> {
        // The lock ends here: in the `match` it would be held until its end.
        let reserved = self.calls().reserve(bytes);
        match reserved {
            Ok(Some(reserved)) => Ok(reserved),
            Ok(None) => self.reserve_later(bytes, deadline),
            Err(error) => Err(error),
        }
    }

    /// Waits for a slot.
    #[cold]
    fn reserve_later(&self, bytes: usize, deadline: Option<Instant>) -> Result<(u16, *mut u8), Error> {
        let mut wrong = None;
        let waited = self.wait_until(NOBODY, deadline, |calls| match calls.reserve(bytes) {
            Ok(reserved) => reserved,
            Err(error) => {
                wrong = Some(error);
                Some((0, std::ptr::null_mut()))
            }
        });
        if let Some(error) = wrong {
            return Err(error);
        }
        waited.map_err(|ended| match ended {
            Ended::TimeOver => Error::Exhausted { peer: self.peer().to_string(), slots: self.slots },
            Ended::Gone(_) => self.error_of(ended, Duration::ZERO),
        })
    }

    pub fn error_of(&self, ended: Ended, after: Duration) -> Error {
        let peer = self.peer().to_string();
        match ended {
            Ended::TimeOver => Error::Deadline { peer, after },
            Ended::Gone(cause) => self.road.error_of(cause),
        }
    }

    /// Waits until `ready` finds something, which is asked after answers were taken. Of `slot` nobody else needs to
    /// be told.
    #[inline(always)]
    pub fn wait_until<T>(
        &self,
        slot: u16,
        deadline: Option<Instant>,
        mut ready: impl FnMut(&mut Calls) -> Option<T>,
    ) -> Result<T, Ended> {
        let mut found = self.look(slot, &mut ready);
        if let Some(found) = found {
            return Ok(found);
        }
        let looked = self.patience.look(
            deadline,
            || {
                found = self.look(slot, &mut ready);
                found.is_some()
            },
            || {
                self.ring_after_all();
                self.gone().is_some()
            },
        );
        match found {
            Some(found) if looked => Ok(found),
            _ => self.sleep_until(slot, deadline, ready),
        }
    }

    /// One look; a pause if it was in vain.
    #[inline(always)]
    fn look<T>(&self, slot: u16, ready: &mut impl FnMut(&mut Calls) -> Option<T>) -> Option<T> {
        let Some(mut calls) = self.calls.try_lock() else {
            self.pause.moment();
            return None;
        };
        let others = calls.take_answers(slot);
        let found = ready(&mut calls);
        let awaited = calls.caller.awaited();
        drop(calls);
        if others {
            self.tell(false);
        }
        if found.is_none() {
            // SAFETY: the queues are mapped as long as we are.
            unsafe { awaited.pause(self.pause) };
        }
        found
    }

    #[cold]
    fn sleep_until<T>(
        &self,
        slot: u16,
        deadline: Option<Instant>,
        mut ready: impl FnMut(&mut Calls) -> Option<T>,
    ) -> Result<T, Ended> {
        loop {
            // The news that the peer is gone comes after its last answer.
            let gone = self.gone();
            if let Some(found) = self.find(slot, false, &mut ready) {
                return Ok(found);
            }
            if let Some(cause) = gone {
                return Err(Ended::Gone(cause));
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(Ended::TimeOver);
            }
            let mut found = None;
            match self.sleeper.try_lock() {
                Ok(role) => {
                    self.asleep.store(true, Ordering::Relaxed);
                    self.bell().sleep(left, || {
                        found = self.find(slot, true, &mut ready);
                        found.is_some() || self.gone().is_some()
                    });
                    self.asleep.store(false, Ordering::Relaxed);
                    drop(role);
                    // Pairs with the increment in `park`: either it finds the bell free, or we find it parked.
                    fence(Ordering::SeqCst);
                    self.unpark();
                }
                Err(TryLockError::WouldBlock) => found = self.park(left, &mut ready),
                Err(TryLockError::Poisoned(poisoned)) => drop(poisoned.into_inner()),
            }
            if let Some(found) = found {
                return Ok(found);
            }
        }
    }

    /// `sleeper`: it is asked by the one who is about to sleep on the bell.
    fn find<T>(
        &self,
        slot: u16,
        sleeper: bool,
        ready: &mut impl FnMut(&mut Calls) -> Option<T>,
    ) -> Option<T> {
        let mut calls = self.calls();
        let others = calls.take_answers(slot);
        let found = ready(&mut calls);
        drop(calls);
        if others {
            self.tell(sleeper);
        }
        found
    }

    /// Sleeps until somebody took answers, or does not sleep on the bell any more.
    fn park<T>(&self, left: Option<Duration>, ready: &mut impl FnMut(&mut Calls) -> Option<T>) -> Option<T> {
        let parked = self.parked.lock().unwrap_or_else(PoisonError::into_inner);
        self.parked_count.fetch_add(1, Ordering::SeqCst);
        let found = ready(&mut self.calls());
        if found.is_none() && !matches!(self.sleeper.try_lock(), Ok(_role)) {
            let left = left.unwrap_or(Duration::from_secs(3600));
            drop(self.unparked.wait_timeout(parked, left));
        }
        self.parked_count.fetch_sub(1, Ordering::SeqCst);
        found
    }

    /// Answers were taken: whoever waits for them is told.
    ///
    /// A thread says that it sleeps before it looks for the last time, with the calls locked. If it locked them before
    /// we did, we see that here; if after, it has seen what we took.
    #[inline]
    fn tell(&self, sleeper: bool) {
        if !sleeper && self.asleep.load(Ordering::Relaxed) {
            self.bell().ring();
        }
        self.unpark();
        let woken = std::mem::take(&mut self.calls().woken);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Wakes those who wait while another has the bell.
    fn unpark(&self) {
        if self.parked_count.load(Ordering::Relaxed) > 0 {
            drop(self.parked.lock().unwrap_or_else(PoisonError::into_inner));
            self.unparked.notify_all();
        }
    }

    /// Wakes whoever sleeps on the bell, to look at what a thread of this process changed.
    pub fn ring_own(&self) {
        // Pairs with what those do who go to sleep: they look after they said so.
        fence(Ordering::SeqCst);
        self.bell().ring();
        self.unpark();
    }

    fn bell(&self) -> &Bell {
        self.road.bell()
    }
}

impl Calls {
    #[inline(always)]
    fn reserve(&mut self, bytes: usize) -> Result<Option<(u16, *mut u8)>, Error> {
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

/// Whether an answer is one, or what is wrong.
pub fn check(peer: &Peer, answer: &Answer, room: usize) -> Result<(), Error> {
    match answer.status {
        Status::DONE | Status::MORE => Ok(()),
        status => Err(Error::of_status(peer, status, answer.length, room)),
    }
}
