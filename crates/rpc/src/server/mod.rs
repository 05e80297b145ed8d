//! The side that is called.
//!
//! | module | idea |
//! |---|---|
//! | [`methods`] | what can be called, by number |
//! | [`call`] | what a handler sees of a call |
//! | [`desk`] | who calls, and its streams: what running a call needs |
//! | [`port`] | one client: its queues, what it granted, its streams |
//! | [`lane`] | a thread that serves ports, and sleeps when there is nothing to do |
//! | [`workers`] | threads for handlers that take long |

mod call;
mod desk;
mod lane;
pub(crate) mod methods;
mod port;
mod workers;

pub(crate) use call::Outcome;
pub use call::{Call, Kept, NoRoom, Refusal};
pub(crate) use desk::Desk;
pub use methods::{Answered, Source};

use crate::ends::Layout;
use crate::error::Error;
use crate::greeting::{Greeting, VERSION};
use crate::tcp::{self, listen::Listening};
use crate::wait::Waiting;
use lane::Lanes;
use methods::Methods;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;
use unrack_pool::wire::Access;
use unrack_pool::{Arena, BELLS, Offer, Service};

/// Refusals that this crate gives to a client that wants to connect.
pub(crate) const WRONG_VERSION: u32 = 1;
const NOT_RPC: u32 = 2;

/// How a server serves.
#[derive(Debug, Clone)]
pub struct Options {
    /// What waiting for calls is to be good at.
    pub waiting: Waiting,
    /// Threads that look for calls. A client belongs to one of them.
    pub lanes: usize,
    /// Threads that run handlers; 0: whoever finds a call runs it to its end (HydraRPC §5.1).
    pub workers: usize,
    /// Where to take clients that share no memory, as `tcp://host:port`; port 0 is a free one. Each such client has a
    /// thread, which runs its calls, whatever lanes and workers there are. Beyond loopback, callers prove a key that is
    /// trusted here ([`tcp::Scheme`]).
    pub listen: Option<String>,
    /// What is held for such clients.
    pub limits: tcp::Limits,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            waiting: Waiting::Adaptive,
            lanes: 1,
            workers: 0,
            listen: None,
            limits: tcp::Limits::default(),
        }
    }
}

/// A service before it serves: its methods.
pub struct Server {
    name: String,
    methods: Methods,
    options: Options,
    lent: Option<Arena>,
}

impl Server {
    pub fn new(name: impl Into<String>, options: Options) -> Server {
        Server { name: name.into(), methods: Methods::default(), options, lent: None }
    }

