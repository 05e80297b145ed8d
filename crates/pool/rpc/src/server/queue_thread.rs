//! A thread that serves ports, and sleeps when no client has work for it.

use super::methods::Methods;
use super::port::Port;
use super::workers::Workers;
use super::{MOST_QUEUE_THREADS, Options};
use crate::ends::QueueLayout;
use crate::error::Error;
use crate::wait::{self, Moment, Pause, PollTime};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use unrack_pool::{Channel, Client, LOST_RING};

/// Time for which a queue thread polls for calls even if polling was in vain recently.
const SHORT: Duration = Duration::from_micros(5);
/// Longest time that a queue thread sleeps while it may have to ring a client again.
const LONGEST_NAP: Duration = Duration::from_millis(100);
/// Number of polling rounds after which a queue thread rings clients that may have gone to sleep before their answers came. The
/// queue thread does not do this in each round, because ringing needs a fence, which would delay answers that are being
/// written.
const RING_EVERY: u32 = 16;
/// Time asleep after which a queue thread polls once more, because a client announces a call without making sure that the queue thread
/// has not just gone to sleep.
const SECOND_LOOK: Duration = Duration::from_millis(1);
/// Largest number of clients for which polling all of them takes about as long as reading the clock.
const FEW: usize = 4;
/// Number of polling rounds between two checks for clients that are gone.
const ROUNDS: u32 = 1024;

/// All queue threads of a server.
pub(super) struct QueueThreads {
    queue_threads: Vec<Arc<QueueThread>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    next: AtomicUsize,
    queue_bytes: usize,
}

/// State that a queue thread shares with the acceptor.
pub(super) struct QueueThread {
    number: usize,
    pool: Client,
    adopted: Mutex<Vec<Port>>,
    /// True if `adopted` is not empty, or if the queue thread has to stop.
    called: AtomicBool,
    stop: AtomicBool,
}

impl QueueThreads {
    /// Starts the queue threads' threads.
    pub(super) fn start(
        pool: &Client,
        methods: &Arc<Methods>,
        options: &Options,
    ) -> Result<Arc<QueueThreads>, Error> {
        let mut queue_threads = QueueThreads {
            queue_threads: Vec::new(),
            threads: Mutex::default(),
            next: AtomicUsize::new(0),
            queue_bytes: pool.pool().queue_bytes as usize,
        };
        for number in 0..options.queue_threads.clamp(1, MOST_QUEUE_THREADS) {
            let queue_thread = Arc::new(QueueThread {
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
            let patience = PollTime::new(options.waiting, SHORT);
            let mut thread = Thread {
                queue_thread: queue_thread.clone(),
                clients,
                patience,
                nap: SECOND_LOOK,
                last_call: Instant::now(),
            };
            let handle =
                std::thread::Builder::new().name("unrack-queue_thread".into()).spawn(move || thread.run())?;
            queue_threads.queue_threads.push(queue_thread);
            queue_threads.threads.get_mut().unwrap_or_else(PoisonError::into_inner).push(handle);
        }
        Ok(Arc::new(queue_threads))
    }

    /// Returns the queue thread for the next client; queue threads take turns.
    pub(super) fn next(&self) -> &QueueThread {
        &self.queue_threads[self.next.fetch_add(1, Ordering::Relaxed) % self.queue_threads.len()]
    }

    /// Returns the size of a queue area in bytes.
    pub(super) fn queue_bytes(&self) -> usize {
        self.queue_bytes
    }

    /// Stops all queue threads and waits for their threads.
    pub(super) fn stop(&self) {
        for queue_thread in &self.queue_threads {
            queue_thread.stop.store(true, Ordering::SeqCst);
            queue_thread.call();
        }
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = thread.join();
        }
    }
}

impl QueueThread {
    /// Returns the index of the wakeup by which the clients wake this queue thread.
    pub(super) fn wakeup(&self) -> usize {
        self.number
    }

    /// Hands an accepted client to the queue thread.
    pub(super) fn adopt(&self, channel: Channel, layout: QueueLayout) {
        let port = Port::new(channel, &self.pool, layout);
        self.adopted.lock().unwrap_or_else(PoisonError::into_inner).push(port);
        self.call();
    }

