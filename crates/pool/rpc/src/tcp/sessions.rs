//! All sessions of a server: those that have a connection, and those that wait for their client to return.

use super::hello::SessionId;
use super::session::Session;
use crate::server::methods::Methods;
use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};
use unrack_keys::shares::ShareAccount;

/// Table of the sessions of a server.
#[derive(Default)]
pub(super) struct Sessions {
    all: Mutex<HashMap<SessionId, KnownSession>>,
}

struct KnownSession {
    session: Arc<Mutex<Session>>,
    client: u64,
    account: ShareAccount,
    patience: Duration,
    /// Current connection of the session, or the time when the last one ended.
    connection: Result<Weak<TcpStream>, Instant>,
    /// Number of earlier connections of the session.
    number: u64,
}

impl KnownSession {
    /// Returns whether the session has no connection and none of its calls is running.
    fn is_idle(&self) -> bool {
        self.connection.is_err() && !matches!(self.session.try_lock(), Err(TryLockError::WouldBlock))
    }
}

/// Longest time that a returning client waits until its last call has ended.
const TAKE_OVER: Duration = Duration::from_secs(2);

impl Sessions {
    fn all(&self) -> MutexGuard<'_, HashMap<SessionId, KnownSession>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a new session, which is held by its first connection.
    pub(super) fn begin(
        &self,
        id: SessionId,
        session: Session,
        socket: &Arc<TcpStream>,
        patience: Duration,
    ) -> HeldSession {
        let (client, account) = (session.client(), session.account().clone());
        let session = Arc::new(Mutex::new(session));
        let connection = Ok(Arc::downgrade(socket));
        let known =
            KnownSession { session: session.clone(), client, account, patience, connection, number: 0 };
        self.all().insert(id, known);
        HeldSession { id, session, number: 0 }
    }

    /// Gives a session to a client that returns, and ends the session's earlier connection. Returns `None` if there is
    /// no such session.
    pub(super) fn take_over(&self, id: SessionId, socket: &Arc<TcpStream>) -> Option<HeldSession> {
        let mut all = self.all();
        let known = all.get_mut(&id)?;
        if let Ok(before) = std::mem::replace(&mut known.connection, Ok(Arc::downgrade(socket)))
            && let Some(before) = before.upgrade()
        {
            let _ = before.shutdown(Shutdown::Both);
        }
        known.number += 1;
        Some(HeldSession { id, session: known.session.clone(), number: known.number })
    }

    /// Records that a connection has ended. Its session then waits for the client to return, unless `over` is true,
    /// which ends the session.
    pub(super) fn leave(&self, held: &HeldSession, over: bool, methods: &Methods) {
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

    /// Ends sessions whose client has not returned in time.
    pub(super) fn expire(&self, methods: &Methods) {
        let mut gone = Vec::new();
        self.all().retain(|_, known| {
            let over = known.connection.as_ref().is_err_and(|since| since.elapsed() > known.patience)
                && known.is_idle();
            gone.extend(over.then_some(known.client));
            !over
        });
        gone.into_iter().for_each(|client| methods.tell_gone(client));
    }

    /// Frees memory by ending the session that has waited longest for its client, of the given peer or of any peer.
    /// Returns false if no session is waiting.
    pub(super) fn end_oldest(&self, of: Option<&ShareAccount>, methods: &Methods) -> bool {
        let mut all = self.all();
        let fits =
            |known: &&KnownSession| known.is_idle() && of.is_none_or(|of| of.is_same_peer(&known.account));
        let waiting = all.iter().filter(|(_, known)| fits(known));
        let oldest = waiting.min_by_key(|(_, known)| known.connection.as_ref().err().copied());
        let Some(id) = oldest.map(|(id, _)| *id) else { return false };
        let ended = all.remove(&id);
        drop(all);
        ended.iter().for_each(|known| methods.tell_gone(known.client));
        true
    }

    /// Returns whether any session waits for its client.
    pub(super) fn any_waits(&self) -> bool {
        self.all().values().any(|known| known.connection.is_err())
    }

    /// Ends all sessions, because the server ends. No call may be running.
    pub(super) fn end(&self, methods: &Methods) {
        let all = std::mem::take(&mut *self.all());
        all.into_values().for_each(|known| methods.tell_gone(known.client));
    }
}

/// A session that a connection holds.
pub(super) struct HeldSession {
    id: SessionId,
    session: Arc<Mutex<Session>>,
    number: u64,
}

impl HeldSession {
    /// Returns the session's identifier.
    pub(super) fn id(&self) -> SessionId {
        self.id
    }

    /// Waits until the earlier connection has released the session. Returns `None` if the session's last call takes too
    /// long.
    pub(super) fn enter(&self) -> Option<MutexGuard<'_, Session>> {
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
