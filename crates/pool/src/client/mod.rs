//! A process's connection to the manager.
//!
//! A thread of its own reads what the manager tells, maps what was granted and notes who is gone, so that the
//! rest of the program meets the manager only to lease, to grant, and to open channels.
//!
//! | module | idea |
//! |---|---|
//! | [`connect`] | how it is reached |
//! | [`link`] | requests and their replies; the thread that reads |
//! | [`channel`] | a pair of processes: queue area, bells, granted segments, the news that a peer is gone |
//! | [`start`] | a manager that is started when somebody needs it |
//! | [`service`] | a name, and those who ask for it |

mod channel;
mod connect;
mod link;
mod service;
mod start;

pub use channel::Channel;
pub(crate) use channel::Grantee;
pub use service::{Offer, Service};

use crate::bells::{Bell, Bells};
use crate::cache_control::AnyMemory;
use crate::space::Space;
use crate::wire::{self, ClientId, Denied, Extent, Listed, MOST_PASSED, Reply, Request, Welcome};
use connect::Connecting;
use link::{Link, Replied};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long the manager may take for what depends on nobody else.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why something did not work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no manager serves the pool at {}: start one with `unrack pool serve --socket {}`", .0.display(), .0.display())]
    NoManager(PathBuf),
    #[error("cannot connect to the pool at {}: {error}", path.display())]
    Connect { path: PathBuf, error: std::io::Error },
    #[error("what listens at {} does not speak the pool's protocol", .0.display())]
    NotAPool(PathBuf),
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error("the manager of the pool is gone, and no other has taken over")]
    ManagerGone,
    #[error("this program is the service {0:?} already")]
    Registered(String),
    #[error("cannot start a manager of the pool, `{program} pool serve`: {error}")]
    Start { program: String, error: std::io::Error },
    #[error("cannot send to the manager of the pool: {0}")]
    Send(std::io::Error),
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    #[error("cannot map the pool's memory: {0}")]
    Map(std::io::Error),
    #[error("at most {MOST_PASSED} descriptors can be passed beside a greeting")]
    Descriptors,
}

/// A connection to the manager. All that came by it is gone when it is dropped: segments, services, channels.
/// Clones share it.
///
/// It is one process's: a child by `fork` must connect for itself, and leave alone what it has from its parent.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

/// Says how many bytes of an arena's buffers are taken. Asked by the thread that reads what the manager says, it must
/// not keep anything alive that asks the manager when it is dropped.
pub(crate) trait Counter: Send + Sync {
    fn used_bytes(&self) -> u64;
}

