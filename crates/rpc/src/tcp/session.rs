//! What a server remembers of a client, so that a call runs once, whatever happens to connections.

use super::hello::SessionId;
use super::memory::Block;
use super::{LARGE, Notice};
use crate::ends::{Incoming, is_newer};
use crate::queue::entry::{Answer, Request};
use crate::server::methods::Methods;
use crate::server::{Desk, Outcome};
use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

/// A client's calls. One connection at a time has it.
pub struct Session {
    desk: Desk,
    /// By slot.
    seen: Vec<Seen>,
    /// Where the next request is read to.
    spare: Option<Arc<Block>>,
    /// Bytes of large answers that are kept.
    kept: usize,
}

/// Bytes of large answers that are kept until they are known to have come. A client that says so, as it should, never has
/// more than are on their way.
const MOST_KEPT: usize = 4 * super::MOST_BYTES;

#[derive(Default)]
struct Seen {
    generation: u32,
    /// The answer and its bytes, until it is known to have come.
    answered: Option<(Answer, Arc<Block>)>,
}

/// The client breaks the protocol, or the machine has no memory left: the session is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

impl Session {
    pub fn new(desk: Desk, lines: usize) -> Session {
        Session { desk, seen: (0..lines).map(|_| Seen::default()).collect(), spare: None, kept: 0 }
    }

    pub fn client(&self) -> u64 {
        self.desk.client()
    }

    /// A block for a request's bytes, and its answer's. Nobody else has it.
    pub fn block(&mut self, request: &Request) -> Result<Arc<Block>, Broken> {
        let bytes = request.length.max(request.capacity) as usize;
        match self.spare.take() {
            Some(spare) if spare.capacity() >= bytes && Arc::strong_count(&spare) == 1 => Ok(spare),
            _ => Block::new(bytes).map(Arc::new).ok_or(Broken),
        }
    }

    /// Runs a call that was not run before, and gives its answer, or the answer of before.
    pub fn call(
        &mut self,
        request: Request,
        block: Arc<Block>,
        methods: &Methods,
    ) -> Result<(Answer, &[u8]), Broken> {
        let seen = self.seen.get_mut(usize::from(request.slot)).ok_or(Broken)?;
        if request.generation != seen.generation {
            if !is_newer(request.generation, seen.generation) {
                return Err(Broken);
            }
            seen.generation = request.generation;
            let incoming = Incoming { request, base: block.base() };
            // SAFETY: the block is ours, and as long as request and answer may be.
            let outcome = unsafe { self.desk.run(&incoming, &block, methods) };
            let Request { slot, generation, .. } = request;
            let Outcome { status, length, .. } = outcome;
            let answer = Answer { status, slot, generation, offset: 0, length };
            self.keep(answer, block)?;
        } else {
            self.spare = Some(block);
        }
        match &self.seen[usize::from(request.slot)].answered {
            Some((answer, block)) => Ok((*answer, block.bytes(body_of(answer)))),
            // It said that it has it.
            None => Err(Broken),
        }
    }

    /// Keeps an answer, in no more memory than it needs.
    fn keep(&mut self, answer: Answer, mut block: Arc<Block>) -> Result<(), Broken> {
        let length = body_of(&answer);
        if length < LARGE && block.capacity() > LARGE {
            let mut small = Block::new(length).ok_or(Broken)?;
            small.bytes_mut(length).copy_from_slice(block.bytes(length));
            self.spare = Some(std::mem::replace(&mut block, Arc::new(small)));
        }
        self.forget(answer.slot);
        self.kept += large(&block);
        self.seen[usize::from(answer.slot)].answered = Some((answer, block));
        if self.kept > MOST_KEPT { Err(Broken) } else { Ok(()) }
    }

    fn forget(&mut self, slot: u16) {
        if let Some((_, block)) = self.seen[usize::from(slot)].answered.take() {
            self.kept -= large(&block);
            self.spare.get_or_insert(block);
        }
    }

    /// An answer has come: nobody asks for it again.
    pub fn received(&mut self, slot: u16, generation: u32) -> Result<(), Broken> {
        let seen = self.seen.get(usize::from(slot)).ok_or(Broken)?;
        if seen.generation == generation {
            self.forget(slot);
        }
        Ok(())
    }

