//! A rack that runs.

use super::bell::Bell;
use super::line::Line;
use super::node::{Counters, Node};
use super::plan::Plan;
use super::report::{Ledger, News, Report, Told, Totals, empty_histogram};
use super::site::{Outlet, Queues, Site};
use super::thread::{Clock, Order, Place, Sleeper, Submission, Worker, ring_places, wake};
use crate::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;
use unrack_units::Time;
use unrack_workload::{Kind, Message};

/// All nodes of a rack in this process, as threads.
pub struct Emulation {
    plan: Arc<Plan>,
    clock: Clock,
    orders: Vec<Sender<Order>>,
    news: Receiver<News>,
    sleepers: Arc<Vec<Sleeper>>,
    threads: Arc<OnceLock<Vec<Thread>>>,
    handles: Vec<JoinHandle<()>>,
}

/// Runs begin so much after they are asked for: threads are awake by then.
const LEAD: Time = Time::from_us(2_000);

impl Emulation {
    /// Starts the nodes on so many threads. They sleep until they are asked for something.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(plan: Plan, threads: usize) -> Result<Emulation, Error> {
        let plan = Arc::new(plan);
        let nodes = plan.nodes() as usize;
        let threads = threads.clamp(1, nodes);
        let thread_of = |node: u32| node as usize * threads / nodes;
        let sleeper = |_| Sleeper { bell: Bell::new(), called: AtomicBool::new(false) };
        let sleepers: Arc<Vec<Sleeper>> = Arc::new((0..threads).map(sleeper).collect());
        let names = Arc::new(OnceLock::new());
        let (tell, news) = channel();
        let clock = Clock::new();
        let graph = plan.graph.clone();
        let mut outlets: Vec<Vec<Option<Outlet>>> =
            (0..threads).map(|_| (0..graph.links()).map(|_| None).collect()).collect();
        let mut inlets: Vec<Vec<_>> = (0..nodes).map(|_| Vec::new()).collect();
        for link in 0..graph.links() {
            let (from, to) = (graph.from(link), graph.to(link));
            let (ring, inlet) = rtrb::RingBuffer::new(ring_places(&plan));
            let line = Line::new(plan.link.rate, plan.buffer);
            outlets[thread_of(from)][link as usize] = Some(Outlet { line, ring, thread: thread_of(to) });
            inlets[to as usize].push(inlet);
        }
        let mut emulation = Emulation {
            plan: plan.clone(),
            clock,
            orders: Vec::new(),
            news,
            sleepers: sleepers.clone(),
            threads: names.clone(),
            handles: Vec::new(),
        };
        for (own, outlets) in outlets.into_iter().enumerate() {
            let (order, orders) = channel();
            let place = |number: u32| Place {
                number,
                node: Node::new(&plan, number),
                inlets: std::mem::take(&mut inlets[number as usize]),
                is_dead: false,
            };
            let worker = Worker {
                places: (0..plan.nodes()).filter(|node| thread_of(*node) == own).map(place).collect(),
                site: Site::new(&plan, outlets, threads, tell.clone()),
                orders,
                clock,
                own,
                sleepers: sleepers.clone(),
                threads: names.clone(),
                submissions: Vec::new(),
                late: empty_histogram(),
                popped: 0,
            };
            let name = format!("unrack-nodes-{own}");
            let handle = std::thread::Builder::new().name(name).spawn(move || worker.run());
            emulation
                .handles
                .push(handle.map_err(|why| Error::Lacking(format!("no thread for nodes: {why}")))?);
            emulation.orders.push(order);
        }
        let _ = names.set(emulation.handles.iter().map(|handle| handle.thread().clone()).collect());
        Ok(emulation)
    }

    /// Sends messages, each at its time after the beginning, and waits until all are there or given up.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is a message that is not one way, or between nodes that there are not.
    pub fn run(&mut self, messages: &[(Time, Message)]) -> Result<Report, Error> {
        messages.iter().try_for_each(|(_, message)| self.check(message))?;
        self.settle()?;
        let began = self.clock.now() + LEAD;
        let mut ledger = Ledger::new(messages.iter().map(|(_, message)| message.bytes).collect(), began);
        let threads = self.handles.len();
        let mut parts = vec![Vec::new(); threads];
        for (number, (at, Message { src, dst, bytes, .. })) in messages.iter().enumerate() {
            let thread = *src as usize * threads / self.plan.nodes() as usize;
            let (at, message) = (began + *at, number as u32);
            parts[thread].push(Submission { at, message, src: *src, dst: *dst, bytes: *bytes });
        }
        parts.into_iter().enumerate().for_each(|(thread, part)| self.order(thread, Order::Submit(part)));
        while !ledger.is_over() {
            let News { at, told } = self.next_news()?;
            ledger.enter(at, &told);
        }
        Ok(ledger.close(self.settle()?))
    }

    fn check(&self, message: &Message) -> Result<(), Error> {
        let Message { src, dst, bytes, kind, .. } = *message;
        let refuse = |why: String| Err(Error::Usage(why));
        let nodes = self.plan.nodes();
        if !matches!(kind, Kind::Flow | Kind::Write) {
            return refuse(format!("workload: a live rack carries flows and writes, not a {}", kind.name()));
        }
        if src >= nodes || dst >= nodes || src == dst || bytes == 0 || bytes > u64::from(u32::MAX) {
            return refuse(format!("workload: {bytes} bytes from {src} to {dst} of {nodes} nodes"));
        }
        Ok(())
    }

    /// A node stops, as if its power were cut: what comes to it is lost, and what it was to send is given up.
    pub fn stop_node(&self, node: u32) {
        (0..self.handles.len()).for_each(|thread| self.order(thread, Order::Stop(node)));
    }

    /// Waits until nothing is under way, and takes what was counted.
    fn settle(&mut self) -> Result<Totals, Error> {
        let links = self.plan.graph.links() as usize;
        let mut sum = Totals {
            counters: Counters::default(),
            queues: Queues::new(links),
            late: empty_histogram(),
            pushed: 0,
            popped: 0,
        };
        loop {
            (sum.pushed, sum.popped) = (0, 0);
            (0..self.handles.len()).for_each(|thread| self.order(thread, Order::Count));
            for _ in 0..self.handles.len() {
                let totals = loop {
                    if let News { told: Told::Totals(totals), .. } = self.next_news()? {
                        break totals;
                    }
                };
                sum.counters += totals.counters;
                sum.late += totals.late;
                sum.queues.found += totals.queues.found;
                let mosts = sum.queues.most.iter_mut().zip(totals.queues.most);
                mosts.for_each(|(most, of_thread)| *most = of_thread.max(*most));
                sum.pushed += totals.pushed;
                sum.popped += totals.popped;
            }
            if sum.pushed == sum.popped {
                return Ok(sum);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn next_news(&self) -> Result<News, Error> {
        loop {
            if let Ok(news) = self.news.recv_timeout(Duration::from_secs(1)) {
                return Ok(news);
            }
            if self.handles.iter().any(JoinHandle::is_finished) {
                return Err(Error::Broken("a thread of nodes has ended by a fault of ours".into()));
            }
        }
    }

    fn order(&self, thread: usize, order: Order) {
        // One that is gone is met by `next_news`.
        let _ = self.orders[thread].send(order);
        self.sleepers[thread].called.store(true, Ordering::Release);
        self.sleepers[thread].bell.ring(0, || wake(&self.threads, thread));
    }
}

impl Drop for Emulation {
    fn drop(&mut self) {
        (0..self.orders.len()).for_each(|thread| self.order(thread, Order::Leave));
        for handle in self.handles.drain(..) {
            // One that panicked has said so.
            let _ = handle.join();
        }
    }
}
