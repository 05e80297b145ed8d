//! Choice of the connection that is closed to make room when a server has too many.
//!
//! The server considers these candidates in order, and closes the first that exists:
//!
//! 1. If one peer has more connections than the peer of the new connection would have: of that peer, a connection that
//!    has not sent its hello, or else the connection that was idle longest.
//! 2. Of any peer, a connection that has not sent its hello within [`GREETING`].
//! 3. Of any peer, the connection that was idle longest, if that is at least [`IDLE`].
//!
//! The server never closes a connection that runs a call. The client of a closed connection reconnects by itself and
//! continues its session.

use super::hello::Backlog;
use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use unrack_keys::shares::Peer;

/// Time without a hello after which a new connection may be closed to make room.
const GREETING: Duration = Duration::from_secs(1);
/// Time without a call after which a client's connection may be closed to make room. With 256 connections, this limits
/// the clients that are closed and reconnect for this reason to 26 per second.
const IDLE: Duration = Duration::from_secs(10);

/// Activity of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum ConnectionActivity {
    Greeting = 0,
    Waiting = 1,
    Calling = 2,
}

/// All connections of a server.
#[derive(Debug)]
pub(super) struct ConnectionTable {
    most: usize,
    began: Instant,
    all: Mutex<BTreeMap<u64, Connection>>,
}

#[derive(Debug)]
struct Connection {
    peer: Peer,
    socket: Weak<TcpStream>,
    activity: Arc<Activity>,
}

/// Current activity of a connection, and the time when it began.
#[derive(Debug)]
struct Activity {
    doing: AtomicU8,
    since_ms: AtomicU64,
}

/// A connection that is counted. Dropping this value removes the connection from the count.
pub(super) struct CountedConnection {
    connections: Arc<ConnectionTable>,
    number: u64,
    activity: Arc<Activity>,
}

impl ConnectionTable {
    /// Makes a counter that admits at most `most` connections.
    pub(super) fn new(most: usize) -> Arc<ConnectionTable> {
        Arc::new(ConnectionTable { most, began: Instant::now(), all: Mutex::default() })
    }

    /// Counts a new connection. If there are too many, another connection is closed.
    ///
    /// # Errors
    /// If there are too many connections and none can be closed: returns the numbers of connections.
    pub(super) fn admit(
        self: &Arc<Self>,
        peer: Peer,
        socket: &Arc<TcpStream>,
    ) -> Result<CountedConnection, Backlog> {
        let mut all = self.all();
        if all.len() >= self.most {
            let number = choose(&all, peer, self.now_ms()).ok_or_else(|| backlog(&all, peer))?;
            let chosen = all.remove(&number).and_then(|chosen| chosen.socket.upgrade());
            // The thread of the closed connection notices the shutdown and ends.
            if let Some(socket) = chosen {
                let _ = socket.shutdown(Shutdown::Both);
            }
        }
        let number = all.last_key_value().map_or(0, |(number, _)| number + 1);
        let activity =
            Arc::new(Activity { doing: AtomicU8::new(0), since_ms: AtomicU64::new(self.now_ms()) });
        let socket = Arc::downgrade(socket);
        all.insert(number, Connection { peer, socket, activity: activity.clone() });
        Ok(CountedConnection { connections: self.clone(), number, activity })
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Connection>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }
}

impl CountedConnection {
    /// Records what the connection does from now on.
    pub(super) fn now(&self, doing: ConnectionActivity) {
        self.activity.doing.store(doing as u8, Relaxed);
        self.activity.since_ms.store(self.connections.now_ms(), Relaxed);
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.connections.all().remove(&self.number);
    }
}

impl Connection {
    fn is(&self, doing: ConnectionActivity) -> bool {
        self.activity.doing.load(Relaxed) == doing as u8
    }

    fn since_ms(&self) -> u64 {
        self.activity.since_ms.load(Relaxed)
    }
}

