//! The broker of `unrack sockets`, and the pool from which it takes memory.

use crate::failure::{CommandFailure, say};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use unrack_pool::{Client, Manager, Options, socket};
use unrack_socket::broker::{Broker, BrokerCounts, Error, SharingHost};
use unrack_units::Bytes;

#[derive(clap::Args, Clone, Default)]
pub(super) struct BrokerSocket {
    /// Socket of the broker [default: unrack/sockets.sock in $XDG_RUNTIME_DIR]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Memory for all connections together: 10MiB each, of which connections touch little [default: half of the free memory]
    #[arg(long, value_name = "SIZE", conflicts_with = "pool")]
    capacity: Option<Bytes>,
    /// Take the memory from the pool that is served at this socket
    #[arg(long, value_name = "PATH")]
    pool: Option<PathBuf>,
}

/// A broker that serves in a thread of this process, or in another process.
pub(super) struct ServedBroker {
    pub(super) path: PathBuf,
    own: Option<OwnBroker>,
}

struct OwnBroker {
    counts: Arc<BrokerCounts>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    manager: Option<Manager>,
}

impl BrokerSocket {
    /// Returns the place of a broker at this socket.
    pub(super) fn at(socket: PathBuf) -> BrokerSocket {
        BrokerSocket { socket: Some(socket), ..BrokerSocket::default() }
    }

    fn path(&self) -> Result<PathBuf, CommandFailure> {
        let path = self.socket.clone().unwrap_or_else(unrack_socket::path);
        if self.socket.is_none() {
            let made = socket::make_folder(&path);
            made.map_err(|error| {
                CommandFailure::Lacking(format!("{error}; give --socket in a folder of yours"))
            })?;
        }
        Ok(std::path::absolute(&path).unwrap_or(path))
    }
}

impl ServedBroker {
    /// Starts a broker, unless one already serves at the socket. `hosts` are those that share memory although they have separate networks.
    pub(super) fn start(place: &BrokerSocket, hosts: &[SharingHost]) -> Result<ServedBroker, CommandFailure> {
        let path = place.path()?;
        if Broker::serves(&path) {
            return Ok(ServedBroker { path, own: None });
        }
        let (pool, manager) = pool(place, &path)?;
        let mut broker = Broker::listen(&path, pool).map_err(failure)?;
        broker.share(hosts).map_err(failure)?;
        let (counts, stop) = (broker.counts(), Arc::new(AtomicBool::new(false)));
        let thread = std::thread::spawn({
            let stop = stop.clone();
            move || broker.run(&stop)
        });
        Ok(ServedBroker { path, own: Some(OwnBroker { counts, stop, thread, manager }) })
    }

    /// Stops the broker if it runs in this process. Returns the number of carried connections, the number of refused connections, and the
    /// number of bytes passed.
    pub(super) fn stop(self) -> (u64, u64, u64) {
        let Some(own) = self.own else { return (0, 0, 0) };
        own.stop.store(true, Ordering::Release);
        // A broker that panicked has already printed the reason.
        let _ = own.thread.join();
        drop(own.manager);
        let count = |sum: &std::sync::atomic::AtomicU64| sum.load(Ordering::Relaxed);
        (count(&own.counts.carried), count(&own.counts.refused), count(&own.counts.bytes))
    }
}

fn pool(place: &BrokerSocket, path: &std::path::Path) -> Result<(Client, Option<Manager>), CommandFailure> {
    raise_descriptors()?;
    if let Some(pool) = &place.pool {
        return Ok((Client::connect_as(pool, "sockets")?, None));
    }
    // Only the part of a connection's area that its rings have used takes memory, which is usually a tenth.
    let capacity = place.capacity.unwrap_or_else(unrack_pool::manager::half_of_memory);
    let mut options = Options::new(path.with_extension("pool"), capacity);
    options.per_client = Some("100%".parse().expect("a share"));
    let manager = Manager::start(&options)?;
    let client = Client::connect_as(manager.socket(), "sockets")?;
    Ok((client, Some(manager)))
}

/// Minimum number of descriptors with which a broker serves: those of the broker, and those of a few connections.
const DESCRIPTORS: u64 = 32;

/// Raises the limit of open descriptors of this process to its maximum, because each connection needs descriptors.
fn raise_descriptors() -> Result<(), CommandFailure> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    if let Some(most) = limit.maximum.filter(|most| *most < DESCRIPTORS) {
        return Err(CommandFailure::Lacking(format!(
            "this process may have {most} descriptors open (RLIMIT_NOFILE), and carrying sockets takes {DESCRIPTORS}: raise \
             the limit (ulimit -n)"
        )));
    }
    let most = rustix::process::Rlimit { current: limit.maximum, ..limit };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, most);
    Ok(())
}

/// Runs `unrack sockets serve`.
pub(super) fn serve(place: &BrokerSocket) -> Result<ExitCode, CommandFailure> {
    let ends = EndSignals::block();
    let serving = ServedBroker::start(place, &[])?;
    if serving.own.is_none() {
        return Err(failure(Error::Taken(serving.path)));
    }
    say(&format!("listening at {}", serving.path.display()));
    ends.wait();
    serving.stop();
    Ok(ExitCode::SUCCESS)
}

/// Signals that end the broker. They are blocked in all threads, so that one thread can wait for them.
struct EndSignals(libc::sigset_t);

impl EndSignals {
    fn block() -> EndSignals {
        // SAFETY: the set is a local variable, which the C library initializes.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGINT);
            libc::sigaddset(&raw mut set, libc::SIGTERM);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            EndSignals(set)
        }
    }

    fn wait(&self) {
        let mut signal = 0;
        // SAFETY: the set belongs to `self`, and the number is a local variable.
        unsafe { libc::sigwait(&raw const self.0, &raw mut signal) };
    }
}

fn failure(error: Error) -> CommandFailure {
    match error {
        Error::Pool(error) => error.into(),
        Error::Taken(_) => CommandFailure::Usage(error.to_string()),
        Error::Rack(_) => CommandFailure::Lacking(error.to_string()),
        Error::Listen { .. } => {
            CommandFailure::Lacking(format!("{error}: give --socket in a folder that you may write to"))
        }
    }
}
