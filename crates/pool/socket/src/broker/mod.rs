//! The broker: pairs the ends of connections, and gives each pair an area of the pool.
//!
//! No byte of a connection passes through the broker. A process attaches the socket itself to its request, and the broker reads the
//! connection's addresses from the kernel. When the broker ends, connections that have an area keep it, and all others stay with the
//! kernel.


mod pairs;
mod shared;
mod wakeups;

pub use shared::SharingHost;

use crate::area::{AREA_BYTES, FROZEN, Head, MAGIC, RING_BYTES, UNSET, VERSION};
use crate::kernel;
use crate::wire::{BYTES, Connection, Reply, Request};
use pairs::{BrokerAnswer, EndName, NameScope, ConnectionPairs, SeenName};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::SealFlags;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use shared::SharedHosts;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use unrack_pool::{Client, SECTION, Segment};
use wakeups::BrokerWakeups;

/// Time between two searches for connections that are over.
const SWEEP: Duration = Duration::from_millis(500);
/// Maximum bytes per nanosecond that can pass through an area in one direction. No memory is faster than this.
const BYTES_A_NANOSECOND: u64 = 100;
/// Maximum number of connections to the broker that have not sent their request. To accept a further one, the broker closes the oldest.
const MOST_PENDING: usize = 256;

/// Reason why a broker cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen at {}: {error}", path.display())]
    Listen { path: PathBuf, error: io::Error },
    #[error("a broker of sockets serves at {} already: use it, or give another --socket", .0.display())]
    Taken(PathBuf),
    #[error("cannot look up the networks of a rack's hosts: {0}")]
    Rack(io::Error),
    #[error(transparent)]
    Pool(#[from] unrack_pool::Error),
}

/// Totals of a broker.
#[derive(Debug, Default)]
pub struct BrokerCounts {
    /// Number of connections that were given an area.
    pub carried: AtomicU64,
    /// Number of connections that were refused an area, because the pool was full.
    pub refused: AtomicU64,
    /// Bytes that passed through areas of connections that have ended.
    pub bytes: AtomicU64,
}

/// A broker. It serves in the thread that calls [`run`](Broker::run).
pub struct Broker {
    listener: OwnedFd,
    path: PathBuf,
    pool: Client,
    pairs: ConnectionPairs<LeasedArea>,
    wakeups: BrokerWakeups,
    shared: SharedHosts,
    /// Area that is prepared for the next pair.
    spare: Option<LeasedArea>,
    processes: BTreeMap<u32, OwnedFd>,
    pending: Vec<OwnedFd>,
    counts: Arc<BrokerCounts>,
    swept: Instant,
}

/// Area of a connection: its memory, which the broker has leased from the pool, and when it was leased.
struct LeasedArea(Segment, Instant);

impl LeasedArea {
    fn head(&self) -> &Head {
        // SAFETY: a section is mapped for as long as its lease, aligned to its size, and the header consists of atomic words.
        unsafe { &*self.0.base().cast::<Head>() }
    }

    /// Returns how many bytes have passed, according to the counters of the two ends. Returns zero if the counters are impossible, because
    /// an end must have written invalid values.
    fn bytes(&self) -> u64 {
        let most = (self.1.elapsed().as_nanos() as u64).saturating_mul(BYTES_A_NANOSECOND);
        let sums = self.head().directions.iter().map(|way| {
            let put = way.writer.tail.load(Ordering::Relaxed) & !FROZEN;
            let left = put.wrapping_sub(way.reader.head.load(Ordering::Relaxed));
            (put <= most && left <= RING_BYTES as u64).then_some(put)
        });
        sums.sum::<Option<u64>>().unwrap_or(0)
    }

    fn is_closed(&self) -> bool {
        self.head().ends.iter().all(|end| end.closed.load(Ordering::Acquire) != 0)
    }
}