    fn call(&self) {
        self.called.store(true, Ordering::SeqCst);
        self.pool.wakeup(self.number).wake();
    }
}

struct Thread {
    queue_thread: Arc<QueueThread>,
    clients: Clients,
    patience: PollTime,
    /// Time to sleep before the queue thread polls once more, or rings again a client that was about to sleep.
    nap: Duration,
    /// Time of the last call.
    last_call: Instant,
}

/// The clients of a queue thread.
struct Clients {
    methods: Arc<Methods>,
    workers: Option<Workers>,
    /// Ports by number. The port of a client that is gone is removed when the workers have finished its calls, which
    /// leaves a gap.
    ports: Vec<Option<Port>>,
    pause: Pause,
    /// Number of rounds since the queue thread last rang clients.
    rounds: u32,
}

impl Thread {
    fn run(&mut self) {
        loop {
            if self.queue_thread.called.load(Ordering::Relaxed) && !self.attend() {
                return;
            }
            self.clients.let_go();
            let mut served = self.wait();
            for _ in 0..ROUNDS {
                if !self.clients.round() {
                    break;
                }
                served = true;
            }
            if served {
                (self.nap, self.last_call) = (SECOND_LOOK, Instant::now());
            }
        }
    }

    /// Takes new clients. Returns false if the queue thread has to stop.
    fn attend(&mut self) -> bool {
        self.queue_thread.called.store(false, Ordering::SeqCst);
        if self.queue_thread.stop.load(Ordering::SeqCst) {
            return false;
        }
        let mut adopted = self.queue_thread.adopted.lock().unwrap_or_else(PoisonError::into_inner);
        for port in adopted.drain(..) {
            self.clients.adopt(port);
        }
        true
    }

    /// Polls for a while, then sleeps until a client, a worker, the acceptor, or the end of a peer wakes the thread.
    /// Returns whether there was work to do while it polled.
    fn wait(&mut self) -> bool {
        let Thread { queue_thread, clients, patience, .. } = self;
        let clients = RefCell::new(clients);
        let looked = patience.look(
            None,
            || clients.borrow_mut().round() || queue_thread.called.load(Ordering::Relaxed),
            |moment| clients.borrow().pause(moment),
            // Polling must also end when a client is gone, because a queue thread that polls without end would keep the memory
            // of such clients.
            || clients.borrow().anybody_gone(),
        );
        if looked {
            return true;
        }
        let clients = clients.into_inner();
        clients.ring();
        let again = self.nap <= SECOND_LOOK || clients.owes_ring();
        let nap = if again { self.nap } else { LOST_RING };
        self.nap = (self.nap * 2).min(LONGEST_NAP);
        let (is_far, waited) = (clients.any_far(), self.last_call.elapsed());
        let short = is_far.then(|| wait::nap(waited, clients.all_ring())).flatten();
        let nap = short.map_or(nap, |short| nap.min(short));
        // The queue thread only checks for work here. If a handler ran here, it could wait for the thread that reads the
        // manager's messages, while that thread waits to wake this one.
        queue_thread.pool.wakeup(queue_thread.number).sleep(Some(nap), || {
            if short.is_none() {
                clients.ports.iter_mut().flatten().for_each(Port::announce_sleep);
            }
            queue_thread.called.load(Ordering::SeqCst) || clients.anybody_gone() || clients.have_work()
        });
        clients.ports.iter_mut().flatten().for_each(Port::announce_awake);
        if is_far && wait::came_soon(self.last_call.elapsed()) && clients.have_work() {
            patience.learn(true);
        }
        false
    }
}

impl Clients {
    fn adopt(&mut self, port: Port) {
        match self.ports.iter_mut().find(|gap| gap.is_none()) {
            Some(gap) => *gap = Some(port),
            None => self.ports.push(Some(port)),
        }
    }

    /// Polls all clients once. Returns whether any of them had work.
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

    /// Returns whether a call has come, or a worker has finished one.
    fn have_work(&self) -> bool {
        self.workers.as_ref().is_some_and(Workers::have_done)
            || self.ports.iter().flatten().any(Port::has_request)
    }

    /// Rings all clients that may have gone to sleep before their answers came.
    #[cold]
    fn ring(&mut self) {
        self.rounds = 0;
        for port in self.ports.iter_mut().flatten() {
            if port.owes_ring {
                port.ring();
            }
        }
    }

    /// Answers the calls that workers have finished. Returns whether there were any.
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

    /// Pauses between two polls. Returns whether the pause, or the poll before it, took long.
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

    fn any_far(&self) -> bool {
        self.ports.iter().flatten().any(Port::is_far)
    }

    fn all_ring(&self) -> bool {
        self.ports.iter().flatten().all(Port::rings)
    }

    fn anybody_gone(&self) -> bool {
        self.ports.iter().flatten().any(Port::may_go)
    }

    /// Removes clients that are gone, unless a worker still runs one of their calls.
    fn let_go(&mut self) {
        for port in &mut self.ports {
            if port.as_ref().is_some_and(Port::may_go) {
                let client = port.take().expect("just seen").client();
                self.methods.tell_gone(client);
            }
        }
    }
}