    /// Says whether more comes.
    pub fn notice(&mut self, notice: Notice) -> Result<bool, Broken> {
        match notice {
            Notice::Received { slot, generation } => self.received(slot, generation).map(|()| true),
            Notice::End => Ok(false),
        }
    }
}

/// Bytes of a block that count.
fn large(block: &Block) -> usize {
    if block.capacity() > LARGE { block.capacity() } else { 0 }
}

/// Bytes that follow an answer's entries.
pub fn body_of(answer: &Answer) -> usize {
    if crate::ends::has_bytes(answer.status) { answer.length as usize } else { 0 }
}

/// All sessions of a server.
#[derive(Default)]
pub struct Sessions {
    all: Mutex<HashMap<SessionId, Known>>,
}

struct Known {
    session: Arc<Mutex<Session>>,
    client: u64,
    patience: Duration,
    /// The connection that has it, or since when none has.
    connection: Result<Weak<TcpStream>, Instant>,
    /// Counts connections.
    number: u64,
}

/// A client that comes back may wait so long for its last call to end.
const TAKE_OVER: Duration = Duration::from_secs(2);

impl Sessions {
    fn all(&self) -> MutexGuard<'_, HashMap<SessionId, Known>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn begin(
        &self,
        id: SessionId,
        session: Session,
        socket: &Arc<TcpStream>,
        patience: Duration,
    ) -> Held {
        let client = session.client();
        let session = Arc::new(Mutex::new(session));
        let connection = Ok(Arc::downgrade(socket));
        let known = Known { session: session.clone(), client, patience, connection, number: 0 };
        self.all().insert(id, known);
        Held { id, session, number: 0 }
    }

    /// A client comes back. The connection that it had is ended; `None`: no such session.
    pub fn take_over(&self, id: SessionId, socket: &Arc<TcpStream>) -> Option<Held> {
        let mut all = self.all();
        let known = all.get_mut(&id)?;
        if let Ok(before) = std::mem::replace(&mut known.connection, Ok(Arc::downgrade(socket)))
            && let Some(before) = before.upgrade()
        {
            let _ = before.shutdown(Shutdown::Both);
        }
        known.number += 1;
        Some(Held { id, session: known.session.clone(), number: known.number })
    }

    /// A connection ends. Its session waits for its client unless it is over.
    pub fn leave(&self, held: &Held, over: bool, methods: &Methods) {
        let mut all = self.all();
        let Some(known) = all.get_mut(&held.id).filter(|known| known.number == held.number) else { return };
        known.connection = Err(Instant::now());
        if over {
            let client = known.client;
            all.remove(&held.id);
            drop(all);
            methods.tell_gone(client);
        }
    }

    /// Forgets whom nobody came back for.
    pub fn expire(&self, methods: &Methods) {
        let mut gone = Vec::new();
        self.all().retain(|_, known| {
            let over = known.connection.as_ref().is_err_and(|since| since.elapsed() > known.patience)
                && !matches!(known.session.try_lock(), Err(TryLockError::WouldBlock));
            gone.extend(over.then_some(known.client));
            !over
        });
        gone.into_iter().for_each(|client| methods.tell_gone(client));
    }

    /// Whether somebody is waited for.
    pub fn any_waits(&self) -> bool {
        self.all().values().any(|known| known.connection.is_err())
    }

    /// The server ends; no call runs.
    pub fn end(&self, methods: &Methods) {
        let all = std::mem::take(&mut *self.all());
        all.into_values().for_each(|known| methods.tell_gone(known.client));
    }
}

/// A session, as a connection has it.
pub struct Held {
    id: SessionId,
    session: Arc<Mutex<Session>>,
    number: u64,
}

impl Held {
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Waits until the connection before has left it. `None`: its last call takes too long.
    pub fn enter(&self) -> Option<MutexGuard<'_, Session>> {
        let deadline = Instant::now() + TAKE_OVER;
        loop {
            match self.session.try_lock() {
                Ok(session) => return Some(session),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(TryLockError::WouldBlock) => return None,
            }
        }
    }
}
