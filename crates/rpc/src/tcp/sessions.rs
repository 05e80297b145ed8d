//! All sessions of a server: those that a connection has, and those that wait for their client.

use super::hello::SessionId;
use super::session::Session;
use crate::server::methods::Methods;
use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};
use unrack_keys::shares::Account;

#[derive(Default)]
pub struct Sessions {
    all: Mutex<HashMap<SessionId, Known>>,
}

struct Known {
    session: Arc<Mutex<Session>>,
    client: u64,
    account: Account,
    patience: Duration,
    /// The connection that has it, or since when none has.
    connection: Result<Weak<TcpStream>, Instant>,
    /// Counts connections.
    number: u64,
}

impl Known {
    /// True if no connection has it, and no call of it runs.
    fn is_idle(&self) -> bool {
        self.connection.is_err() && !matches!(self.session.try_lock(), Err(TryLockError::WouldBlock))
    }
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
        let (client, account) = (session.client(), session.account().clone());
        let session = Arc::new(Mutex::new(session));
        let connection = Ok(Arc::downgrade(socket));
        let known = Known { session: session.clone(), client, account, patience, connection, number: 0 };
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
                && known.is_idle();
            gone.extend(over.then_some(known.client));
            !over
        });
        gone.into_iter().for_each(|client| methods.tell_gone(client));
    }

    /// Ends the session that waits longest for its client, of one peer or of any: its memory is needed. `false`: none waits.
    pub fn end_oldest(&self, of: Option<&Account>, methods: &Methods) -> bool {
        let mut all = self.all();
        let fits = |known: &&Known| known.is_idle() && of.is_none_or(|of| of.is_same_peer(&known.account));
        let waiting = all.iter().filter(|(_, known)| fits(known));
        let oldest = waiting.min_by_key(|(_, known)| known.connection.as_ref().err().copied());
        let Some(id) = oldest.map(|(id, _)| *id) else { return false };
        let ended = all.remove(&id);
        drop(all);
        ended.iter().for_each(|known| methods.tell_gone(known.client));
        true
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
