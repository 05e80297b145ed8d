//! The client's thread that carries entries and bytes between the local queues and the server.

use super::dial::Server;
use super::memory::{BufferHeap, Local};
use super::outgoing::SendQueue;
use super::session::body_of;
use super::stream::allowed;
use super::{ANSWER_BYTES, LARGE, Notice, from_bytes};
use crate::error::Error;
use crate::queue::entry::{ANSWER, Answer, EntryStatus, FLAG, REQUEST, Request};
use crate::queue::{Receiver, Sender};
use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::fd::OwnedFd;
use std::io::{self, ErrorKind, Read};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use unrack_keys::Wire;
use unrack_pool::cache_control::Coherent;
use unrack_pool::process::Maker;
use unrack_pool::wire::{ClientId, PeerProcess};
use unrack_pool::{Wakeup, Wakeups};

/// Maximum number of calls in flight at a time, which is the same number as over a pool of the default size.
pub(crate) const LINES: usize = 512;
/// Pause between two attempts to reconnect.
const PAUSE: Duration = Duration::from_millis(20);
/// Time after which the closing client gives up on a server that takes no bytes, so that the server gets no farewell.
const STALLED: rustix::event::Timespec = rustix::event::Timespec { tv_sec: 0, tv_nsec: 500_000_000 };
/// Number of bytes that are read at a time. Longer answers are read directly into their buffers.
const BUFFER: usize = 64 << 10;

/// Connection to a server, as the client's other threads see it.
pub(crate) struct Link {
    maker: Maker,
    shared: Arc<TcpLinkState>,
    local: Arc<Local>,
    peer: PeerProcess,
    thread: Option<JoinHandle<()>>,
}

/// State that the link's thread shares with the client's other threads.
struct TcpLinkState {
    /// True while the link's thread sleeps, or is about to.
    asleep: AtomicBool,
    stop: AtomicBool,
    wake: OwnedFd,
    /// Reason why no more calls will be answered, once the connection is lost for good.
    lost: OnceLock<String>,
    /// Wakeups. The client's threads sleep on the first one.
    wakeups: Wakeups,
}

impl Link {
    /// Connects to a service at a host and port. Returns the link and the allocator of the link's buffers.
    pub(crate) fn connect(
        address: &str,
        service: &str,
        patience: Duration,
    ) -> Result<(Link, BufferHeap), Error> {
        let mut server =
            Server { address: address.into(), service: service.into(), session: [0; 16], patience };
        let (wire, welcome) = server.connect(Instant::now() + patience).map_err(|not| not.error(&server))?;
        server.session = welcome.session;
        let full = || Error::from(io::Error::from(ErrorKind::OutOfMemory));
        let local = Local::new(LINES).ok_or_else(full)?;
        let heap = BufferHeap::new(local.clone(), welcome.most_bytes as usize);
        let shared = Arc::new(TcpLinkState {
            asleep: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            wake: rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
                .map_err(io::Error::from)?,
            lost: OnceLock::new(),
            wakeups: Wakeups::make().map_err(io::Error::from)?,
        });
        let peer = PeerProcess { id: ClientId(0), pid: 0, uid: 0, gid: 0, name: server.name() };
        let carrier = LinkThread::new(local.clone(), shared.clone(), server);
        let thread =
            std::thread::Builder::new().name("unrack-tcp".into()).spawn(move || carrier.run(wire))?;
        Ok((Link { maker: Maker::this_process(), shared, local, peer, thread: Some(thread) }, heap))
    }

    /// Returns the local queues and buffers.
    pub(crate) fn local(&self) -> &Local {
        &self.local
    }

    /// Returns a description of the server.
    pub(crate) fn peer(&self) -> &PeerProcess {
        &self.peer
    }

