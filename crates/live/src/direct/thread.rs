//! A thread that does the work of several nodes: it takes what is due from their links, wakes them, and sleeps.

use super::bell::Bell;
use super::node::{Counters, Node};
use super::plan::Plan;
use super::report::{Told, Totals};
use super::site::{Crossing, Queues, Site};
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

/// The time of a rack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub fn new() -> Clock {
        Clock(Instant::now())
    }

    pub fn now(self) -> Time {
        let since = self.0.elapsed();
        Time::from_ns(since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos()))
    }
}

/// What others know of a thread: how to wake it.
pub(crate) struct Sleeper {
    pub bell: Bell,
    /// There are orders that it has not read.
    pub called: AtomicBool,
}

/// How threads of nodes are told what to do.
#[derive(Clone)]
pub(crate) struct Callers {
    pub orders: Arc<[Sender<Order>]>,
    pub sleepers: Arc<Vec<Sleeper>>,
    pub threads: Arc<std::sync::OnceLock<Vec<Thread>>>,
}

impl Callers {
    pub fn call(&self, thread: usize, order: Order) {
        // Whoever waits for one that is gone sees that.
        let _ = self.orders[thread].send(order);
        self.sleepers[thread].called.store(true, Ordering::Release);
        self.sleepers[thread].bell.ring(0, || wake(&self.threads, thread));
    }

    pub fn call_all(&self, order: impl Fn() -> Order) {
        (0..self.orders.len()).for_each(|thread| self.call(thread, order()));
    }
}

/// What a thread is told to do.
pub(crate) enum Order {
    /// A run begins then, in which this is to be sent.
    Begin(Time, Vec<Submission>),
    /// A host behind this gateway sent a frame.
    Frame(u32, Vec<u8>),
    /// A node's flows, and others that it knows of, are to use these routings.
    Choose(u32, Vec<Assignment>),
    /// The node does nothing any more.
    Stop(u32),
    /// Tell what was counted since the last time.
    Count,
    Leave,
}

/// At this time, this node is to send so many bytes to that one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Submission {
    pub at: Time,
    pub message: u32,
    pub src: u32,
    pub dst: u32,
    pub bytes: u64,
}

/// A node and the links that lead to it.
pub(crate) struct Place {
    pub number: u32,
    pub node: Node,
    /// By the port at which they come in.
    pub inlets: Vec<(usize, Consumer<Crossing>)>,
    pub is_dead: bool,
}

/// All that a thread has.
pub(crate) struct Worker {
    pub places: Vec<Place>,
    pub site: Site,
    pub orders: Receiver<Order>,
    pub clock: Clock,
    pub own: usize,
    pub sleepers: Arc<Vec<Sleeper>>,
    pub threads: Arc<std::sync::OnceLock<Vec<Thread>>>,
    /// Sorted by time, the first last.
    pub submissions: Vec<Submission>,
    /// When it may become known that something is down, or up again.
    pub discovers: Option<Time>,
    /// But for keep-alives.
    pub late: Histogram<u64>,
    pub popped: u64,
    /// There are as many cores as threads.
    pub has_core: bool,
}

/// Going to sleep and waking up takes longer.
pub(crate) const NOT_WORTH_SLEEPING: Time = Time::from_us(10);
/// A thread that has had something to do looks for more for so long, if it has a core for itself: as long as another takes to
/// wake it.
const LOOKS_FOR: Time = Time::from_us(50);
/// Of one link, before others have their turn.
const MOST_AT_ONCE: usize = 32;

