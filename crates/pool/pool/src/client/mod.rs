//! Connection of a process to the manager.
//!
//! A thread reads the manager's messages, maps granted segments and records which peers are gone. Therefore the rest of
//! the program sends requests to the manager only to lease, to grant, and to open channels.
//!
//! | module | idea |
//! |---|---|
//! | [`connect`] | how a process connects |
//! | [`link`] | requests and their replies; the thread that reads the manager's messages |
//! | [`inner`] | the part of a connection that channels, services and segments keep alive |
//! | [`channel`] | one side of a channel: queue area, wakeups, granted segments, whether the peer is gone |
//! | [`channel_link`] | state of a channel that the reading thread changes |
//! | [`segment`] | a part of the pool that this process has leased |
//! | [`start`] | start of a manager on demand |
//! | [`service`] | a registered name; [`offers`]: the clients that ask it for channels |
//! | [`error`] | reasons why requests fail |

mod channel;
mod channel_link;
mod connect;
mod error;
mod inner;
mod link;
mod offers;
mod segment;
mod service;
mod start;

pub(crate) use channel::Grantee;
pub use channel::{Channel, Pin};
pub use channel_link::ChannelGreeting;
pub use error::Error;
pub(crate) use link::Counter;
pub use segment::Segment;
pub use service::{Offer, Service};

use crate::cache_control::AnyMemory;
use crate::process::Maker;
use crate::space::MappedSpace;
use crate::wakeups::{Wakeup, Wakeups};
use crate::wire::{self, ClientId, ListingEntry, MOST_PASSED, Reply, Request, Welcome};
use connect::{Connecting, PATIENCE};
use inner::ManagerConnection;
use link::{Link, Replied};
use rustix::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Connection to the manager. Dropping the last clone ends everything that was received by the connection: segments,
/// services and channels.
///
/// The connection belongs to one process: a child made by `fork` must make a new one. In the child, the inherited
/// connection refuses requests ([`Error::Forked`]), and dropping it does not affect the parent.
#[derive(Clone)]
pub struct Client {
    inner: Arc<ManagerConnection>,
}

impl Client {
    /// Connects to the manager at a socket. The name of this program becomes the name of the process in the pool.
    ///
    /// # Errors
    /// If no manager serves at the socket, the manager refuses the connection, or the machine has no room for the
    /// address space.
    pub fn connect(path: impl AsRef<Path>) -> Result<Client, Error> {
        Client::connect_as(path, &own_name())
    }

    /// Connects under a name, which is shown to people who list the pool.
    ///
    /// # Errors
    /// As [`connect`](Client::connect).
    pub fn connect_as(path: impl AsRef<Path>, name: &str) -> Result<Client, Error> {
        Client::connect_within(path, name, PATIENCE)
    }

    /// Connects as [`connect`](Client::connect) does, but gives the manager `patience` to answer.
    ///
    /// # Errors
    /// As [`connect`](Client::connect).
    pub fn connect_in_time(path: impl AsRef<Path>, patience: Duration) -> Result<Client, Error> {
        Client::connect_within(path, &own_name(), patience)
    }

    fn connect_within(path: impl AsRef<Path>, name: &str, patience: Duration) -> Result<Client, Error> {
        let wakeups = Wakeups::make().map_err(|error| Error::Map(error.into()))?;
        let connecting = Connecting { path: path.as_ref().into(), name: name.into(), wakeups };
        let limit = connect::ConnectLimit::new(patience);
        let socket = connect::connect(&connecting.path, limit)?;
        let (welcome, devices) = connect::greet(&socket, &connecting, None, limit)?;
        let mut space = MappedSpace::reserve(welcome.space_bytes, welcome.mode).map_err(Error::Map)?;
        if let Some(set) = welcome.devices {
            let devices: Vec<BorrowedFd> = devices.iter().map(|device| device.as_fd()).collect();
            space.map_devices(&devices, set).map_err(Error::Map)?;
        }
        let link = Arc::new(Link::new(connecting, welcome, socket, space));
        let reader = std::thread::Builder::new().name("unrack-pool".into()).spawn({
            let link = link.clone();
            move || link.read()
        });
        let reader = Mutex::new(Some(reader.map_err(Error::Map)?));
        Ok(Client { inner: Arc::new(ManagerConnection { link, reader }) })
    }

    /// Returns the process that connected.
    pub fn maker(&self) -> &Maker {
        self.inner.link.maker()
    }

    /// Returns the identity of this process in the pool.
    pub fn id(&self) -> ClientId {
        self.inner.link.welcome().you
    }