    /// Returns why no more calls will be answered, or `None` while the link works.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.shared.lost.get().map(String::as_str)
    }

    /// Returns the wakeup on which the client's threads sleep.
    pub(crate) fn wakeup(&self) -> &Wakeup {
        self.shared.wakeups.get(0)
    }

    /// Wakes the link's thread if it sleeps, because there is a request in the queue.
    pub(crate) fn ring(&self) {
        // Pairs with the fence of `Carrier::sleep`: either the thread sees the request, or we see that the thread is
        // asleep.
        fence(Ordering::SeqCst);
        if self.shared.asleep.load(Ordering::Relaxed) {
            self.shared.wake();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if !self.maker.is_here() {
            // The thread and its connection belong to the parent process, so a child must not stop them.
            return std::mem::forget(self.thread.take());
        }
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl TcpLinkState {
    fn wake(&self) {
        // The result does not matter, because a counter that is full wakes the thread as well.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// State of the link's thread.
struct LinkThread {
    local: Arc<Local>,
    shared: Arc<TcpLinkState>,
    server: Server,
    requests: Receiver<Coherent>,
    answers: Sender<Coherent>,
    /// Unanswered request of each slot, with the request's sequence number.
    awaited: Vec<Option<(u64, Request)>>,
    asked: u64,
    outgoing: SendQueue,
}

/// Reason why a connection is no longer used.
enum Over {
    Stopped,
    Broken(String),
}

impl From<io::Error> for Over {
    fn from(error: io::Error) -> Over {
        Over::Broken(error.to_string())
    }
}

impl LinkThread {
    fn new(local: Arc<Local>, shared: Arc<TcpLinkState>, server: Server) -> LinkThread {
        let (area, layout) = (local.area(), local.layout());
        // SAFETY: the area exists as long as `local`, was zero at first, and is written only by the two ends of the
        // pair.
        let (requests, answers) = unsafe {
            (
                Receiver::new(Coherent, area.add(layout.requests()), layout.lines()),
                Sender::new(Coherent, area.add(layout.answers()), layout.lines()),
            )
        };
        let awaited = vec![None; layout.lines()];
        let outgoing = SendQueue::new(layout.lines());
        LinkThread { local, shared, server, requests, answers, awaited, asked: 0, outgoing }
    }

    fn run(mut self, mut wire: Wire) {
        loop {
            let why = match self.carry(&mut wire) {
                Over::Stopped => return self.take_leave(&mut wire),
                Over::Broken(why) => why,
            };
            match self.reconnect(why) {
                Ok(again) => wire = again,
                Err(why) => {
                    let _ = self.shared.lost.set(why);
                    self.shared.wakeups.get(0).wake();
                    return;
                }
            }
            self.outgoing.clear();
            // The requests are repeated in the order in which the client made them, because handlers may rely on it.
            let mut again: Vec<_> = self.awaited.iter().flatten().collect();
            again.sort_unstable_by_key(|(asked, _)| *asked);
            for (_, request) in again {
                self.outgoing.push(request, &self.local);
            }
        }
    }

    /// Carries requests and answers until the connection breaks or the client ends.
    fn carry(&mut self, wire: &mut Wire) -> Over {
        let mut incoming = PartialAnswer::default();
        loop {
            match self.round(wire, &mut incoming) {
                Err(over) => return over,
                Ok(true) => {}
                Ok(false) => self.sleep(wire),
            }
            if self.shared.stop.load(Ordering::Relaxed) {
                return Over::Stopped;
            }
        }
    }

    /// Carries all requests and answers that are ready. Returns whether there were any.
    fn round(&mut self, wire: &mut Wire, incoming: &mut PartialAnswer) -> Result<bool, Over> {
        let mut any = false;
        while let Some(entries) = self.requests.receive() {
            any = true;
            self.take(entries);
        }
        any |= self.outgoing.write(wire)?;
        let answered = incoming.read(wire, self)?;
        if answered {
            self.shared.wakeups.get(0).wake();
        }
        Ok(any || answered)
    }

    fn take(&mut self, entries: [u64; REQUEST]) {
        let request = Request::from_entries(entries.map(|entry| entry & !FLAG)).expect("this client's own");
        let awaited = &mut self.awaited[usize::from(request.slot)];
        if awaited.as_ref().is_some_and(|(_, awaited)| awaited.generation == request.generation) {
            // The client repeats the request because the answer takes long. No repetition is sent to the server,
            // because the answer will arrive as long as the connection exists.
            return self.answer(EntryStatus::RUNNING, 0, &request);
        }
        self.outgoing.push(&request, &self.local);
        *awaited = Some((self.asked, request));
        self.asked += 1;
    }

    fn answer(&mut self, status: EntryStatus, length: u32, request: &Request) {
        let &Request { slot, generation, offset, .. } = request;
        self.answers.send(Answer { status, slot, generation, offset, length }.entries());
    }

    fn sleep(&mut self, wire: &Wire) {
        self.shared.asleep.store(true, Ordering::Relaxed);
        // Pairs with the fence of `Link::ring`.
        fence(Ordering::SeqCst);
        if let Some(entries) = self.requests.receive() {
            self.take(entries);
        } else if !self.shared.stop.load(Ordering::Relaxed) && !wire.has_unread() {
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, !self.outgoing.is_empty() || wire.has_unsent());
            let mut waited =
                [PollFd::new(&**wire.socket(), flags), PollFd::new(&self.shared.wake, PollFlags::IN)];
            // The result does not matter, because the caller checks everything again.
            let _ = rustix::event::poll(&mut waited, None);
        }
        self.shared.asleep.store(false, Ordering::Relaxed);
        let _ = rustix::io::read(&self.shared.wake, &mut [0; 8]);
    }

    /// Reconnects to the server. Fails with the reason if this does not succeed in time.
    fn reconnect(&mut self, why: String) -> Result<Wire, String> {
        let deadline = Instant::now() + self.server.patience;
        loop {
            let soon = deadline.min(Instant::now() + Duration::from_secs(1));
            match self.server.connect(soon) {
                Ok((wire, _)) => return Ok(wire),
                Err(not) => {
                    if let Some(final_word) = not.why() {
                        return Err(final_word);
                    }
                }
            }
            if Instant::now() >= deadline || self.shared.stop.load(Ordering::Relaxed) {
                return Err(why);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Informs the server that this client does not come back. Requests that were sent before still run, unless the
    /// server takes no bytes for a while, or takes them so slowly that it would delay the client.
    fn take_leave(&mut self, wire: &mut Wire) {
        while let Some(entries) = self.requests.receive() {
            self.take(entries);
        }
        self.outgoing.notice(Notice::End);
        let deadline = Instant::now() + allowed(self.outgoing.bytes());
        while self.outgoing.write(wire).is_ok()
            && (!self.outgoing.is_empty() || wire.has_unsent())
            && Instant::now() < deadline
        {
            let mut waited = [PollFd::new(&**wire.socket(), PollFlags::OUT)];
            if rustix::event::poll(&mut waited, Some(&STALLED)) == Ok(0) {
                return;
            }
        }
    }
}

/// Received bytes that do not yet form a complete answer.
struct PartialAnswer {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Answer whose bytes are arriving, the answer's request, and the number of bytes that have arrived.
    body: Option<(Answer, Request, usize)>,
}

impl Default for PartialAnswer {
    fn default() -> PartialAnswer {
        PartialAnswer { buffer: vec![0; BUFFER].into(), start: 0, end: 0, body: None }
    }
}

impl PartialAnswer {
    /// Reads the bytes that have arrived, up to a few buffers full. Returns whether there were any.
    fn read(&mut self, wire: &mut Wire, carrier: &mut LinkThread) -> Result<bool, Over> {
        let mut any = false;
        for _ in 0..16 {
            let place = self.place(&carrier.local);
            let room = place.len();
            let count = match wire.read(place) {
                Ok(0) => return Err(Over::Broken("it closed the connection".into())),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // An encrypted connection ended without the farewell of TLS.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Err(Over::Broken("it closed the connection".into()));
                }
                Err(error) => return Err(error.into()),
            };
            any = true;
            self.came(count, carrier)?;
            if count < room && !wire.has_unread() {
                break;
            }
        }
        Ok(any)
    }

    /// Returns where to read to: directly into the call's buffer if the rest of the answer is long, and otherwise into
    /// the receive buffer.
    fn place<'a>(&'a mut self, local: &'a Local) -> &'a mut [u8] {
        debug_assert!(self.body.is_none() || self.start == self.end);
        if let Some((answer, request, have)) = &self.body
            && body_of(answer) - have >= BUFFER
        {
            let left = body_of(answer) - have;
            // SAFETY: the call is not answered yet, so its buffer exists, and this thread may write it up to the call's
            // room.
            return unsafe { std::slice::from_raw_parts_mut(local.base(request.offset).add(*have), left) };
        }
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        &mut self.buffer[self.end..]
    }

    /// Handles `count` bytes that were read to the address returned by [`place`](PartialAnswer::place).
    fn came(&mut self, count: usize, carrier: &mut LinkThread) -> Result<(), Over> {
        match &mut self.body {
            Some((answer, _, have)) if body_of(answer) - *have >= BUFFER => *have += count,
            _ => self.end += count,
        }
        loop {
            if let Some((answer, request, have)) = &mut self.body {
                let count = (body_of(answer) - *have).min(self.end - self.start);
                // SAFETY: the call is not answered yet, so its buffer exists, and `have` is within the call's room, as
                // `asked` checked.
                let place = unsafe { carrier.local.base(request.offset).add(*have) };
                // SAFETY: the rest of the answer fits into the rest of the call's buffer, which this thread may write
                // until the call is answered; the receive buffer does not overlap it.
                unsafe { std::ptr::copy_nonoverlapping(self.buffer[self.start..].as_ptr(), place, count) };
                self.start += count;
                *have += count;
                if *have < body_of(answer) {
                    return Ok(());
                }
                let (answer, request, _) = self.body.take().expect("just seen");
                carrier.finish(&answer, &request);
            }
            let Some(bytes) = self.buffer[self.start..self.end].first_chunk::<ANSWER_BYTES>() else {
                return Ok(());
            };
            let entries: [u64; ANSWER] = from_bytes(*bytes);
            self.start += ANSWER_BYTES;
            let answer = Answer::from_entries(entries);
            let request = carrier.asked(entries, &answer).ok_or_else(|| {
                Over::Broken("it breaks the protocol: it answered a call that was not made".into())
            })?;
            self.body = Some((answer, request, 0));
        }
    }
}

impl LinkThread {
    /// Returns the request to which an answer belongs; `None` if the answer matches no request.
    fn asked(&self, entries: [u64; ANSWER], answer: &Answer) -> Option<Request> {
        let (_, request) = (*self.awaited.get(usize::from(answer.slot))?)?;
        let fits = entries.iter().all(|entry| entry & FLAG == 0)
            && answer.generation == request.generation
            && !self.outgoing.is_unsent(answer.slot)
            && answer.status != EntryStatus::RUNNING
            && body_of(answer) <= request.capacity as usize;
        fits.then_some(request)
    }

    /// Completes a call whose answer has arrived as a whole.
    fn finish(&mut self, answer: &Answer, request: &Request) {
        self.awaited[usize::from(request.slot)] = None;
        if body_of(answer) >= LARGE {
            self.outgoing.notice(Notice::Received { slot: request.slot, generation: request.generation });
        }
        self.answer(answer.status, answer.length, request);
    }
}
