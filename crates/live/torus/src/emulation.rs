//! An emulated rack: it starts its threads, makes them carry messages, and collects their counts.

use crate::line::Line;
use crate::node::{LiveCounters, Node};
use crate::plan::TorusPlan;
use crate::report::{LiveReport, RunLedger, ThreadReport, Told, Totals, empty_histogram};
use crate::seeker;
use crate::site::{LinkSite, Outlet, PacketInFlight, Queues};
use crate::tap::Tap;
use crate::thread::{Callers, Clock, NodeSeat, Sleeper, Submission, ThreadCommand, Worker, ring_places};
use crate::udp::{Acquaintance, Door, Exit, Machines, RemoteLink, UdpReceiver, UdpTraffic};
use rtrb::Consumer;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;
use unrack_basis::SplitMix64;
use unrack_keys::datagram::PeerState;
use unrack_live::Error;
use unrack_units::{Bytes, Time};
use unrack_workload::{Kind, Message};

/// The nodes of a rack that run in this process, as threads: all nodes, or those of this machine.
pub struct Emulation {
    plan: Arc<TorusPlan>,
    /// Nodes of this machine.
    own: Range<u32>,
    clock: Clock,
    /// Channels by which orders reach the threads of nodes.
    callers: Callers,
    news: Receiver<ThreadReport>,
    /// Threads of nodes, followed by those of the socket, of the gateways and of the seeker.
    handles: Vec<JoinHandle<()>>,
    traffic: Arc<UdpTraffic>,
}

/// Time between the request for a run and its start, so that threads can wake up.
const LEAD: Time = Time::from_us(2_000);
/// Largest message of a live rack.
const MOST_BYTES: Bytes = Bytes::new(u32::MAX as u64);

impl Emulation {
    /// Starts all nodes on `threads` threads, which sleep until they get orders.
    ///
    /// # Errors
    /// Fails if a thread cannot be started.
    pub fn start(plan: TorusPlan, threads: usize) -> Result<Emulation, Error> {
        Emulation::start_bridged(plan, threads, &[])
    }

    /// Starts all nodes, some of them as gateways. Each gateway is a node with the name of the TAP device through which this machine's
    /// network reaches the rack.
    ///
    /// # Errors
    /// [`Error::Usage`] if a node does not exist, or a name cannot be used; [`Error::Lacking`] without root or TAP.
    pub fn start_bridged(
        plan: TorusPlan,
        threads: usize,
        gateways: &[(u32, String)],
    ) -> Result<Emulation, Error> {
        let (plan, taps) = bridged(plan, gateways)?;
        let own = 0..plan.nodes();
        Emulation::start_all(plan, threads, own, None, taps)
    }

    /// Checks that [`Emulation::start_bridged`] could create its devices, by creating and closing them.
    ///
    /// # Errors
    /// As [`Emulation::start_bridged`].
    pub fn try_gateways(plan: &TorusPlan, gateways: &[(u32, String)]) -> Result<(), Error> {
        bridged(plan.clone(), gateways).map(drop)
    }

    /// Starts the nodes of one of several machines. Packets to nodes of other machines are sent as datagrams.
    ///
    /// # Errors
    /// [`Error::Usage`] if there are more machines than nodes; [`Error::Lacking`] if the socket cannot be opened.
    pub fn start_part(plan: TorusPlan, threads: usize, machines: &Machines) -> Result<Emulation, Error> {
        let own = machines.own(plan.nodes());
        if own.is_empty() {
            return Err(Error::Usage(format!(
                "{} nodes are too few: each machine needs at least one",
                plan.nodes()
            )));
        }
        Emulation::start_all(plan, threads, own, Some(machines), Vec::new())
    }