impl Worker {
    /// Works until it is told to leave.
    pub fn run(mut self) {
        // A sleep is to end when it should, not up to 50 us later. Without, it only takes longer.
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

    /// Whether it is to go on.
    fn obey(&mut self) -> bool {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Begin(began, submissions) => self.begin(began, submissions),
                Order::Frame(node, frame) => {
                    let now = self.clock.now();
                    let place = self.places.iter_mut().find(|place| place.number == node && !place.is_dead);
                    if let Some(place) = place {
                        place.node.take_from_host(now, &frame, &mut self.site.around(node));
                    }
                }
                Order::Choose(node, chosen) => {
                    let now = self.clock.now();
                    if let Some(place) = self.places.iter_mut().find(|place| place.number == node) {
                        place.node.choose(now, &chosen, &mut self.site.around(node));
                    }
                }
                Order::Stop(node) => self.stop(node),
                Order::Count => {
                    let totals = self.count();
                    self.site.tell(self.clock.now(), Told::Totals(Box::new(totals)));
                }
                Order::Leave => return false,
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

    /// Links are said to be otherwise than before. All neighbours hear that before anything that follows from it.
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
        let mut counters = Counters::default();
        self.places.iter_mut().for_each(|place| counters += std::mem::take(&mut place.node.counters));
        let links = self.site.queues.most.len();
        let queues = std::mem::replace(&mut self.site.queues, Queues::new(links));
        let late = self.late.clone();
        self.late.reset();
        Totals { counters, queues, late, pushed: self.site.pushed, popped: self.popped }
    }

    /// Does what is due. When something is due next.
    fn work(&mut self) -> Time {
        self.discover();
        // What is under way comes first: a thread that is late would be later for all that its nodes send themselves.
        let mut next = self.take();
        if next > self.site.now {
            self.submit();
            let asked = self.submissions.last().map(|submission| submission.at);
            next = next.min(asked.unwrap_or(Time::MAX)).min(self.discovers.unwrap_or(Time::MAX));
            let now = self.site.now;
            for Place { number, node, .. } in &mut self.places {
                if node.next_wake().is_some_and(|at| at <= now) {
                    node.wake(now, &mut self.site.around(*number));
                }
                next = next.min(node.next_wake().unwrap_or(Time::MAX));
            }
        }
        // Of what nodes of this thread sent each other.
        next.min(self.site.due[self.own])
    }

    /// Takes from links what is due, some of each. When more of it is.
    fn take(&mut self) -> Time {
        let now = self.clock.now();
        self.site.now = now;
        let mut next = Time::MAX;
        for Place { number, node, inlets, is_dead } in &mut self.places {
            for (port, inlet) in inlets {
                let mut has_come = false;
                for _ in 0..MOST_AT_ONCE {
                    let Ok(Crossing { at, .. }) = inlet.peek() else { break };
                    if *at > now {
                        break;
                    }
                    let Ok(Crossing { at, packet }) = inlet.pop() else { break };
                    has_come = true;
                    if !Hello::is(&packet) {
                        self.popped += 1;
                        self.late.saturating_record((now - at).as_ns());
                    }
                    let mut around = self.site.around(*number);
                    match *is_dead {
                        true => node.lose(packet, &mut around),
                        // As if the thread were not late: else what came meanwhile would be in the next queue all at once.
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

    /// Wakes threads that would sleep through what was put on their links.
    fn ring(&mut self) {
        for (thread, due) in self.site.due.iter_mut().enumerate() {
            let at = std::mem::replace(due, Time::MAX);
            if thread != self.own && at < Time::MAX {
                self.sleepers[thread].bell.ring(at.as_ps(), || wake(&self.threads, thread));
            }
        }
    }

    fn sleep(&mut self, next: Time) {
        let inlets = || self.places.iter().flat_map(|place| &place.inlets).map(|(_, inlet)| inlet);
        self.sleeper().sleep(self.clock, next, || earliest(inlets()));
    }
}

impl Sleeper {
    pub fn new() -> Sleeper {
        Sleeper { bell: Bell::new(), called: AtomicBool::new(false) }
    }

    /// Sleeps until `next`, unless something is due earlier or the thread is called, which others see to.
    pub fn sleep(&self, clock: Clock, next: Time, earliest: impl FnOnce() -> Time) {
        let earliest = || if self.called.load(Ordering::Acquire) { 0 } else { earliest().as_ps() };
        self.bell.sleep(next.as_ps(), earliest, |until| match Time::from_ps(until) {
            Time::MAX => std::thread::park(),
            until => {
                std::thread::park_timeout(Duration::from_nanos(until.saturating_sub(clock.now()).as_ns()))
            }
        });
    }
}

/// When the first of what is on links is due.
pub(crate) fn earliest<'a>(inlets: impl Iterator<Item = &'a Consumer<Crossing>>) -> Time {
    inlets.filter_map(|inlet| inlet.peek().ok().map(|crossing| crossing.at)).min().unwrap_or(Time::MAX)
}

/// Wakes a thread, if it is there already.
pub(crate) fn wake(threads: &std::sync::OnceLock<Vec<Thread>>, thread: usize) {
    if let Some(threads) = threads.get() {
        threads[thread].unpark();
    }
}

/// How many packets a link holds that are under way.
pub(crate) fn ring_places(plan: &Plan) -> usize {
    // What a queue holds, in packets of 64 bytes, and what nobody took for a while.
    (plan.buffer / 64) as usize + 1_024
}