    /// Returns the manager's description of the pool.
    pub fn pool(&self) -> &Welcome {
        self.inner.link.welcome()
    }

    /// Returns the functions for access to this pool's memory.
    pub fn memory(&self) -> &AnyMemory {
        self.inner.link.space().memory()
    }

    /// Returns a wakeup of this process, on which a thread can sleep. The peer of a channel uses the wakeup that this
    /// process named when the channel was opened or accepted. The manager uses the same wakeup when the peer is gone.
    ///
    /// # Panics
    /// If the index is not below [`WAKEUPS`](crate::WAKEUPS).
    pub fn wakeup(&self, wakeup: usize) -> &Wakeup {
        self.inner.link.wakeups().get(wakeup)
    }

    /// Registers a service under a name.
    ///
    /// # Errors
    /// If the name is taken or invalid.
    pub fn register(&self, service: &str) -> Result<Service, Error> {
        Service::register(self.inner.clone(), service)
    }

    /// Asks a service for a channel, and waits until the service answers or the patience ends. The service receives the
    /// greeting and the descriptors, and will ring `own_wakeup`. Returns the channel and the service's greeting.
    ///
    /// # Errors
    /// If no such service exists, the service refuses or ends meanwhile, or it does not answer in time.
    pub fn open(
        &self,
        service: &str,
        greeting: &[u8],
        own_wakeup: usize,
        passed: &[BorrowedFd<'_>],
        patience: Duration,
    ) -> Result<(Channel, ChannelGreeting), Error> {
        if passed.len() > MOST_PASSED {
            return Err(Error::Descriptors);
        }
        let (service, greeting) = (service.to_string(), greeting.to_vec());
        let request = Request::Open { service, greeting, wakeup: own_wakeup as u32 };
        match self.inner.link.ask(&request, passed, patience)? {
            Replied::Opened(link, greeting) => {
                link.set_own_wakeup(own_wakeup);
                Ok((Channel::new(self.inner.clone(), link), greeting))
            }
            _ => Err(Error::ManagerGone),
        }
    }

    /// Makes the manager ask all processes how many bytes of their buffers are in use. The processes answer soon after
    /// this returns; [`list`](Client::list) then shows their answers.
    ///
    /// # Errors
    /// If the manager is gone.
    pub fn count(&self) -> Result<(), Error> {
        self.inner.ask(Request::Count).map(drop)
    }

    /// Registers a counter of bytes in use, until the counter is dropped.
    pub(crate) fn add_counter(&self, counter: std::sync::Weak<dyn Counter>) {
        self.inner.link.add_counter(counter);
    }

    pub(crate) fn space(&self) -> &MappedSpace {
        self.inner.link.space()
    }

    /// Lists the contents of the pool: processes, services, channels, segments.
    ///
    /// # Errors
    /// If the manager is gone.
    pub fn list(&self) -> Result<Vec<ListingEntry>, Error> {
        let (mut all, mut from) = (Vec::new(), 0);
        loop {
            match self.inner.ask(Request::List { from })? {
                Reply::Listed { entries, next } => {
                    all.extend(entries);
                    match next {
                        Some(next) => from = next,
                        None => return Ok(all),
                    }
                }
                _ => return Err(Error::ManagerGone),
            }
        }
    }

    /// Declares that a host has ended, so that its sections become free. Only a fencing agent may call this, because it
    /// must be certain that the host can no longer reach the devices. With `force`, the host is declared ended even if
    /// its heartbeat still moves.
    ///
    /// # Errors
    /// If the host does not exist, is this host, or has a heartbeat that moves.
    pub fn declare_ended(&self, host: u32, force: bool) -> Result<(), Error> {
        self.inner.ask(Request::DeclareEnded { host, force }).map(drop)
    }

    /// Leases a segment of whole sections, which is mapped and writable.
    ///
    /// # Errors
    /// If the pool or the machine has no memory left.
    pub fn lease(&self, sections: u32) -> Result<Segment, Error> {
        match self.inner.link.ask(&Request::Lease { sections }, &[], PATIENCE)? {
            Replied::Leased(extent) => Ok(Segment::new(self.inner.clone(), extent)),
            _ => Err(Error::ManagerGone),
        }
    }
}

/// Returns the name of this program, shortened and without control characters.
fn own_name() -> String {
    let program = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&program).file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().filter(|c| !c.is_control()).take(wire::MOST_NAME / 4).collect();
    if name.trim().is_empty() { "program".into() } else { name.trim().into() }
}
