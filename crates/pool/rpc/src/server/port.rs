//! One client of a server: its queues, granted memory and streams.

use super::call::CallOutcome;
use super::client_context::ClientContext;
use super::methods::{Handler, Methods};
use super::workers::{WorkerCall, Workers};
use crate::ends::{Callee, IncomingCall, QueueLayout, Reach};
use crate::queue::entry::Kind;
use crate::wait::{Moment, Pause};
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use unrack_pool::cache_control::AnyMemory;
use unrack_pool::wire::Access;
use unrack_pool::{Channel, Client, WakesSent};

/// Maximum number of calls of one client that run before the next client gets its turn.
const TURN: usize = 16;

/// The server's side of a client's connection.
pub(super) struct Port {
    callee: Callee<AnyMemory>,
    granted: GrantedMemory,
    desk: ClientContext,
    pause: Pause,
    /// Number of calls that workers are running.
    pub running: usize,
    rung: WakesSent,
    /// State of the sleep that was announced to a client on another host.
    asleep: Option<u64>,
    /// True if there are answers, and the client may have gone to sleep before they came.
    pub owes_ring: bool,
}

/// Memory that the client granted to the server.
struct GrantedMemory {
    channel: Arc<Channel>,
    /// Virtual time of the queries to the manager, which each query advances by [`BETWEEN_ASKING`]. While it is ahead
    /// of the clock, no query is made.
    asked: Cell<Option<Instant>>,
}

/// Average interval at which a port may query the manager for grants that it does not know yet. The limit is needed
/// because a malicious client could keep naming memory that it never granted, and other clients wait during each query.
/// After a pause, up to [`ASKED_IN_A_ROW`] queries may follow each other directly.
const BETWEEN_ASKING: Duration = Duration::from_millis(10);
const ASKED_IN_A_ROW: u32 = 64;

impl Reach for GrantedMemory {
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
    /// Makes the port of a client that was accepted.
    pub(super) fn new(channel: Channel, pool: &Client, layout: QueueLayout) -> Port {
        let pause = Pause::new(pool.pool().mode, !channel.peer().is_far());
        let area = channel.queue_base().as_ptr();
        // SAFETY: the area is mapped as long as the channel, which this port owns.
        let callee = unsafe { Callee::new(pool.memory().clone(), area, layout) };
        let desk = ClientContext::new(channel.peer().clone(), channel.id().0);
        let granted = GrantedMemory {
            channel: Arc::new(channel),
            asked: Cell::new(Instant::now().checked_sub(BETWEEN_ASKING * ASKED_IN_A_ROW)),
        };
        Port {
            callee,
            granted,
            desk,
            pause,
            running: 0,
            rung: WakesSent::default(),
            asleep: None,
            owes_ring: false,
        }
    }

    /// Returns whether the port can be removed: the client is gone, and no worker runs one of its calls.
    pub(super) fn may_go(&self) -> bool {
        self.running == 0 && self.granted.channel.gone().is_some()
    }

    /// Returns whether the client is on another host.
    pub(super) fn is_far(&self) -> bool {
        self.granted.channel.peer().is_far()
    }

    /// Returns whether the client rings when it has sent requests. A client on another host can do so only if the hosts
    /// have doorbells.
    pub(super) fn rings(&self) -> bool {
        self.granted.channel.rings()
    }

    /// Announces to a client on another host that the queue thread is about to sleep.
    pub(super) fn announce_sleep(&mut self) {
        if self.is_far_that_rings() {
            self.asleep = Some(self.callee.announce_sleep());
        }
    }

    /// Announces that the queue thread's sleep is over.
    pub(super) fn announce_awake(&mut self) {
        if let Some(sleep) = self.asleep.take() {
            self.callee.announce_awake(sleep);
        }
    }

    fn is_far_that_rings(&self) -> bool {
        self.is_far() && self.rings()
    }

    /// Returns whether a request has come.
    pub(super) fn has_request(&self) -> bool {
        self.callee.has_request()
    }

    /// Returns the client's number, by which handlers identify it.
    pub(super) fn client(&self) -> u64 {
        self.desk.client()
    }

    /// Pauses until the next request comes, or for a short time. Returns whether the pause, or the poll before it, took
    /// long.
    #[inline]
    pub(super) fn pause(&self, moment: Moment) -> bool {
        // SAFETY: the queues are mapped as long as the port exists.
        unsafe { self.callee.awaited().pause(self.pause, moment) }
    }

    /// Runs the calls that have come, at most [`TURN`] of them. Returns whether there were any.
    #[inline(always)]
    pub(super) fn serve(&mut self, number: usize, methods: &Arc<Methods>, workers: Option<&Workers>) -> bool {
        let (mut any, mut next) = (false, None);
        for turn in 1..=TURN {
            let Some(incoming) = next.take().or_else(|| self.callee.poll(&self.granted)) else { break };
            // If several calls have come, the next one is fetched before the current one runs. The first call runs
            // without this poll, so that a call that comes alone is not delayed.
            if any && turn < TURN {
                next = self.callee.poll(&self.granted);
            }
            any = true;
            self.run(number, &incoming, methods, workers);
        }
        if any {
            self.owes_ring = true;
            if self.granted.channel.peer_wakeup().is_seen_asleep(&self.rung) {
                self.ring();
            }
        }
        any
    }

    /// Runs a call in this thread and answers it, or gives it to a worker.
    #[inline(always)]
    fn run(
        &mut self,
        number: usize,
        incoming: &IncomingCall,
        methods: &Arc<Methods>,
        workers: Option<&Workers>,
    ) {
        let request = &incoming.request;
        if let Some(workers) = workers
            && matches!(request.kind, Kind::Call | Kind::OneWay)
            && matches!(methods.get(request.method), Some(Handler::Plain(_)))
        {
            self.running += 1;
            let (channel, methods) = (self.granted.channel.clone(), methods.clone());
            return workers.give(WorkerCall { port: number, incoming: *incoming, channel, methods });
        }
        // SAFETY: the channel keeps the buffer mapped, and at most one call of a slot runs at a time.
        let outcome = unsafe { self.desk.run(incoming, &self.granted.channel, methods) };
        self.answer(request.slot, outcome);
    }

    /// Answers a call.
    #[inline(always)]
    pub(super) fn answer(&mut self, slot: u16, outcome: CallOutcome) {
        self.callee.answer(slot, outcome.status(), outcome.length(), outcome.written());
    }

    /// Wakes the client if it sleeps, because there are answers for it. This needs a fence, which waits until all
    /// stores are globally visible, so the queue thread does it only when it has time. A client that is about to sleep is not
    /// waited for but rung again later, because other clients would wait meanwhile, and the client may never sleep.
    #[inline(always)]
    pub(super) fn ring(&mut self) {
        let heard = match self.is_far_that_rings() {
            true => self.callee.wake_caller(|| self.granted.channel.ring_far()),
            false => self.granted.channel.peer_wakeup().try_wake(&mut self.rung),
        };
        self.owes_ring = !heard;
    }
}