impl Broker {
    /// Listens at a path, for programs of this user.
    ///
    /// # Errors
    /// Fails if a broker already serves at the path, or if the process cannot listen there.
    pub fn listen(path: &Path, pool: Client) -> Result<Broker, Error> {
        let cannot = |error: io::Error| Error::Listen { path: path.into(), error };
        let address = SocketAddrUnix::new(path).map_err(|error| cannot(error.into()))?;
        let listener = socket().map_err(|error| cannot(error.into()))?;
        if Broker::serves(path) {
            return Err(Error::Taken(path.into()));
        }
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(cannot(error)),
            _ => {}
        }
        net::bind(&listener, &address).map_err(|error| cannot(error.into()))?;
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .map_err(cannot)?;
        net::listen(&listener, 1024).map_err(|error| cannot(error.into()))?;
        Ok(Broker {
            listener,
            path: path.into(),
            pool,
            pairs: ConnectionPairs::new(),
            wakeups: BrokerWakeups::default(),
            shared: SharedHosts::default(),
            spare: None,
            processes: BTreeMap::new(),
            pending: Vec::new(),
            counts: Arc::new(BrokerCounts::default()),
            swept: Instant::now(),
        })
    }

    /// Allows connections between hosts of a rack, which have separate network namespaces, to be carried. Without this call, only
    /// connections within one namespace are carried.
    ///
    /// # Errors
    /// Fails if a namespace cannot be entered, which requires root.
    pub fn share(&mut self, hosts: &[SharingHost]) -> Result<(), Error> {
        self.shared = SharedHosts::new(hosts).map_err(Error::Rack)?;
        Ok(())
    }

    /// Returns whether a broker serves at a path.
    pub fn serves(path: &Path) -> bool {
        let Ok(address) = SocketAddrUnix::new(path) else { return false };
        socket().and_then(|probe| net::connect(&probe, &address)).is_ok()
    }

    /// Returns the totals of this broker.
    pub fn counts(&self) -> Arc<BrokerCounts> {
        self.counts.clone()
    }

    /// Serves until `stop` is set.
    pub fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Acquire) {
            self.turn();
        }
        self.sweep(true);
        self.spare = None;
        let _ = std::fs::remove_file(&self.path);
    }

    fn turn(&mut self) {
        let mut watched = vec![PollFd::new(&self.listener, PollFlags::IN)];
        watched.extend(self.pending.iter().map(|socket| PollFd::new(socket, PollFlags::IN)));
        let most = Timespec { tv_sec: 0, tv_nsec: SWEEP.as_nanos() as i64 / 5 };
        let _ = poll(&mut watched, Some(&most));
        let ready: Vec<bool> = watched.iter().map(|one| !one.revents().is_empty()).collect();
        drop(watched);
        let mut ready = ready.into_iter();
        let comes = ready.next() == Some(true);
        for socket in std::mem::take(&mut self.pending) {
            if ready.next() == Some(true) { self.answer(socket) } else { self.pending.push(socket) }
        }
        if comes {
            self.accept();
        }
        if self.swept.elapsed() >= SWEEP {
            self.sweep(false);
        }
    }

    fn accept(&mut self) {
        while let Ok(socket) = net::accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
        {
            if self.pending.len() >= MOST_PENDING {
                self.pending.remove(0);
            }
            self.pending.push(socket);
        }
    }

    /// Answers the request on a connection, if it is a valid request.
    fn answer(&mut self, socket: OwnedFd) {
        let Some((request, beside)) = receive(&socket) else { return };
        if request == Request::Hello {
            reply(&socket, Reply::Ready, None);
            return self.pending.push(socket);
        }
        let (socket, Some(beside)) = (&socket, beside) else { return };
        let Ok(asker) = net::sockopt::socket_peercred(socket) else { return };
        let process = asker.pid.as_raw_nonzero().get() as u32;
        if let Entry::Vacant(unknown) = self.processes.entry(process)
            && let Ok(watched) = rustix::process::pidfd_open(asker.pid, rustix::process::PidfdFlags::empty())
        {
            unknown.insert(watched);
        }
        match request {
            Request::Hello => {}
            Request::Area(asked) => self.pair(socket, asked, beside, process),
            Request::Name => match self.wakeups.name(beside, process) {
                Some(name) => reply(socket, Reply::Named(name), None),
                None => reply(socket, Reply::Never, None),
            },
            Request::Wakeup(name) => match self.wakeups.get(name) {
                Some(wakeup) => reply(socket, Reply::Wakeup, Some(wakeup)),
                None => reply(socket, Reply::Never, None),
            },
        }
    }

    /// Registers an end of a connection, and answers it depending on whether its other end has asked.
    fn pair(&mut self, socket: &OwnedFd, asked: Connection, end: OwnedFd, process: u32) {
        if asked.again {
            let cookie = kernel::wide_option(end.as_raw_fd(), libc::SOL_SOCKET, libc::SO_COOKIE);
            drop(end);
            let answer = cookie.map_or(BrokerAnswer::Never, |cookie| self.pairs.ask_again(cookie, process));
            return hand_out(socket, answer);
        }
        let seen = see(&self.shared, &end, asked, process);
        // Close the received socket before the answer. Otherwise the broker would keep the connection open after its program closes it.
        drop(end);
        let Some(seen) = seen else { return reply(socket, Reply::Never, None) };
        if self.spare.is_none() {
            self.spare = make(&self.pool);
        }
        if self.spare.is_none() {
            // Connections that have ended since the last sweep may free enough memory.
            self.sweep(false);
            self.spare = make(&self.pool);
        }
        let (spare, counts) = (&mut self.spare, &self.counts);
        let answer = self.pairs.ask(&seen, Instant::now(), || {
            let sum = if spare.is_some() { &counts.carried } else { &counts.refused };
            sum.fetch_add(1, Ordering::Relaxed);
            spare.take()
        });
        hand_out(socket, answer);
    }

    fn sweep(&mut self, all: bool) {
        self.swept = Instant::now();
        self.processes.retain(|_, watched| !is_readable(watched));
        let (processes, counts) = (&self.processes, &self.counts);
        self.wakeups.sweep(|process| processes.contains_key(&process));
        self.pairs.sweep(
            self.swept,
            |process| !all && processes.contains_key(&process),
            LeasedArea::is_closed,
            |area| {
                let add = |sum: u64| Some(sum.saturating_add(area.bytes()));
                let _ = counts.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
            },
        );
    }
}

