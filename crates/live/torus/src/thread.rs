//! A thread that does the work of several nodes: it takes packets that are due from their links, wakes the nodes, and sleeps.

use crate::node::{LiveCounters, Node};
use crate::plan::TorusPlan;
use crate::report::{Told, Totals};
use crate::site::{LinkSite, PacketInFlight, Queues};
use crate::sleep::SleepTime;
use hdrhistogram::Histogram;
use rtrb::Consumer;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::thread::Thread;
use std::time::{Duration, Instant};
use unrack_protocol::r2c2::packet::{Assignment, Hello};
use unrack_units::Time;

/// Clock of a rack, which gives the time since the rack was started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    /// Starts a clock at zero.
    pub(crate) fn new() -> Clock {
        Clock(Instant::now())
    }

    /// Returns the time since the clock was started.
    pub(crate) fn now(self) -> Time {
        let since = self.0.elapsed();
        Time::from_ns(since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos()))
    }
}

/// State by which other threads wake a thread.
pub(crate) struct Sleeper {
    /// Time until which the thread sleeps.
    pub time: SleepTime,
    /// Set while the thread has orders that it has not read.
    pub called: AtomicBool,
}

/// Handle by which other threads give orders to the threads of nodes.
#[derive(Clone)]
pub(crate) struct Callers {
    pub orders: Arc<[Sender<ThreadCommand>]>,
    pub sleepers: Arc<Vec<Sleeper>>,
    pub threads: Arc<std::sync::OnceLock<Vec<Thread>>>,
}

impl Callers {
    /// Sends an order to a thread and wakes it.
    pub(crate) fn call(&self, thread: usize, order: ThreadCommand) {
        // Ignore errors: a caller that waits for a thread that has ended notices the end elsewhere.
        let _ = self.orders[thread].send(order);
        self.sleepers[thread].called.store(true, Ordering::Release);
        self.sleepers[thread].time.wake(0, || wake(&self.threads, thread));
    }

    /// Sends an order to each thread.
    pub(crate) fn call_all(&self, order: impl Fn() -> ThreadCommand) {
        (0..self.orders.len()).for_each(|thread| self.call(thread, order()));
    }
}

/// An order to a thread of nodes.
pub(crate) enum ThreadCommand {
    /// Starts a run at this time, with these messages to send.
    Begin(Time, Vec<Submission>),
    /// Passes on a frame that a host behind this gateway sent.
    Frame(u32, Vec<u8>),
    /// Assigns these routings, which were found for a node, to the node's flows and to others that it knows.
    Choose(u32, Vec<Assignment>),
    /// Stops a node for good.
    Stop(u32),
    /// Asks for the counts since the last request.
    Count,
    Leave,
}

/// A message that node `src` is to send at time `at`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Submission {
    pub at: Time,
    pub message: u32,
    pub src: u32,
    pub dst: u32,
    pub bytes: u64,
}

/// A node and the links that lead to it.
pub(crate) struct NodeSeat {
    pub number: u32,
    pub node: Node,
    /// Receiving ends of the links, with the port of each.
    pub inlets: Vec<(usize, Consumer<PacketInFlight>)>,
    pub is_dead: bool,
}

/// State of a thread of nodes.
pub(crate) struct Worker {
    pub places: Vec<NodeSeat>,
    pub site: LinkSite,
    pub orders: Receiver<ThreadCommand>,
    pub clock: Clock,
    pub own: usize,
    pub sleepers: Arc<Vec<Sleeper>>,
    pub threads: Arc<std::sync::OnceLock<Vec<Thread>>>,
    /// Messages to send, in descending order of time.
    pub submissions: Vec<Submission>,
    /// Next time at which an outage of the plan, or its end, may become known.
    pub discovers: Option<Time>,
    /// Delay of packets after their arrival times, in ns, without keep-alives.
    pub late: Histogram<u64>,
    pub popped: u64,
    /// True if there are at least as many cores as threads.
    pub has_core: bool,
}

/// Shortest sleep. Going to sleep and waking up takes longer than this.
pub(crate) const NOT_WORTH_SLEEPING: Time = Time::from_us(10);
/// Time for which a thread that had work looks for more before it sleeps, if there is a core for each thread. It is about as long as a
/// wakeup by another thread takes.
const LOOKS_FOR: Time = Time::from_us(50);
/// Maximum number of packets taken from one link before the other links have their turn.
const MOST_AT_ONCE: usize = 32;