    fn start_all(
        plan: TorusPlan,
        threads: usize,
        own: Range<u32>,
        machines: Option<&Machines>,
        taps: Vec<(u32, Tap)>,
    ) -> Result<Emulation, Error> {
        let plan = Arc::new(plan);
        let (tell, news) = channel();
        let workers = threads.clamp(1, own.len());
        let (orders, inboxes): (Vec<_>, Vec<_>) = (0..workers).map(|_| channel()).unzip();
        let (seek, asked) = channel();
        let mut emulation = Emulation {
            plan: plan.clone(),
            own,
            clock: Clock::new(),
            callers: Callers {
                orders: orders.into(),
                // There is one more, for the thread that sends to other machines.
                sleepers: Arc::new((0..=workers).map(|_| Sleeper::new()).collect()),
                threads: Arc::new(OnceLock::new()),
            },
            news,
            handles: Vec::new(),
            traffic: Arc::default(),
        };
        let mut ends = FreeLinkEnds::new(&plan, &emulation.own, workers, machines);
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let has_core = workers <= cores;
        let seeker = plan.setup.params.selection.as_ref().map(|_| seek);
        for (own, orders) in inboxes.into_iter().enumerate() {
            let outlets = std::mem::take(&mut ends.outlets[own]);
            let here = taps.iter().filter(|(node, _)| thread_of(&emulation.own, workers, *node) == own);
            let here = here.map(|(node, tap)| Ok((*node, tap.try_clone().map_err(no_second)?)));
            let here = here.collect::<Result<BTreeMap<u32, Tap>, Error>>()?;
            let worker = Worker {
                places: ends.places(&plan, &emulation.own, own),
                site: LinkSite::new(
                    &plan,
                    outlets,
                    (own, workers + 1),
                    machines.is_none(),
                    tell.clone(),
                    seeker.clone(),
                    here,
                ),
                orders,
                clock: emulation.clock,
                own,
                sleepers: emulation.callers.sleepers.clone(),
                threads: emulation.callers.threads.clone(),
                submissions: Vec::new(),
                discovers: None,
                late: empty_histogram(),
                popped: 0,
                has_core,
            };
            emulation.spawn(format!("unrack-nodes-{own}"), move || worker.run())?;
        }
        if let Some(machines) = machines {
            emulation.open_socket(machines, ends)?;
        }
        for (node, tap) in taps {
            let (callers, traffic) = (emulation.callers.clone(), emulation.traffic.clone());
            let thread = thread_of(&emulation.own, workers, node);
            let hand_on = move |frame| callers.call(thread, ThreadCommand::Frame(node, frame));
            emulation.spawn(format!("unrack-gateway-{node}"), move || listen(tap, &traffic, hand_on))?;
        }
        if seeker.is_some() {
            let (callers, own) = (emulation.callers.clone(), emulation.own.clone());
            let random = SplitMix64::new(plan.seed).after(1);
            let of = move |node| thread_of(&own, workers, node);
            emulation.spawn("unrack-seeker".into(), move || seeker::run(&asked, &callers, of, random))?;
        }
        let threads = emulation.handles.iter().map(|handle| handle.thread().clone()).collect();
        let _ = emulation.callers.threads.set(threads);
        Ok(emulation)
    }

    fn open_socket(&mut self, machines: &Machines, ends: FreeLinkEnds) -> Result<(), Error> {
        let socket = machines.socket()?;
        let copy =
            socket.try_clone().map_err(|why| Error::Lacking(format!("no second use of a socket: {why}")))?;
        let pairs = machines.pairs();
        let is_sealed = !pairs.is_empty();
        let acquaintance =
            |(at, pair): (&SocketAddr, &Arc<PeerState>)| (*at, Acquaintance::new(pair.clone()));
        let openers = pairs.iter().map(acquaintance).collect();
        let exit = Exit {
            lanes: ends.lanes,
            pairs,
            socket: copy,
            rack: self.plan.fingerprint(),
            clock: self.clock,
            own: self.callers.orders.len(),
            sleepers: self.callers.sleepers.clone(),
            traffic: self.traffic.clone(),
        };
        let entrance = UdpReceiver {
            doors: ends.doors,
            openers,
            is_sealed,
            socket,
            plan: self.plan.clone(),
            clock: self.clock,
            sleepers: self.callers.sleepers.clone(),
            threads: self.callers.threads.clone(),
            traffic: self.traffic.clone(),
        };
        self.spawn("unrack-exit".into(), move || exit.run())?;
        self.spawn("unrack-entrance".into(), move || entrance.run())
    }

    fn spawn(&mut self, name: String, work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let handle = std::thread::Builder::new().name(name).spawn(work);
        self.handles.push(handle.map_err(|why| Error::Lacking(format!("no thread for nodes: {why}")))?);
        Ok(())
    }