/// Sends the answer to an end of a connection.
fn hand_out(socket: &OwnedFd, answer: BrokerAnswer<'_, LeasedArea>) {
    match answer {
        BrokerAnswer::Area(area, end) => match area.0.descriptor() {
            Some(file) => reply(socket, Reply::Area(end as u32), Some(&file)),
            None => reply(socket, Reply::Never, None),
        },
        BrokerAnswer::NotYet => reply(socket, Reply::NotYet, None),
        BrokerAnswer::Never => reply(socket, Reply::Never, None),
    }
}

fn socket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

fn is_readable(fd: &OwnedFd) -> bool {
    let mut one = [PollFd::new(fd, PollFlags::IN)];
    poll(&mut one, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

/// Makes an area: memory of the pool, with a header of a connection whose rings have not begun. Returns `None` if the pool is full or in a
/// device.
fn make(pool: &Client) -> Option<LeasedArea> {
    let area = LeasedArea(pool.lease((AREA_BYTES as u64 / SECTION) as u32).ok()?, Instant::now());
    let file = area.0.descriptor()?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).ok()?;
    let head = area.head();
    for way in &head.directions {
        way.writer.begin.store(UNSET, Ordering::Relaxed);
        way.writer.end.store(UNSET, Ordering::Relaxed);
    }
    head.version.store(VERSION, Ordering::Relaxed);
    head.magic.store(MAGIC, Ordering::Release);
    Some(area)
}

/// Reads a connection's addresses from the kernel.
fn see(shared: &SharedHosts, asked: &OwnedFd, request: Connection, process: u32) -> Option<SeenName> {
    let fd = asked.as_raw_fd();
    let cookie = kernel::wide_option(fd, libc::SOL_SOCKET, libc::SO_COOKIE)?;
    if kernel::option(fd, libc::SOL_SOCKET, libc::SO_TYPE)? != libc::SOCK_STREAM {
        return None;
    }
    if kernel::option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN)? == libc::AF_UNIX {
        let own = rustix::fs::fstat(asked).ok()?.st_ino;
        // The peer's inode is the process's own claim. It is harmless, because a pair is made only if the peer claims the same of this
        // socket.
        let (own, peer) = (EndName::Inode(own), EndName::Inode(request.peer));
        return (request.own != 0).then_some(SeenName {
            network: NameScope::Namespace(0),
            own,
            peer,
            cookie,
            process,
        });
    }
    let number = kernel::wide_option(fd, libc::SOL_SOCKET, NETWORK_COOKIE).unwrap_or(0);
    let (own, peer) = (internet(fd, false)?, internet(fd, true)?);
    let network = shared.network(number, own, peer);
    Some(SeenName { network, own, peer, cookie, process })
}