impl Worker {
    /// Works until the order to leave arrives.
    pub(crate) fn run(mut self) {
        // A sleep should end on time, not up to 50 us later. If this call fails, sleeps only last longer.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1_000));
        let (now, mut last) = (self.clock.now(), (Time::ZERO, 0));
        self.places.iter_mut().for_each(|place| place.node.start(now));
        loop {
            if self.sleeper().called.load(Ordering::Relaxed)
                && self.sleeper().called.swap(false, Ordering::Acquire)
                && !self.obey()
            {
                return;
            }
            let mut next = self.work();
            if self.site.links.take_news() {
                self.pass_on();
                next = Time::ZERO;
            }
            self.ring();
            if self.popped != last.1 {
                last = (self.site.now, self.popped);
            }
            let looks = self.has_core && self.site.now < last.0 + LOOKS_FOR;
            if next > self.site.now + NOT_WORTH_SLEEPING && !looks {
                self.sleep(next);
            }
        }
    }

    fn sleeper(&self) -> &Sleeper {
        &self.sleepers[self.own]
    }

    /// Executes the orders received. Returns false if the thread has to leave.
    fn obey(&mut self) -> bool {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                ThreadCommand::Begin(began, submissions) => self.begin(began, submissions),
                ThreadCommand::Frame(node, frame) => {
                    let now = self.clock.now();
                    let place = self.places.iter_mut().find(|place| place.number == node && !place.is_dead);
                    if let Some(place) = place {
                        place.node.take_from_host(now, &frame, &mut self.site.around(node));
                    }
                }
                ThreadCommand::Choose(node, chosen) => {
                    let now = self.clock.now();
                    if let Some(place) = self.places.iter_mut().find(|place| place.number == node) {
                        place.node.choose(now, &chosen, &mut self.site.around(node));
                    }
                }
                ThreadCommand::Stop(node) => self.stop(node),
                ThreadCommand::Count => {
                    let totals = self.count();
                    self.site.tell(self.clock.now(), Told::Totals(Box::new(totals)));
                }
                ThreadCommand::Leave => return false,
            }
        }
        true
    }

    fn begin(&mut self, began: Time, submissions: Vec<Submission>) {
        self.submissions.extend(submissions);
        self.submissions.sort_by_key(|submission| std::cmp::Reverse((submission.at, submission.message)));
        self.places.iter_mut().for_each(|place| place.node.begin(began));
        if self.site.begin(began) {
            self.tell_of_failures(self.clock.now());
        }
        self.discovers = self.site.next_known(began);
    }

    fn discover(&mut self) {
        let now = self.clock.now();
        if self.discovers.is_some_and(|at| at <= now) {
            if self.site.discover(now) {
                self.tell_of_failures(now);
            }
            self.discovers = self.site.next_known(now);
        }
    }

    /// Passes on changed states of links. All neighbours receive them before any packet that depends on them.
    fn pass_on(&mut self) {
        let now = self.clock.now();
        for place in self.places.iter_mut().filter(|place| !place.is_dead) {
            place.node.tell_links(now, &mut self.site.around(place.number));
        }
        if self.site.discover(now) {
            self.tell_of_failures(now);
        }
    }

    fn tell_of_failures(&mut self, now: Time) {
        for place in self.places.iter_mut().filter(|place| !place.is_dead) {
            place.node.discover(now, &mut self.site.around(place.number));
        }
    }

    fn stop(&mut self, number: u32) {
        let now = self.clock.now();
        if let Some(place) = self.places.iter_mut().find(|place| place.number == number) {
            place.is_dead = true;
            place.node.die(now, &mut self.site.around(number));
        }
    }

    fn count(&mut self) -> Totals {
        let mut counters = LiveCounters::default();
        self.places.iter_mut().for_each(|place| counters += place.node.take_counters());
        let links = self.site.queues.most.len();
        let queues = std::mem::replace(&mut self.site.queues, Queues::new(links));
        let late = self.late.clone();
        self.late.reset();
        Totals { counters, queues, late, pushed: self.site.pushed, popped: self.popped }
    }

    /// Does the work that is due. Returns when the next work is due.
    fn work(&mut self) -> Time {
        self.discover();
        // Handle packets in flight first. Otherwise the packets that this thread's nodes send would delay them further when the thread is
        // late.
        let mut next = self.take();
        if next > self.site.now {
            self.submit();
            let asked = self.submissions.last().map(|submission| submission.at);
            next = next.min(asked.unwrap_or(Time::MAX)).min(self.discovers.unwrap_or(Time::MAX));
            let now = self.site.now;
            for NodeSeat { number, node, .. } in &mut self.places {
                if node.next_wake().is_some_and(|at| at <= now) {
                    node.wake(now, &mut self.site.around(*number));
                }
                next = next.min(node.next_wake().unwrap_or(Time::MAX));
            }
        }
        // These packets were sent between nodes of this thread.
        next.min(self.site.due[self.own])
    }

    /// Takes packets that are due from links, some from each link. Returns when the next packet is due.
    fn take(&mut self) -> Time {
        let now = self.clock.now();
        self.site.now = now;
        let mut next = Time::MAX;
        for NodeSeat { number, node, inlets, is_dead } in &mut self.places {
            for (port, inlet) in inlets {
                let mut has_come = false;
                for _ in 0..MOST_AT_ONCE {
                    let Ok(PacketInFlight { at, .. }) = inlet.peek() else { break };
                    if *at > now {
                        break;
                    }
                    let Ok(PacketInFlight { at, packet }) = inlet.pop() else { break };
                    has_come = true;
                    if !Hello::is(&packet) {
                        self.popped += 1;
                        self.late.saturating_record((now - at).as_ns());
                    }
                    let mut around = self.site.around(*number);
                    match *is_dead {
                        true => node.lose(packet, &mut around),
                        // Use the packet's arrival time, as if this thread were not late. Otherwise all packets that arrived meanwhile
                        // would enter the next queue at the same time.
                        false => node.take(at, packet, &mut around),
                    }
                }
                if has_come && !*is_dead {
                    node.heard(now, *port, &mut self.site.around(*number));
                }
                next = next.min(inlet.peek().map_or(Time::MAX, |crossing| crossing.at));
            }
        }
        next
    }

    fn submit(&mut self) {
        while let Some(submission) = self.submissions.last().copied()
            && submission.at <= self.clock.now()
        {
            self.submissions.pop();
            let Submission { message, src, dst, bytes, .. } = submission;
            let now = self.clock.now();
            let mut around = self.site.around(src);
            let place = self.places.iter_mut().find(|place| place.number == src);
            match place.filter(|place| !place.is_dead) {
                Some(place) => place.node.submit(now, message, dst, bytes, &mut around),
                None => self.site.tell(now, Told::Over { message, retransmissions: 0, is_there: false }),
            }
        }
    }

    /// Wakes threads that would otherwise sleep beyond the arrival of packets on their links.
    fn ring(&mut self) {
        for (thread, due) in self.site.due.iter_mut().enumerate() {
            let at = std::mem::replace(due, Time::MAX);
            if thread != self.own && at < Time::MAX {
                self.sleepers[thread].time.wake(at.as_ps(), || wake(&self.threads, thread));
            }
        }
    }

    fn sleep(&mut self, next: Time) {
        let inlets = || self.places.iter().flat_map(|place| &place.inlets).map(|(_, inlet)| inlet);
        self.sleeper().sleep(self.clock, next, || earliest(inlets()));
    }
}

