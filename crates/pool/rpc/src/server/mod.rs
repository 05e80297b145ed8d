//! Server: the side that is called.
//!
//! | module | idea |
//! |---|---|
//! | [`methods`] | handlers of methods, by number |
//! | [`call`] | a call, as its handler sees it |
//! | [`desk`] | a client's identity and open streams, which form the context in which its calls run |
//! | [`port`] | one client: its queues, granted memory and streams |
//! | [`queue_thread`] | a thread that serves ports, and sleeps when no client has work for it |
//! | [`workers`] | threads for slow handlers |

mod call;
mod client_context;
pub(crate) mod methods;
mod port;
mod queue_thread;
mod workers;

pub use call::{AnswerTooLong, Call, CallRefusal, MappedCallMemory};
pub(crate) use client_context::ClientContext;
pub use methods::{Answered, PartSource};

use crate::ends::QueueLayout;
use crate::error::Error;
use crate::greeting::{RpcGreeting, VERSION};
use crate::tcp::{self, listen::Listening};
use crate::wait::WaitPolicy;
use methods::Methods;
use queue_thread::QueueThreads;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;
use unrack_pool::process::Maker;
use unrack_pool::wire::Access;
use unrack_pool::{Arena, Offer, Service, WAKEUPS};

/// Codes of refusals to clients that want to connect.
pub(crate) const WRONG_VERSION: u32 = 1;
const NOT_RPC: u32 = 2;

/// Configuration of a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// How the server waits for calls: by polling, by sleeping, or adaptively.
    pub waiting: WaitPolicy,
    /// Number of threads that poll for calls. Each client belongs to one of them.
    pub queue_threads: usize,
    /// Number of threads that run handlers. With 0, the thread that finds a call runs it to its end (HydraRPC §5.1).
    pub workers: usize,
    /// Address at which the server accepts clients that share no memory, as `tcp://host:port`. Port 0 selects a free
    /// one. Each such client has a thread that runs its calls, independent of queue threads and workers. Beyond loopback,
    /// clients must prove a key that the server trusts ([`tcp::Scheme`]).
    pub listen: Option<String>,
    /// Limits on the memory that the server holds for clients that share no memory.
    pub limits: tcp::PeerLimits,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            waiting: WaitPolicy::Adaptive,
            queue_threads: 1,
            workers: 0,
            listen: None,
            limits: tcp::PeerLimits::default(),
        }
    }
}