/// What channels, services and arenas keep alive.
pub(crate) struct Inner {
    link: Arc<Link>,
    reader: std::sync::Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Client {
    /// Connects to the manager at a socket, under the name of this program.
    ///
    /// # Errors
    /// If no manager is there, it refuses, or the machine has no room for the address space.
    pub fn connect(path: impl AsRef<Path>) -> Result<Client, Error> {
        let program = std::env::args_os().next().unwrap_or_default();
        let name = Path::new(&program).file_name().unwrap_or_default().to_string_lossy();
        let name: String = name.chars().filter(|c| !c.is_control()).take(wire::MOST_NAME / 4).collect();
        Client::connect_as(path, if name.trim().is_empty() { "program" } else { name.trim() })
    }

    /// Connects under a name, which people see who look at the pool.
    ///
    /// # Errors
    /// As [`connect`](Client::connect).
    pub fn connect_as(path: impl AsRef<Path>, name: &str) -> Result<Client, Error> {
        let bells = Bells::make().map_err(|error| Error::Map(error.into()))?;
        let connecting = Connecting { path: path.as_ref().into(), name: name.into(), bells };
        let socket = connect::connect(&connecting.path)?;
        let (welcome, devices) = connect::greet(&socket, &connecting.path, name, None, &connecting.bells)?;
        let mut space = Space::reserve(welcome.space_bytes, welcome.mode).map_err(Error::Map)?;
        if let Some(set) = welcome.devices {
            let devices: Vec<BorrowedFd> = devices.iter().map(|device| device.as_fd()).collect();
            space.map_devices(&devices, set).map_err(Error::Map)?;
        }
        let link = Arc::new(Link::new(connecting, welcome, socket, space));
        let reader = std::thread::Builder::new().name("unrack-pool".into()).spawn({
            let link = link.clone();
            move || link.read()
        });
        let reader = std::sync::Mutex::new(Some(reader.map_err(Error::Map)?));
        Ok(Client { inner: Arc::new(Inner { link, reader }) })
    }

    pub fn id(&self) -> ClientId {
        self.inner.link.welcome().you
    }

    /// What the manager said of the pool.
    pub fn pool(&self) -> &Welcome {
        self.inner.link.welcome()
    }

    /// How this pool's memory is reached.
    pub fn memory(&self) -> &AnyMemory {
        self.inner.link.space().memory()
    }

    /// A bell of this process, to sleep on. Peers of a channel ring the one that was named when it was opened, or
    /// accepted; so does the news that a peer is gone.
    ///
    /// # Panics
    /// If there are not that many ([`BELLS`](crate::BELLS)).
    pub fn bell(&self, bell: usize) -> &Bell {
        self.inner.link.bells().get(bell)
    }

    /// Takes a name.
    ///
    /// # Errors
    /// If it is taken, or none.
    pub fn register(&self, service: &str) -> Result<Service, Error> {
        Service::register(self.inner.clone(), service)
    }

    /// Asks a service for a channel, and waits for its answer until the time is over. The service gets the greeting
    /// and the descriptors; `own_bell` is the one that it is to ring. With the channel comes what the service answered.
    ///
    /// # Errors
    /// If there is no such service, it refuses, it ends meanwhile, or does not answer in time.
    pub fn open(
        &self,
        service: &str,
        greeting: &[u8],
        own_bell: usize,
        passed: &[BorrowedFd<'_>],
        patience: Duration,
    ) -> Result<(Channel, Greeting), Error> {
        if passed.len() > MOST_PASSED {
            return Err(Error::Descriptors);
        }
        let (service, greeting) = (service.to_string(), greeting.to_vec());
        let request = Request::Open { service, greeting, bell: own_bell as u32 };
        match self.inner.link.ask(&request, passed, patience)? {
            Replied::Opened(link, greeting) => {
                link.set_own_bell(own_bell);
                Ok((Channel::new(self.inner.clone(), link), greeting))
            }
            _ => Err(Error::ManagerGone),
        }
    }

    /// An arena of buffers, with no section yet.
    pub fn arena(&self) -> crate::Arena {
        crate::Arena::new(self)
    }

    /// Asks all processes how much of what they hold is used. They answer soon; [`list`](Client::list) then says it.
    ///
    /// # Errors
    /// If the manager is gone.
    pub fn count(&self) -> Result<(), Error> {
        self.inner.ask(Request::Count).map(drop)
    }

    /// Somebody knows how many bytes are used, for as long as it is there.
    pub(crate) fn add_counter(&self, counter: std::sync::Weak<dyn Counter>) {
        self.inner.link.add_counter(counter);
    }

    pub(crate) fn space(&self) -> &Space {
        self.inner.link.space()
    }

    /// What there is: pool, processes, services, channels, segments.
    ///
    /// # Errors
    /// If the manager is gone.
    pub fn list(&self) -> Result<Vec<Listed>, Error> {
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

    /// Leases a segment of whole sections: mapped, writable, this process's.
    ///
    /// # Errors
    /// If the pool or the machine is full.
    pub fn lease(&self, sections: u32) -> Result<Segment, Error> {
        match self.inner.link.ask(&Request::Lease { sections }, &[], PATIENCE)? {
            Replied::Leased(extent) => Ok(Segment { extent, client: self.inner.clone() }),
            _ => Err(Error::ManagerGone),
        }
    }
}

/// What one side says to the other when a channel is opened.
#[derive(Debug)]
pub struct Greeting {
    pub bytes: Vec<u8>,
    pub passed: Vec<OwnedFd>,
}

impl Inner {
    fn ask(&self, request: Request) -> Result<Reply, Error> {
        match self.link.ask(&request, &[], PATIENCE)? {
            Replied::Plain(reply) => Ok(reply),
            _ => Err(Error::ManagerGone),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.link.close();
        if let Some(reader) = self.reader.lock().expect("nobody panics with it").take() {
            let _ = reader.join();
        }
    }
}

/// A segment that this process leased. It goes back when it is dropped.
pub struct Segment {
    extent: Extent,
    client: Arc<Inner>,
}

impl Segment {
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Its first byte; all of it is readable and writable until it is dropped.
    pub fn base(&self) -> *mut u8 {
        self.client.link.space().pointer(self.extent.offset)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: who used it borrowed it, or says in its own contract that it does not any more.
        unsafe { self.client.link.remove_segment(self.extent) };
        self.client.link.give_up(Request::Release { offset: self.extent.offset });
    }
}