impl Sleeper {
    /// Returns the state of a thread that is awake and has no orders.
    pub(crate) fn new() -> Sleeper {
        Sleeper { time: SleepTime::new(), called: AtomicBool::new(false) }
    }

    /// Sleeps until `next`, unless a packet is due earlier or the thread has orders. Threads that send packets or orders wake it.
    pub(crate) fn sleep(&self, clock: Clock, next: Time, earliest: impl FnOnce() -> Time) {
        let earliest = || if self.called.load(Ordering::Acquire) { 0 } else { earliest().as_ps() };
        self.time.sleep(next.as_ps(), earliest, |until| match Time::from_ps(until) {
            Time::MAX => std::thread::park(),
            until => {
                std::thread::park_timeout(Duration::from_nanos(until.saturating_sub(clock.now()).as_ns()))
            }
        });
    }
}

/// Returns the earliest arrival among the packets on these links; [`Time::MAX`] if there are no packets.
pub(crate) fn earliest<'a>(inlets: impl Iterator<Item = &'a Consumer<PacketInFlight>>) -> Time {
    inlets.filter_map(|inlet| inlet.peek().ok().map(|crossing| crossing.at)).min().unwrap_or(Time::MAX)
}

/// Wakes a thread, if the rack has started it already.
pub(crate) fn wake(threads: &std::sync::OnceLock<Vec<Thread>>, thread: usize) {
    if let Some(threads) = threads.get() {
        threads[thread].unpark();
    }
}

/// Returns the number of packets in flight that a link's ring can hold.
pub(crate) fn ring_places(plan: &TorusPlan) -> usize {
    // Room for a full queue of packets of 64 bytes, and for some packets that the receiving thread takes late.
    (plan.buffer / 64) as usize + 1_024
}