/// A service that does not serve yet: its name, methods and options.
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

    /// Adds a method that is answered at once. The handler reads the request from a buffer and writes the answer to the
    /// same buffer.
    #[must_use]
    pub fn method(
        mut self,
        name: &str,
        handler: impl Fn(&mut Call<'_>) -> Answered + Send + Sync + 'static,
    ) -> Self {
        self.methods.add(name, methods::Handler::Plain(Box::new(handler)));
        self
    }

    /// Adds a method that answers in parts. The handler reads the request and returns a [`PartSource`], which writes
    /// one part each time it is called. The thread that found the call writes the parts, even if there are workers.
    #[must_use]
    pub fn stream(
        mut self,
        name: &str,
        handler: impl Fn(&mut Call<'_>) -> Result<PartSource, CallRefusal> + Send + Sync + 'static,
    ) -> Self {
        self.methods.add(name, methods::Handler::Stream(Box::new(handler)));
        self
    }

    /// Lets all clients read the buffers of an arena in place. An answer contains the offset of a buffer, and the
    /// client finds the buffer with [`Client::lent`](crate::Client::lent). Note that every client can read the whole
    /// arena, so the service must not keep data there that a client must not see.
    #[must_use]
    pub fn lend(mut self, arena: &Arena) -> Self {
        self.lent = Some(arena.clone());
        self
    }

    /// Sets a callback that runs after a client ([`Call::client`]) has gone, for whatever reason, and none of its calls
    /// runs any more.
    #[must_use]
    pub fn when_gone(mut self, gone: impl Fn(u64) + Send + Sync + 'static) -> Self {
        self.methods.when_gone(Box::new(gone));
        self
    }

    /// Registers with the pool at a socket, or, if `pool` is a `tcp://host:port`, only listens there. Serves until the
    /// returned value is dropped.
    ///
    /// # Errors
    /// If there is no pool, if the name is taken, or if two methods have the same number.
    pub fn serve(self, pool: impl AsRef<Path>) -> Result<RunningService, Error> {
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
    /// As for [`serve`](Server::serve).
    pub fn serve_on(self, pool: &unrack_pool::Client) -> Result<RunningService, Error> {
        self.start(Some(pool))
    }

    fn start(self, pool: Option<&unrack_pool::Client>) -> Result<RunningService, Error> {
        let methods = Arc::new(self.methods.finish()?);
        let listening = match &self.options.listen {
            Some(listen) => {
                Some(Listening::start(tcp_address(listen)?, &self.name, &methods, self.options.limits)?)
            }
            None => None,
        };
        let (name, options, lent) = (self.name, self.options, self.lent);
        let pooled = pool.map(|pool| Pooled::start(pool, &name, &methods, &options, lent)).transpose()?;
        Ok(RunningService { name, pooled, listening })
    }
}

/// Returns the address of a `tcp://` name; fails if the name has another form.
fn tcp_address(listen: &str) -> Result<&str, Error> {
    tcp::address(listen.as_ref()).ok_or_else(|| Error::Listen {
        address: listen.into(),
        error: std::io::Error::new(std::io::ErrorKind::InvalidInput, "write tcp://host:port"),
    })
}

/// The threads that serve the clients of a pool.
struct Pooled {
    maker: Maker,
    queue_threads: Arc<QueueThreads>,
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
        let queue_threads = QueueThreads::start(pool, methods, options)?;
        let acceptor = std::thread::Builder::new().name("unrack-accept".into()).spawn({
            let queue_threads = queue_threads.clone();
            move || accept(&service, &queue_threads, lent.as_ref())
        })?;
        Ok(Pooled { maker: Maker::this_process(), queue_threads, service: known, acceptor: Some(acceptor) })
    }

    fn join(&mut self) {
        if !self.maker.is_here() {
            // The threads run in the parent process, which serves, so a child cannot join them.
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
        self.queue_threads.stop();
    }
}

/// A running service. Dropping it ends the service and all its connections. In a child process made by `fork`, however,
/// dropping it does nothing, because none of its threads runs there.
pub struct RunningService {
    name: String,
    pooled: Option<Pooled>,
    listening: Option<Listening>,
}

impl RunningService {
    /// Returns the service's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the address at which the service listens over TCP, if it does.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listening.as_ref().map(Listening::address)
    }

    /// Waits until the manager of the pool is gone. Waits for ever if the service uses only TCP.
    pub fn wait(mut self) {
        match (&mut self.pooled, &mut self.listening) {
            (Some(pooled), _) => pooled.join(),
            (None, Some(listening)) => listening.wait(),
            (None, None) => {}
        }
    }
}

/// Accepts clients until the service is closed or the manager is gone.
fn accept(service: &Service, queue_threads: &QueueThreads, lent: Option<&Arena>) {
    while let Ok(Some(offer)) = service.accept(Duration::MAX) {
        admit(offer, queue_threads, lent);
    }
}

/// Accepts a client that speaks the same version of the protocol, and refuses any other with a reason.
fn admit(mut offer: Offer, queue_threads: &QueueThreads, lent: Option<&Arena>) {
    let theirs = RpcGreeting::from_bytes(&offer.greeting().bytes);
    match theirs {
        None => return offer.refuse(NOT_RPC, "it does not speak this protocol"),
        Some(theirs) if theirs.version != VERSION => {
            return offer.refuse(WRONG_VERSION, &VERSION.to_string());
        }
        Some(_) => {}
    }
    let queue_thread = queue_threads.next();
    let Some(layout) = QueueLayout::fitting(queue_threads.queue_bytes()) else {
        return offer.refuse(NOT_RPC, "the pool's queue areas are too small");
    };
    let hello = RpcGreeting::new(layout.lines()).to_bytes();
    // If the client is already gone, it needs no answer.
    let Ok(channel) = offer.accept(&hello, queue_thread.wakeup(), &[]) else { return };
    // The arena is shared before the client's first call is answered, because the answer may refer to a lent buffer.
    if lent.is_none_or(|arena| arena.share_with(&channel, Access::Read).is_ok()) {
        queue_thread.adopt(channel, layout);
    }
}

/// Largest number of queue threads, because each queue thread needs a separate wakeup.
const MOST_QUEUE_THREADS: usize = WAKEUPS;
