//! Connection of a client: the state that its calls share.

use super::options::Options;
use super::reactor::Reactor;
use super::shared::SharedConnection;
use super::window::WindowLimit;
use crate::error::Error;
use crate::queue::entry::MOST_CONNECTIONS;
use std::path::Path;
use std::sync::Arc;

/// Connection to a service. Several connections may use the same queues.
pub(super) struct Connection {
    pub shared: Arc<SharedConnection>,
    pub reactor: Arc<Reactor>,
    /// Number by which the server identifies the connection.
    pub number: u16,
    pub window: WindowLimit,
}

impl Connection {
    /// Connects to a service of a pool or at a TCP address.
    pub(super) fn open(place: &Path, service: &str, options: Options) -> Result<Connection, Error> {
        let window = WindowLimit::new(options.window);
        let shared = Arc::new(SharedConnection::connect(place, service, options)?);
        let reactor = Arc::new(Reactor::new(&shared));
        Ok(Connection { shared, reactor, number: 0, window })
    }

    /// Returns another connection with this number, which uses the same queues but has a separate window.
    pub(super) fn with_number(&self, number: u16) -> Connection {
        Connection {
            shared: self.shared.clone(),
            reactor: self.reactor.clone(),
            number: number % MOST_CONNECTIONS,
            window: WindowLimit::new(self.shared.options().window),
        }
    }
}
