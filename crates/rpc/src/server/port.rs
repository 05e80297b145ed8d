//! One client: its queues, what it granted, its streams.

use super::call::Outcome;
use super::desk::Desk;
use super::methods::{Handler, Methods};
use super::workers::{Job, Workers};
use crate::ends::{Callee, Incoming, Layout, Reach};
use crate::queue::entry::Kind;
use crate::wait::{Moment, Pause};
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use unrack_pool::cache_control::AnyMemory;
use unrack_pool::wire::Access;
use unrack_pool::{Channel, Client, Rung};

/// Calls of one client that are run before the next client's.
const TURN: usize = 16;

pub struct Port {
    callee: Callee<AnyMemory>,
    granted: Granted,
    desk: Desk,
    pause: Pause,
    /// Calls that workers have.
    pub running: usize,
    rung: Rung,
    /// There are answers that the client may have gone to sleep without.
    pub owes_ring: bool,
}

/// What the client granted.
struct Granted {
    channel: Arc<Channel>,
    /// When the manager would have been asked last, if it had been asked no more often than [`BETWEEN_ASKING`].
    asked: Cell<Option<Instant>>,
}

/// A grant that was made a moment ago may have to be asked for. A client that names what it never granted must not
/// have the manager asked all the time, since others wait meanwhile: it may be asked this often, and a number of
/// times in a row.
const BETWEEN_ASKING: Duration = Duration::from_millis(10);
const ASKED_IN_A_ROW: u32 = 64;

impl Reach for Granted {
    #[inline(always)]
    fn reach(&self, offset: u64, bytes: usize) -> Option<*mut u8> {
        let bytes = bytes as u64;
        if let Some(base) = self.channel.known(offset, bytes, Access::Write) {
            return Some(base.as_ptr());
        }
        let now = Instant::now();
        let asked = self.asked.get().map_or(now, |asked| asked.max(now - BETWEEN_ASKING * ASKED_IN_A_ROW));
        if asked > now {
            return None;
        }
        self.asked.set(Some(asked + BETWEEN_ASKING));
        self.channel.resolve(offset, bytes, Access::Write).map(|base| base.as_ptr())
    }
}

impl Port {
    pub fn new(channel: Channel, pool: &Client, layout: Layout) -> Port {
        // Of a process on another host, only the name is known.
        let pause = Pause::new(pool.pool().mode, channel.peer().pid != 0);
        let area = channel.queue_base().as_ptr();
        // SAFETY: the area is mapped as long as the channel, which this port holds.
        let callee = unsafe { Callee::new(pool.memory().clone(), area, layout) };
        let desk = Desk::new(channel.peer().clone(), channel.id().0);
        let granted = Granted {
            channel: Arc::new(channel),
            asked: Cell::new(Instant::now().checked_sub(BETWEEN_ASKING * ASKED_IN_A_ROW)),
        };
        Port { callee, granted, desk, pause, running: 0, rung: Rung::default(), owes_ring: false }
    }

    /// The client is gone, and no worker has a call of it.
    pub fn may_go(&self) -> bool {
        self.running == 0 && self.granted.channel.gone().is_some()
    }

    /// Its number, as handlers know it.
    pub fn client(&self) -> u64 {
        self.desk.client()
    }

    /// Pauses until the next request comes, or for a moment. Says whether it, or the look before it, took long.
    #[inline]
    pub fn pause(&self, moment: Moment) -> bool {
        // SAFETY: the queues are mapped as long as the port.
        unsafe { self.callee.awaited().pause(self.pause, moment) }
    }

    /// Runs what has come, a turn of it at most. Says whether there was anything.
    #[inline(always)]
    pub fn serve(&mut self, number: usize, methods: &Arc<Methods>, workers: Option<&Workers>) -> bool {
        let (mut any, mut next) = (false, None);
        for turn in 1..=TURN {
            let Some(incoming) = next.take().or_else(|| self.callee.poll(&self.granted)) else { break };
            // While several come, the next is fetched while one runs. One that comes alone is not held up by a look.
            if any && turn < TURN {
                next = self.callee.poll(&self.granted);
            }
            any = true;
            self.run(number, &incoming, methods, workers);
        }
        if any {
            self.owes_ring = true;
            if self.granted.channel.peer_bell().is_seen_asleep(&self.rung) {
                self.ring();
            }
        }
        any
    }

    /// A call that comes to be answered here, or by a worker.
    #[inline(always)]
    fn run(&mut self, number: usize, incoming: &Incoming, methods: &Arc<Methods>, workers: Option<&Workers>) {
        let request = &incoming.request;
        if let Some(workers) = workers
            && matches!(request.kind, Kind::Call | Kind::OneWay)
            && matches!(methods.get(request.method), Some(Handler::Plain(_)))
        {
            self.running += 1;
            let (channel, methods) = (self.granted.channel.clone(), methods.clone());
            return workers.give(Job { port: number, incoming: *incoming, channel, methods });
        }
        // SAFETY: the channel keeps the buffer mapped; a slot's call runs once at a time.
        let outcome = unsafe { self.desk.run(incoming, &self.granted.channel, methods) };
        self.answer(request.slot, outcome);
    }

    #[inline(always)]
    pub fn answer(&mut self, slot: u16, outcome: Outcome) {
        self.callee.answer(slot, outcome.status, outcome.length, outcome.written);
    }

    /// Tells the client that there are answers, if it sleeps. This needs a fence, and so waits until what was stored is
    /// everywhere; it is done when there is time. A client that is about to sleep is rung for again later, rather
    /// than waited for: others wait meanwhile, and it may never do as it says.
    #[inline(always)]
    pub fn ring(&mut self) {
        self.owes_ring = !self.granted.channel.peer_bell().try_ring(&mut self.rung);
    }
}