    /// A method that is answered at once. The handler reads the request and writes the answer in the same buffer.
    #[must_use]
    pub fn method(
        mut self,
        name: &str,
        handler: impl Fn(&mut Call<'_>) -> Answered + Send + Sync + 'static,
    ) -> Self {
        self.methods.add(name, methods::Handler::Plain(Box::new(handler)));
        self
    }

    /// A method that answers in parts. It looks at the request, and gives what writes the parts, one when it is
    /// asked. Parts are written by the thread that found the call, whatever workers there are.
    #[must_use]
    pub fn stream(
        mut self,
        name: &str,
        handler: impl Fn(&mut Call<'_>) -> Result<Source, Refusal> + Send + Sync + 'static,
    ) -> Self {
        self.methods.add(name, methods::Handler::Stream(Box::new(handler)));
        self
    }

    /// Lets all clients read an arena's buffers where they lie: an answer names one by its offset, and a client finds it
    /// with [`Client::lent`](crate::Client::lent). Who may read what is up to the service: a client can read all of it.
    #[must_use]
    pub fn lend(mut self, arena: &Arena) -> Self {
        self.lent = Some(arena.clone());
        self
    }

    /// What to do when a client ([`Call::client`]) has gone, however it ended, and none of its calls runs.
    #[must_use]
    pub fn when_gone(mut self, gone: impl Fn(u64) + Send + Sync + 'static) -> Self {
        self.methods.when_gone(Box::new(gone));
        self
    }

    /// Registers with the pool at a socket, or only listens if this is a `tcp://host:port`, and serves until what it returns is dropped.
    ///
    /// # Errors
    /// If there is no pool, the name is taken, or two methods have one number.
    pub fn serve(self, pool: impl AsRef<Path>) -> Result<Serving, Error> {
        let place = pool.as_ref();
        if tcp::address(place).is_some() {
            let listen = Some(place.to_string_lossy().into_owned());
            return Server { options: Options { listen, ..self.options }, ..self }.start(None);
        }
        self.serve_on(&unrack_pool::Client::connect(place)?)
    }

    /// As [`serve`](Server::serve), over a connection to the pool that is there already.
    ///
    /// # Errors
    /// As [`serve`](Server::serve).
    pub fn serve_on(self, pool: &unrack_pool::Client) -> Result<Serving, Error> {
        self.start(Some(pool))
    }

    fn start(self, pool: Option<&unrack_pool::Client>) -> Result<Serving, Error> {
        let methods = Arc::new(self.methods.finish()?);
        let listening = match &self.options.listen {
            Some(listen) => {
                Some(Listening::start(tcp_address(listen)?, &self.name, &methods, self.options.limits)?)
            }
            None => None,
        };
        let (name, options, lent) = (self.name, self.options, self.lent);
        let pooled = pool.map(|pool| Pooled::start(pool, &name, &methods, &options, lent)).transpose()?;
        Ok(Serving { name, pooled, listening })
    }
}

/// An address of TCP, or why it is none.
fn tcp_address(listen: &str) -> Result<&str, Error> {
    tcp::address(listen.as_ref()).ok_or_else(|| Error::Listen {
        address: listen.into(),
        error: std::io::Error::new(std::io::ErrorKind::InvalidInput, "write tcp://host:port"),
    })
}

/// What serves clients of a pool.
struct Pooled {
    lanes: Arc<Lanes>,
    service: Weak<Service>,
    acceptor: Option<std::thread::JoinHandle<()>>,
}

impl Pooled {
    fn start(
        pool: &unrack_pool::Client,
        name: &str,
        methods: &Arc<Methods>,
        options: &Options,
        lent: Option<Arena>,
    ) -> Result<Pooled, Error> {
        let service = Arc::new(pool.register(name)?);
        let known = Arc::downgrade(&service);
        let lanes = Lanes::start(pool, methods, options)?;
        let acceptor = std::thread::Builder::new().name("unrack-accept".into()).spawn({
            let lanes = lanes.clone();
            move || accept(&service, &lanes, lent.as_ref())
        })?;
        Ok(Pooled { lanes, service: known, acceptor: Some(acceptor) })
    }

    fn join(&mut self) {
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        if let Some(service) = self.service.upgrade() {
            service.close();
        }
        self.join();
        self.lanes.stop();
    }
}

/// A service that serves. It ends, with all its connections, when this is dropped.
pub struct Serving {
    name: String,
    pooled: Option<Pooled>,
    listening: Option<Listening>,
}

impl Serving {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it listens, if it does.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listening.as_ref().map(Listening::address)
    }

    /// Waits until the manager of the pool is gone; for ever, if it serves by TCP only.
    pub fn wait(mut self) {
        match (&mut self.pooled, &mut self.listening) {
            (Some(pooled), _) => pooled.join(),
            (None, Some(listening)) => listening.wait(),
            (None, None) => {}
        }
    }
}

/// Until the service is closed, or the manager gone.
fn accept(service: &Service, lanes: &Lanes, lent: Option<&Arena>) {
    while let Ok(Some(offer)) = service.accept(Duration::MAX) {
        admit(offer, lanes, lent);
    }
}

/// Takes a client that speaks the same version, and tells others why not.
fn admit(mut offer: Offer, lanes: &Lanes, lent: Option<&Arena>) {
    let theirs = Greeting::from_bytes(&offer.greeting().bytes);
    match theirs {
        None => return offer.refuse(NOT_RPC, "it does not speak this protocol"),
        Some(theirs) if theirs.version != VERSION => {
            return offer.refuse(WRONG_VERSION, &VERSION.to_string());
        }
        Some(_) => {}
    }
    let lane = lanes.next();
    let Some(layout) = Layout::fitting(lanes.queue_bytes()) else {
        return offer.refuse(NOT_RPC, "the pool's queue areas are too small");
    };
    let hello = Greeting::new(layout.lines()).to_bytes();
    // A client that is gone already is nobody's loss.
    let Ok(channel) = offer.accept(&hello, lane.bell(), &[]) else { return };
    // Before its first call is answered, which may name what is lent.
    if lent.is_none_or(|arena| arena.share_with(&channel, Access::Read).is_ok()) {
        lane.adopt(channel, layout);
    }
}

/// Lanes have a bell each.
const MOST_LANES: usize = BELLS;