/// Socket option `SO_NETNS_COOKIE`, which returns the number of the socket's network namespace (Linux 5.14).
const NETWORK_COOKIE: libc::c_int = 71;

/// Returns an internet address of a socket, with IPv4 addresses mapped to IPv6.
fn internet(fd: libc::c_int, peer: bool) -> Option<EndName> {
    let (address, _) = kernel::name(fd, peer)?;
    match libc::c_int::from(address.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that it is an address of this type, and the structure has room for any address.
            let address = unsafe { &*(&raw const address).cast::<libc::sockaddr_in>() };
            let four = std::net::Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes());
            Some(EndName::Internet(four.to_ipv6_mapped().octets(), address.sin_port))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that it is an address of this type, and the structure has room for any address.
            let address = unsafe { &*(&raw const address).cast::<libc::sockaddr_in6>() };
            Some(EndName::Internet(address.sin6_addr.s6_addr, address.sin6_port))
        }
        _ => None,
    }
}

fn receive(socket: &OwnedFd) -> Option<(Request, Option<OwnedFd>)> {
    let mut bytes = [0; BYTES + 1];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut beside = net::RecvAncillaryBuffer::new(&mut room);
    let mut pieces = [io::IoSliceMut::new(&mut bytes)];
    let got = net::recvmsg(socket, &mut pieces, &mut beside, net::RecvFlags::CMSG_CLOEXEC).ok()?;
    let mut passed = Vec::new();
    for message in beside.drain() {
        if let net::RecvAncillaryMessage::ScmRights(files) = message {
            passed.extend(files);
        }
    }
    let request = Request::decode(bytes.get(..got.bytes)?)?;
    (passed.len() <= 1).then(|| (request, passed.pop()))
}

fn reply(socket: &OwnedFd, reply: Reply, passed: Option<&OwnedFd>) {
    let files: Vec<_> = passed.iter().map(|file| file.as_fd()).collect();
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = net::SendAncillaryBuffer::new(&mut room);
    if !files.is_empty() {
        beside.push(net::SendAncillaryMessage::ScmRights(&files));
    }
    let bytes = reply.encode();
    // Ignore errors, because a process that is gone needs no reply.
    let _ = net::sendmsg(socket, &[io::IoSlice::new(&bytes)], &mut beside, net::SendFlags::NOSIGNAL);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use unrack_pool::{Manager, Options};

    #[test]
    fn a_sum_that_cannot_be_is_not_added() {
        let folder = unrack_testing::TestFolder::new("sockets-sum");
        let mut options = Options::new(folder.join("pool.sock"), unrack_units::Bytes::new(16 << 20));
        options.per_client = Some("100%".parse().expect("a share"));
        let manager = Manager::start(&options).expect("a pool");
        let pool = Client::connect_as(manager.socket(), "sockets").expect("a client");
        let mut area = make(&pool).expect("room");
        area.1 = Instant::now().checked_sub(Duration::from_secs(1)).expect("a clock that runs");
        let way = &area.head().directions[0];
        let sum = |tail: u64, head: u64| {
            way.writer.tail.store(tail, Ordering::Relaxed);
            way.reader.head.store(head, Ordering::Relaxed);
            area.bytes()
        };
        assert_eq!(sum(5000, 4000), 5000);
        assert_eq!(sum(5000 | FROZEN, 5000), 5000);
        assert_eq!(sum(u64::MAX, u64::MAX), 0, "faster than memory");
        assert_eq!(sum(1 << 30, 5000), 0, "more in the ring than it holds");
    }
}