    /// Returns the nodes of this machine. Flows can start only at these nodes.
    pub fn own(&self) -> Range<u32> {
        self.own.clone()
    }

    /// Sends messages, each at its time after the start of the run, and waits until each has arrived or was abandoned.
    ///
    /// # Errors
    /// [`Error::Usage`] if a message is not one-way, or if its nodes do not exist.
    pub fn run(&mut self, messages: &[(Time, Message)]) -> Result<LiveReport, Error> {
        messages.iter().try_for_each(|(_, message)| self.check(message))?;
        self.settle()?;
        let began = self.clock.now() + LEAD;
        let mut ledger = RunLedger::new(messages.iter().map(|(_, message)| message.bytes).collect(), began);
        let threads = self.callers.orders.len();
        let mut parts = vec![Vec::new(); threads];
        for (number, (at, Message { src, dst, bytes, .. })) in messages.iter().enumerate() {
            let thread = thread_of(&self.own, threads, *src);
            let (at, message) = (began + *at, number as u32);
            parts[thread].push(Submission { at, message, src: *src, dst: *dst, bytes: *bytes });
        }
        for (thread, part) in parts.into_iter().enumerate() {
            self.callers.call(thread, ThreadCommand::Begin(began, part));
        }
        while !ledger.is_over() {
            let ThreadReport { at, told } = self.next_news()?;
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
        if !self.own.contains(&src) {
            return refuse(format!("workload: node {src} is on another machine; here are {:?}", self.own));
        }
        if bytes > MOST_BYTES.get() {
            let size = Bytes::new(bytes);
            return refuse(format!(
                "workload: a live rack carries messages of at most {MOST_BYTES}, not {size}"
            ));
        }
        if src >= nodes || dst >= nodes || src == dst || bytes == 0 {
            return refuse(format!("workload: {bytes} bytes from {src} to {dst} of {nodes} nodes"));
        }
        Ok(())
    }

    /// Stops a node as if its power were cut: packets to it are lost, and its own messages are abandoned. Its neighbours have to detect the
    /// failure themselves.
    pub fn stop_node(&self, node: u32) {
        self.callers.call_all(|| ThreadCommand::Stop(node));
    }

    /// Waits until no packet is in flight, and collects the threads' counts.
    fn settle(&mut self) -> Result<Totals, Error> {
        let links = self.plan.setup.graph.links() as usize;
        let mut sum = Totals {
            counters: LiveCounters::default(),
            queues: Queues::new(links),
            late: empty_histogram(),
            pushed: 0,
            popped: 0,
        };
        for turn in 0.. {
            (sum.pushed, sum.popped) = (0, 0);
            self.callers.call_all(|| ThreadCommand::Count);
            for _ in 0..self.callers.orders.len() {
                let totals = loop {
                    if let ThreadReport { told: Told::Totals(totals), .. } = self.next_news()? {
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
            let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
            sum.pushed += of(&self.traffic.pushed);
            sum.popped += of(&self.traffic.popped);
            // Give up at some time, because other machines may continue to send forever.
            if sum.pushed == sum.popped || turn > MOST_TURNS {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let lost = self.traffic.lost.swap(0, Ordering::Relaxed);
        let refused = self.traffic.refused.swap(0, Ordering::Relaxed);
        sum.counters.malformed += refused;
        sum.counters.dropped_packets += lost + refused;
        Ok(sum)
    }

    fn next_news(&self) -> Result<ThreadReport, Error> {
        loop {
            if let Ok(news) = self.news.recv_timeout(Duration::from_secs(1)) {
                return Ok(news);
            }
            if self.handles.iter().any(JoinHandle::is_finished) {
                return Err(Error::Broken(
                    "a thread of nodes has ended because of a bug in unrack; please report it".into(),
                ));
            }
        }
    }
}

fn bridged(plan: TorusPlan, gateways: &[(u32, String)]) -> Result<(TorusPlan, Vec<(u32, Tap)>), Error> {
    let nodes: Vec<u32> = gateways.iter().map(|(node, _)| *node).collect();
    let plan = plan.with_gateways(&nodes)?;
    let tap = |(node, name): &(u32, String)| Ok((*node, Tap::new(name, plan.hosts_mtu())?));
    let taps = gateways.iter().map(tap).collect::<Result<Vec<_>, Error>>()?;
    Ok((plan, taps))
}

/// Passes on the frames of hosts behind a gateway, until the rack ends.
fn listen(mut tap: Tap, traffic: &UdpTraffic, hand_on: impl Fn(Vec<u8>)) {
    let mut frame = vec![0; 1 << 16];
    while !traffic.leaves.load(Ordering::Relaxed) {
        tap.read(&mut frame).into_iter().for_each(|frame| hand_on(frame.to_vec()));
    }
}

fn no_second(why: std::io::Error) -> Error {
    Error::Lacking(format!("no second use of a device: {why}"))
}

fn thread_of(own: &Range<u32>, threads: usize, node: u32) -> usize {
    (node - own.start) as usize * threads / own.len()
}

/// Ends of links that no thread has taken yet.
struct FreeLinkEnds {
    /// Sending ends, by thread and link.
    outlets: Vec<Vec<Option<Outlet>>>,
    /// Receiving ends with their ports, by destination node.
    inlets: Vec<Vec<(usize, Consumer<PacketInFlight>)>>,
    /// Links to other machines. The next field has the links from other machines, by link number.
    lanes: Vec<RemoteLink>,
    doors: HashMap<u32, Door>,
}

impl FreeLinkEnds {
    fn new(plan: &TorusPlan, own: &Range<u32>, threads: usize, machines: Option<&Machines>) -> FreeLinkEnds {
        let (graph, nodes) = (&plan.setup.graph, plan.nodes());
        let mut ends = FreeLinkEnds {
            outlets: (0..threads).map(|_| (0..graph.links()).map(|_| None).collect()).collect(),
            inlets: (0..nodes).map(|_| Vec::new()).collect(),
            lanes: Vec::new(),
            doors: HashMap::new(),
        };
        for link in 0..graph.links() {
            let (from, to) = (graph.from(link), graph.to(link));
            let (ring, inlet) = rtrb::RingBuffer::new(ring_places(plan));
            let line = Line::new(plan.link(link).rate, plan.buffer);
            let port = graph.port(graph.reverse(link)) as usize;
            let of = |node| own.contains(&node).then(|| thread_of(own, threads, node));
            let address = |node| machines.expect("nodes are elsewhere").address(node, nodes);
            match (of(from), of(to)) {
                (Some(at), Some(thread)) => {
                    ends.outlets[at][link as usize] = Some(Outlet { line, ring, thread });
                    ends.inlets[to as usize].push((port, inlet));
                }
                (Some(at), None) => {
                    ends.outlets[at][link as usize] = Some(Outlet { line, ring, thread: threads });
                    ends.lanes.push(RemoteLink { link, to: address(to), inlet });
                }
                (None, Some(thread)) => {
                    ends.doors.insert(link, Door { from: address(from), ring, thread });
                    ends.inlets[to as usize].push((port, inlet));
                }
                (None, None) => {}
            }
        }
        ends
    }

    fn places(&mut self, plan: &Arc<TorusPlan>, own: &Range<u32>, thread: usize) -> Vec<NodeSeat> {
        let threads = self.outlets.len();
        let nodes = own.clone().filter(|node| thread_of(own, threads, *node) == thread);
        let place = |number: u32| NodeSeat {
            number,
            node: Node::new(plan, number),
            inlets: std::mem::take(&mut self.inlets[number as usize]),
            is_dead: false,
        };
        nodes.map(place).collect()
    }
}

/// Longest time that a run waits for other machines' packets to end, in ms.
const MOST_TURNS: u32 = 1_000;

impl Drop for Emulation {
    fn drop(&mut self) {
        self.traffic.leaves.store(true, Ordering::Relaxed);
        self.callers.call_all(|| ThreadCommand::Leave);
        self.callers.sleepers.iter().for_each(|sleeper| sleeper.called.store(true, Ordering::Release));
        for handle in self.handles.drain(..) {
            handle.thread().unpark();
            // Ignore the error, because a thread that panicked has printed its message.
            let _ = handle.join();
        }
    }
}