/// Returns the number of the connection to close, to make room for one of `peer`; `None` if there is none.
fn choose(all: &BTreeMap<u64, Connection>, peer: Peer, now_ms: u64) -> Option<u64> {
    let counts = counts(all);
    let own = counts.get(&peer).copied().unwrap_or(0);
    let oldest = |doing: ConnectionActivity, of: Option<Peer>, least: Duration| {
        let fits = |connection: &Connection| {
            connection.is(doing)
                && of.is_none_or(|peer| peer == connection.peer)
                && now_ms.saturating_sub(connection.since_ms()) >= least.as_millis() as u64
        };
        let fitting = all.iter().filter(|(_, connection)| fits(connection));
        fitting.min_by_key(|(_, connection)| connection.since_ms()).map(|(number, _)| *number)
    };
    let greedy = counts.iter().max_by_key(|(_, count)| **count).filter(|(_, count)| **count > own + 1);
    let of_greedy = |doing| greedy.and_then(|(peer, _)| oldest(doing, Some(*peer), Duration::ZERO));
    of_greedy(ConnectionActivity::Greeting)
        .or_else(|| of_greedy(ConnectionActivity::Waiting))
        .or_else(|| oldest(ConnectionActivity::Greeting, None, GREETING))
        .or_else(|| oldest(ConnectionActivity::Waiting, None, IDLE))
}

fn counts(all: &BTreeMap<u64, Connection>) -> BTreeMap<Peer, usize> {
    let mut counts = BTreeMap::new();
    all.values().for_each(|connection| *counts.entry(connection.peer).or_insert(0) += 1);
    counts
}

fn backlog(all: &BTreeMap<u64, Connection>, peer: Peer) -> Backlog {
    let of_peer = counts(all).get(&peer).copied().unwrap_or(0) as u32;
    Backlog { connections: all.len() as u32, of_peer }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Peer = Peer::User(1);
    const TWO: Peer = Peer::User(2);

    /// Makes connections from their peer, their activity, and the time in ms when the activity began.
    fn all(of: &[(Peer, ConnectionActivity, u64)]) -> BTreeMap<u64, Connection> {
        let connection = |(peer, doing, since_ms): &(Peer, ConnectionActivity, u64)| Connection {
            peer: *peer,
            socket: Weak::new(),
            activity: Arc::new(Activity {
                doing: AtomicU8::new(*doing as u8),
                since_ms: AtomicU64::new(*since_ms),
            }),
        };
        (0..).zip(of.iter().map(connection)).collect()
    }

    #[test]
    fn who_has_most_makes_room_first() {
        use ConnectionActivity::*;
        let greedy = all(&[(ONE, Waiting, 50), (ONE, Calling, 0), (ONE, Waiting, 40), (TWO, Waiting, 0)]);
        assert_eq!(choose(&greedy, TWO, 60), Some(2), "the longest idle of the one that has more");
        assert_eq!(choose(&greedy, ONE, 60), None, "nobody has more than it would have, or is idle for long");
        assert_eq!(choose(&greedy, ONE, 10_000), Some(3), "idle for long");
        let strangers = all(&[(ONE, Waiting, 0), (ONE, Greeting, 50), (TWO, Greeting, 0), (TWO, Waiting, 0)]);
        assert_eq!(choose(&strangers, Peer::User(3), 60), Some(2), "before one that has greeted");
        assert_eq!(choose(&strangers, ONE, 999), None);
        assert_eq!(choose(&strangers, ONE, 1000), Some(2), "it has had its time to greet");
        let busy = all(&[(ONE, Calling, 0), (ONE, Calling, 0), (ONE, Calling, 0)]);
        assert_eq!(choose(&busy, TWO, 1_000_000), None, "a call that runs is not disturbed");
        assert_eq!(backlog(&busy, ONE), Backlog { connections: 3, of_peer: 3 });
    }
}
