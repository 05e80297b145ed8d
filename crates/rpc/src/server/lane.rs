//! A thread that serves ports, and sleeps when there is nothing to do.

use super::methods::Methods;
use super::port::Port;
use super::workers::Workers;
use super::{MOST_LANES, Options};
use crate::ends::Layout;
use crate::error::Error;
use crate::wait::{Moment, Patience, Pause};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use unrack_pool::{Channel, Client, LOST_RING};

/// How long to look for calls even if it was in vain lately.
const SHORT: Duration = Duration::from_micros(5);
const LONGEST_NAP: Duration = Duration::from_millis(100);
/// Rounds after which those are rung for who may have gone to sleep before their answers. It needs a fence, which
/// would hold up answers that are on their way.
const RING_EVERY: u32 = 16;
/// A client tells a lane that there is a call without making sure that it has not just gone to sleep: so after this
/// long asleep, it looks once more.
const SECOND_LOOK: Duration = Duration::from_millis(1);
/// To look at so many clients takes about as long as to read the clock; to look at more takes longer.
const FEW: usize = 4;
/// Rounds of looking between two checks of who is gone.
const ROUNDS: u32 = 1024;

/// All lanes of a server.
pub struct Lanes {
    lanes: Vec<Arc<Lane>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    next: AtomicUsize,
    queue_bytes: usize,
}

/// What a lane's thread and the acceptor share.
pub struct Lane {
    number: usize,
    pool: Client,
    adopted: Mutex<Vec<Port>>,
    /// There is something in `adopted`, or the lane is to stop.
    called: AtomicBool,
    stop: AtomicBool,
}

impl Lanes {
    pub fn start(pool: &Client, methods: &Arc<Methods>, options: &Options) -> Result<Arc<Lanes>, Error> {
        let mut lanes = Lanes {
            lanes: Vec::new(),
            threads: Mutex::default(),
            next: AtomicUsize::new(0),
            queue_bytes: pool.pool().queue_bytes as usize,
        };
        for number in 0..options.lanes.clamp(1, MOST_LANES) {
            let lane = Arc::new(Lane {
                number,
                pool: pool.clone(),
                adopted: Mutex::default(),
                called: AtomicBool::new(false),
                stop: AtomicBool::new(false),
            });
            let workers = match options.workers {
                0 => None,
                count => Some(Workers::start(count, pool, number)?),
            };
            let clients = Clients {
                methods: methods.clone(),
                workers,
                ports: Vec::new(),
                pause: Pause::new(pool.pool().mode, true),
                rounds: 0,
            };
            let patience = Patience::new(options.waiting, SHORT);
            let mut thread = Thread { lane: lane.clone(), clients, patience, nap: SECOND_LOOK };
            let handle =
                std::thread::Builder::new().name("unrack-lane".into()).spawn(move || thread.run())?;
            lanes.lanes.push(lane);
            lanes.threads.get_mut().unwrap_or_else(PoisonError::into_inner).push(handle);
        }
        Ok(Arc::new(lanes))
    }

    /// Lanes take clients in turn.
    pub fn next(&self) -> &Lane {
        &self.lanes[self.next.fetch_add(1, Ordering::Relaxed) % self.lanes.len()]
    }

    pub fn queue_bytes(&self) -> usize {
        self.queue_bytes
    }

    pub fn stop(&self) {
        for lane in &self.lanes {
            lane.stop.store(true, Ordering::SeqCst);
            lane.call();
        }
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = thread.join();
        }
    }
}

impl Lane {
    /// Which bell its clients ring.
    pub fn bell(&self) -> usize {
        self.number
    }

    pub fn adopt(&self, channel: Channel, layout: Layout) {
        let port = Port::new(channel, &self.pool, layout);
        self.adopted.lock().unwrap_or_else(PoisonError::into_inner).push(port);
        self.call();
    }

    fn call(&self) {
        self.called.store(true, Ordering::SeqCst);
        self.pool.bell(self.number).ring();
    }
}

struct Thread {
    lane: Arc<Lane>,
    clients: Clients,
    patience: Patience,
    /// How long to sleep before looking once more, or ringing again for a client that was about to sleep.
    nap: Duration,
}

