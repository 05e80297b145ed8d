//! Server: the side that is called.
//!
//! | module | idea |
//! |---|---|
//! | [`methods`] | handlers of methods, by number |
//! | [`call`] | a call, as its handler sees it |
//! | [`desk`] | a client's identity and open streams: the context in which its calls run |
//! | [`port`] | one client: its queues, granted memory and streams |
//! | [`lane`] | a thread that serves ports, and sleeps when there is nothing to do |
//! | [`workers`] | threads for slow handlers |

mod call;
mod desk;
mod lane;
pub(crate) mod methods;
mod port;
mod workers;

pub use call::{AnswerTooLong, Call, Kept, Refusal};
pub(crate) use desk::Desk;
pub use methods::{Answered, PartSource};

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
use unrack_pool::process::Maker;
use unrack_pool::wire::Access;
use unrack_pool::{Arena, BELLS, Offer, Service};

/// Codes with which a client that wants to connect is refused.
pub(crate) const WRONG_VERSION: u32 = 1;
const NOT_RPC: u32 = 2;

/// Configuration of a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Trade-off while waiting for calls.
    pub waiting: Waiting,
    /// Number of threads that look for calls. Each client belongs to one of them.
    pub lanes: usize,
    /// Number of threads that run handlers; 0: the thread that finds a call runs it to its end (HydraRPC §5.1).
    pub workers: usize,
    /// Address at which to accept clients that share no memory, as `tcp://host:port`; port 0 is a free one. Each
    /// such client has a thread, which runs its calls, whatever lanes and workers there are. Beyond loopback,
    /// callers prove a key that is trusted here ([`tcp::Scheme`]).
    pub listen: Option<String>,
    /// Limits on the memory held for such clients.
    pub limits: tcp::PeerLimits,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            waiting: Waiting::Adaptive,
            lanes: 1,
            workers: 0,
            listen: None,
            limits: tcp::PeerLimits::default(),
        }
    }
}

/// Service that does not serve yet: its methods.
pub struct Server {
    name: String,
    methods: Methods,
    options: Options,
    lent: Option<Arena>,
}

impl Server {
    /// Makes a service without methods.
    pub fn new(name: impl Into<String>, options: Options) -> Server {
        Server { name: name.into(), methods: Methods::default(), options, lent: None }
    }

    /// Adds a method that is answered at once. The handler reads the request and writes the answer in the same
    /// buffer.
    #[must_use]
    pub fn method(
        mut self,
        name: &str,
        handler: impl Fn(&mut Call<'_>) -> Answered + Send + Sync + 'static,
    ) -> Self {
        self.methods.add(name, methods::Handler::Plain(Box::new(handler)));
        self
    }

    /// Adds a method that answers in parts. The handler looks at the request, and returns a [`PartSource`] that
    /// writes one part each time it is called. The thread that found the call writes the parts, whatever workers
    /// there are.
    #[must_use]
    pub fn stream(
        mut self,
        name: &str,
        handler: impl Fn(&mut Call<'_>) -> Result<PartSource, Refusal> + Send + Sync + 'static,
    ) -> Self {
        self.methods.add(name, methods::Handler::Stream(Box::new(handler)));
        self
    }

    /// Lets all clients read an arena's buffers in place: an answer names one by its offset, and a client finds
    /// it with [`Client::lent`](crate::Client::lent). A client can read all of the arena; access control is up to
    /// the service.
    #[must_use]
    pub fn lend(mut self, arena: &Arena) -> Self {
        self.lent = Some(arena.clone());
        self
    }

    /// Sets what to do when a client ([`Call::client`]) has gone, however it ended, and none of its calls runs.
    #[must_use]
    pub fn when_gone(mut self, gone: impl Fn(u64) + Send + Sync + 'static) -> Self {
        self.methods.when_gone(Box::new(gone));
        self
    }

    /// Registers with the pool at a socket, or only listens if this is a `tcp://host:port`, and serves until the
    /// returned value is dropped.
    ///
    /// # Errors
    /// If there is no pool, the name is taken, or two methods have the same number.
    pub fn serve(self, pool: impl AsRef<Path>) -> Result<Serving, Error> {
        let place = pool.as_ref();
        if tcp::address(place).is_some() {
            let listen = Some(place.to_string_lossy().into_owned());
            return Server { options: Options { listen, ..self.options }, ..self }.start(None);
        }
        self.serve_on(&unrack_pool::Client::connect(place)?)
    }

    /// Serves as [`serve`](Server::serve) does, over an existing connection to the pool.
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

/// Returns the address of a `tcp://` name, or an error if it has another form.
fn tcp_address(listen: &str) -> Result<&str, Error> {
    tcp::address(listen.as_ref()).ok_or_else(|| Error::Listen {
        address: listen.into(),
        error: std::io::Error::new(std::io::ErrorKind::InvalidInput, "write tcp://host:port"),
    })
}

/// Threads that serve the clients of a pool.
struct Pooled {
    maker: Maker,
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
        Ok(Pooled { maker: Maker::this_process(), lanes, service: known, acceptor: Some(acceptor) })
    }

    fn join(&mut self) {
        if !self.maker.is_here() {
            // The threads are the parent's, who serves.
            return std::mem::forget(self.acceptor.take());
        }
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        if !self.maker.is_here() {
            return self.join();
        }
        if let Some(service) = self.service.upgrade() {
            service.close();
        }
        self.join();
        self.lanes.stop();
    }
}

/// A running service. Dropping it ends the service with all its connections, but in a child made by `fork`, where nothing of it
/// runs.
pub struct Serving {
    name: String,
    pooled: Option<Pooled>,
    listening: Option<Listening>,
}

impl Serving {
    /// Returns the service's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the address at which it listens, if it does.
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

/// Accepts clients until the service is closed, or the manager gone.
fn accept(service: &Service, lanes: &Lanes, lent: Option<&Arena>) {
    while let Ok(Some(offer)) = service.accept(Duration::MAX) {
        admit(offer, lanes, lent);
    }
}

/// Accepts a client that speaks the same version, and tells others why not.
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
    // A client that is gone already needs no answer.
    let Ok(channel) = offer.accept(&hello, lane.bell(), &[]) else { return };
    // Done before its first call is answered, which may name what is lent.
    if lent.is_none_or(|arena| arena.share_with(&channel, Access::Read).is_ok()) {
        lane.adopt(channel, layout);
    }
}

/// Most lanes: each has a bell of its own.
const MOST_LANES: usize = BELLS;