/// The clients of a lane.
struct Clients {
    methods: Arc<Methods>,
    workers: Option<Workers>,
    /// By number; those that are gone leave a gap when their workers are done.
    ports: Vec<Option<Port>>,
    pause: Pause,
    /// Since clients were rung for.
    rounds: u32,
}

impl Thread {
    fn run(&mut self) {
        loop {
            if self.lane.called.load(Ordering::Relaxed) && !self.attend() {
                return;
            }
            self.clients.let_go();
            self.wait();
            for _ in 0..ROUNDS {
                if !self.clients.round() {
                    break;
                }
                self.nap = SECOND_LOOK;
            }
        }
    }

    /// Takes new clients. Says whether to go on.
    fn attend(&mut self) -> bool {
        self.lane.called.store(false, Ordering::SeqCst);
        if self.lane.stop.load(Ordering::SeqCst) {
            return false;
        }
        let mut adopted = self.lane.adopted.lock().unwrap_or_else(PoisonError::into_inner);
        for port in adopted.drain(..) {
            self.clients.adopt(port);
        }
        true
    }

    /// Looks for a while, then sleeps until somebody rings: a client, a worker, the acceptor, the news that a peer
    /// is gone.
    fn wait(&mut self) {
        let Thread { lane, clients, patience, .. } = self;
        let clients = RefCell::new(clients);
        let looked = patience.look(
            None,
            || clients.borrow_mut().round() || lane.called.load(Ordering::Relaxed),
            |moment| clients.borrow().pause(moment),
            || false,
        );
        if looked {
            self.nap = SECOND_LOOK;
            return;
        }
        let clients = clients.into_inner();
        clients.ring();
        let again = self.nap <= SECOND_LOOK || clients.owes_ring();
        let nap = if again { self.nap } else { LOST_RING };
        self.nap = (self.nap * 2).min(LONGEST_NAP);
        lane.pool.bell(lane.number).sleep(Some(nap), || {
            lane.called.load(Ordering::SeqCst) || clients.anybody_gone() || clients.round()
        });
    }
}

impl Clients {
    fn adopt(&mut self, port: Port) {
        match self.ports.iter_mut().find(|gap| gap.is_none()) {
            Some(gap) => *gap = Some(port),
            None => self.ports.push(Some(port)),
        }
    }

    /// Looks at all clients once. Says whether there was anything.
    #[inline]
    fn round(&mut self) -> bool {
        let mut any = self.workers.is_some() && self.answer_done();
        for (number, port) in self.ports.iter_mut().enumerate() {
            if let Some(port) = port {
                any |= port.serve(number, &self.methods, self.workers.as_ref());
            }
        }
        self.rounds += 1;
        if self.rounds == RING_EVERY {
            self.ring();
        }
        any
    }

    /// Rings for all who may have gone to sleep before their answers.
    #[cold]
    fn ring(&mut self) {
        self.rounds = 0;
        for port in self.ports.iter_mut().flatten() {
            if port.owes_ring {
                port.ring();
            }
        }
    }

    /// Answers what workers are done with.
    fn answer_done(&mut self) -> bool {
        let done = self.workers.as_ref().map_or_else(Vec::new, Workers::take_done);
        for one in &done {
            let port = self.ports[one.port].as_mut().expect("a port stays until its workers are done");
            port.running -= 1;
            port.answer(one.slot, one.outcome);
            port.owes_ring = true;
        }
        !done.is_empty()
    }

    /// A pause between two looks. Says whether it, or the look, took long.
    #[inline]
    fn pause(&self, moment: Moment) -> bool {
        match self.ports.as_slice() {
            [Some(port)] if self.workers.is_none() => port.pause(moment),
            ports => self.pause.moment(moment) || ports.len() > FEW,
        }
    }

    fn owes_ring(&self) -> bool {
        self.ports.iter().flatten().any(|port| port.owes_ring)
    }

    fn anybody_gone(&self) -> bool {
        self.ports.iter().flatten().any(Port::may_go)
    }

    /// Clients that are gone, and no worker has a call of, are forgotten.
    fn let_go(&mut self) {
        for port in &mut self.ports {
            if port.as_ref().is_some_and(Port::may_go) {
                let client = port.take().expect("just seen").client();
                self.methods.tell_gone(client);
            }
        }
    }
}
