//! Connections of processes: sockets, and detection of processes that end.

use super::devices::Devices;
use super::doorbell::Doorbell;
use super::error::Error;
use super::ledger::Process;
use super::lock::LockedLedger;
use super::options::Options;
use super::process;
use super::state::State;
use crate::cache_control::MemoryKind;
use crate::wire::{self, Ask, ClientId, Denied, Hello, PeerProcess, ReceivedPacket, Request, Welcome};
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{PidfdFlags, pidfd_open};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of connections that have not sent their hello. If there are more, the oldest one is closed.
const MOST_UNGREETED: usize = 64;
/// Shortest and longest time between two polls of the other hosts. The shortest time applies after a message.
const LOOKS: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(2)];
/// Messages that are read from one process before other processes have their turn.
const TURN: usize = 32;

/// Event loop of the manager.
pub(super) struct Server {
    state: State,
    listener: OwnedFd,
    /// Eventfd that stops the manager; kept open because `events` watches it.
    _stop: Arc<OwnedFd>,
    events: OwnedFd,
    /// Descriptor that can be closed when the process has reached its limit of descriptors.
    spare: Option<OwnedFd>,
    connections: BTreeMap<u64, Connection>,
    by_client: BTreeMap<ClientId, u64>,
    /// Processes that were connected to the previous manager and have not reconnected yet.
    absent: BTreeMap<u64, (ClientId, OwnedFd)>,
    next: u64,
    lock: LockedLedger,
    socket: PathBuf,
    idle: Option<Timespec>,
    devices: Option<Arc<Devices>>,
    space_bytes: u64,
    region_sections: u32,
    queue_bytes: u64,
    mode: MemoryKind,
    /// Reason why only this user may use this memory; `None` if other users may use it too.
    one_user: Option<&'static str>,
    has_hosts: bool,
    /// Doorbell that other hosts ring.
    doorbell: Option<Arc<dyn Doorbell>>,
    /// Time until the next poll of the other hosts.
    pause: Duration,
}

struct Connection {
    socket: OwnedFd,
    process: OwnedFd,
    peer: PeerProcess,
    started: u64,
    client: Option<ClientId>,
    /// True while the process's socket is full. Then its requests are not read until it has read some of the manager's
    /// messages.
    full: bool,
    leaving: bool,
}

/// Encoding of an event: the two low bits are its kind, and the bits above are the number of the connection.
const LISTENER: u64 = 0;
/// Event of the doorbell. It has the same kind as the event of the listener.
const DOORBELL: u64 = LISTENER | 1 << 2;
const STOP: u64 = 1;
const SOCKET: u64 = 2;
const PROCESS: u64 = 3;

impl Server {
    /// Makes a server; `before` are the processes that the state knows from the previous manager.
    pub(super) fn new(
        options: &Options,
        state: State,
        before: Vec<Process>,
        lock: LockedLedger,
        devices: Option<Arc<Devices>>,
        stop: Arc<OwnedFd>,
    ) -> Result<Server, Error> {
        let listener = listen(options)?;
        let events = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(std::io::Error::from)?;
        let doorbell = options.host.as_ref().and_then(|host| host.doorbell.clone());
        let wakeup = doorbell.iter().map(|doorbell| (doorbell.wakeup(), DOORBELL));
        for (fd, what) in [(listener.as_fd(), LISTENER), (stop.as_fd(), STOP)].into_iter().chain(wakeup) {
            watch(&events, fd, what, epoll::EventFlags::IN)?;
        }
        let mut server = Server {
            state,
            listener,
            _stop: stop,
            spare: events.try_clone().ok(),
            events,
            connections: BTreeMap::new(),
            by_client: BTreeMap::new(),
            absent: BTreeMap::new(),
            next: 1,
            lock,
            socket: options.socket.clone(),
            idle: options.idle.map(|idle| Timespec {
                tv_sec: idle.as_secs().min(i32::MAX as u64) as i64,
                tv_nsec: idle.subsec_nanos().into(),
            }),
            space_bytes: options.space_bytes(),
            region_sections: options.region_sections,
            queue_bytes: options.queue_bytes.get(),
            mode: options.mode,
            one_user: options.backing.why_one_user(),
            has_hosts: options.host.is_some(),
            doorbell,
            pause: LOOKS[0],
            devices,
        };
        // Unless the manager ends by `stop`, processes may still use the pool after it ends.
        server.lock.set_needed(true);
        before.into_iter().for_each(|process| server.watch_absent(&process));
        server.flush();
        Ok(server)
    }

    /// Watches a process that has not reconnected yet, so that its end is noticed.
    fn watch_absent(&mut self, process: &Process) {
        let client = process.peer.id;
        let number = self.next;
        self.next += 1;
        let watched = process::watch(process).filter(|fd| {
            watch(&self.events, fd.as_fd(), number << 2 | PROCESS, epoll::EventFlags::IN).is_ok()
        });
        match watched {
            Some(fd) => drop(self.absent.insert(number, (client, fd))),
            None => self.state.leave(client),
        }
    }

    /// Serves until the manager is stopped or idle. Returns an error if this host was declared ended.
    pub(super) fn run(mut self) -> Result<(), Error> {
        let mut ready = Vec::with_capacity(64);
        loop {
            ready.clear();
            let idle = self.idle.filter(|_| self.connections.is_empty() && self.state.is_empty());
            let Some(look) = self.look_at_hosts() else { return self.end_all() };
            let timeout = look.or(idle);
            match epoll::wait(&self.events, rustix::buffer::spare_capacity(&mut ready), timeout.as_ref()) {
                Ok(0) if look.is_none() && idle.is_some() => {
                    self.stop();
                    return Ok(());
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => unreachable!("an epoll of ours can be waited for: {error}"),
            }
            let mut stopped = false;
            for event in &ready {
                let data = event.data.u64();
                let (what, number) = (data & 3, data >> 2);
                match what {
                    // The next poll of the other hosts finds the message or wakeup for which the doorbell was rung.
                    LISTENER if data == DOORBELL => {
                        self.pause = LOOKS[0];
                        self.doorbell.iter().for_each(|doorbell| doorbell.silence());
                    }
                    LISTENER => self.accept(),
                    // This event is handled after the others, so that the next manager does not wait for a process that
                    // has just left.
                    STOP => stopped = true,
                    PROCESS => self.ended(number),
                    _ => self.serve(number, event.flags),
                }
            }
            self.flush();
            if stopped {
                self.stop();
                return Ok(());
            }
        }
    }

    /// Polls the other hosts, if the pool has any. Returns the time until the next poll, which grows while no messages
    /// arrive. The outer `None` means that this host was declared ended.
    fn look_at_hosts(&mut self) -> Option<Option<Timespec>> {
        if !self.has_hosts {
            return Some(None);
        }
        let now = std::time::Instant::now();
        let messages = self.state.look_at_hosts(now)?;
        self.flush();
        self.pause = if messages { LOOKS[0] } else { (self.pause * 2).min(LOOKS[1]) };
        Some(Some(Timespec { tv_sec: 0, tv_nsec: self.pause.subsec_nanos().into() }))
    }

    /// Kills all processes of this host that use the pool, because this host was declared ended. Other hosts may
    /// already have its sections, so processes of this host must not write them any more.
    fn end_all(self) -> Result<(), Error> {
        for connection in self.connections.values() {
            // An error means that the process has already ended.
            let _ = rustix::process::pidfd_send_signal(&connection.process, rustix::process::Signal::KILL);
        }
        for (_, process) in self.absent.values() {
            let _ = rustix::process::pidfd_send_signal(process, rustix::process::Signal::KILL);
        }
        self.stop();
        Err(Error::Fenced)
    }

    fn stop(mut self) {
        // The lock is still held, so no other manager listens at this socket.
        let _ = rustix::fs::unlink(&self.socket);
        self.lock.set_needed(!self.state.is_empty());
        self.state.leave_hosts();
    }

    /// Handles the end of a process.
    fn ended(&mut self, number: u64) {
        match self.absent.remove(&number) {
            Some((client, _)) => self.state.leave(client),
            None => self.end(number),
        }
    }

    fn accept(&mut self) {
        // One connection is accepted per event; if more are pending, the listener is reported again.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = match rustix::net::accept_with(&self.listener, flags) {
            Ok(socket) => socket,
            Err(Errno::MFILE | Errno::NFILE) => return self.turn_away(),
            Err(_) => return,
        };
        let Ok(credentials) = rustix::net::sockopt::socket_peercred(&socket) else { return };
        // If the process has already ended, its connection is not needed.
        let Ok(process) = pidfd_open(credentials.pid, PidfdFlags::empty()) else { return };
        let ungreeted = self.connections.iter().filter(|(_, connection)| connection.client.is_none());
        if ungreeted.clone().count() >= MOST_UNGREETED {
            let oldest = ungreeted.map(|(number, _)| *number).next();
            oldest.into_iter().for_each(|number| self.end(number));
        }
        let number = self.next;
        self.next += 1;
        let watched = watch(&self.events, socket.as_fd(), number << 2 | SOCKET, epoll::EventFlags::IN)
            .and_then(|()| {
                watch(&self.events, process.as_fd(), number << 2 | PROCESS, epoll::EventFlags::IN)
            });
        if watched.is_err() {
            return;
        }
        let peer = PeerProcess {
            id: ClientId(0),
            pid: credentials.pid.as_raw_nonzero().get() as u32,
            uid: credentials.uid.as_raw(),
            gid: credentials.gid.as_raw(),
            name: String::new(),
        };
        let Some(started) = process::started(peer.pid) else { return };
        let connection =
            Connection { socket, process, peer, started, client: None, full: false, leaving: false };
        self.connections.insert(number, connection);
    }

    /// Accepts and closes a pending connection, because no descriptors are left. Otherwise the listener would be
    /// reported endlessly. The spare descriptor is closed meanwhile to make this possible.
    fn turn_away(&mut self) {
        self.spare = None;
        drop(rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC));
        self.spare = self.events.try_clone().ok();
    }

    fn serve(&mut self, number: u64, flags: epoll::EventFlags) {
        if flags.contains(epoll::EventFlags::OUT) {
            self.listen_to(number, false);
            if let Some(client) = self.connections.get(&number).and_then(|connection| connection.client) {
                self.send_waiting(number, client);
            }
        }
        for _ in 0..TURN {
            let Some(connection) = self.connections.get(&number).filter(|c| !c.full && !c.leaving) else {
                return;
            };
            match wire::receive(connection.socket.as_fd()) {
                Ok(ReceivedPacket::Packet(bytes, beside)) => self.message(number, &bytes, beside),
                Err(Errno::AGAIN) => return,
                Ok(ReceivedPacket::Malformed | ReceivedPacket::End) | Err(_) => return self.end(number),
            }
            self.flush();
        }
    }

    fn message(&mut self, number: u64, bytes: &[u8], beside: Vec<OwnedFd>) {
        let connection = self.connections.get_mut(&number).expect("it was there");
        let Some(client) = connection.client else { return self.greet(number, bytes, beside) };
        let Ok(ask) = wire::decode::<Ask>(bytes) else { return self.end(number) };
        let most = match ask.request {
            Request::Open { .. } | Request::Answer { .. } => wire::MOST_PASSED,
            Request::HandBack { .. } => 1,
            _ => 0,
        };
        if beside.len() > most {
            return self.end(number);
        }
        connection.leaving = ask.request == Request::Leave;
        self.state.handle(client, ask, beside);
    }

    /// Handles the first message of a process.
    fn greet(&mut self, number: u64, bytes: &[u8], mut beside: Vec<OwnedFd>) {
        let welcome = match wire::read_first::<Hello>(bytes) {
            Ok(hello) if beside.len() == 1 => self.welcome(number, hello, beside.remove(0)),
            Err(theirs) if theirs != 0 => Err(Denied::Version { theirs: wire::VERSION }),
            _ => return self.end(number),
        };
        let connection = &self.connections[&number];
        let devices = self.devices.as_ref().filter(|_| welcome.is_ok()).map(|devices| devices.files());
        let beside = devices.unwrap_or_default();
        let sent = wire::send(connection.socket.as_fd(), &wire::first(&welcome), &beside);
        if sent.is_err() || welcome.is_err() {
            self.end(number);
        }
    }

    fn welcome(&mut self, number: u64, hello: Hello, wakeups: OwnedFd) -> Result<Welcome, Denied> {
        if !crate::wakeups::are_wakeups(&wakeups) {
            return Err(Denied::NotYours);
        }
        let connection = self.connections.get_mut(&number).expect("it was there");
        let user = rustix::process::geteuid().as_raw();
        if let Some(why) = self.one_user.filter(|_| connection.peer.uid != user) {
            return Err(Denied::OneUser { user, why: why.into() });
        }
        let peer = PeerProcess { name: hello.name, ..connection.peer.clone() };
        let you = match hello.again {
            None => self.state.join(peer, connection.started, wakeups)?,
            Some(again) => {
                self.state.rejoin(again, &peer, connection.started, wakeups)?;
                self.absent.retain(|_, (client, _)| *client != again);
                again
            }
        };
        connection.client = Some(you);
        self.by_client.insert(you, number);
        Ok(Welcome {
            you,
            space_bytes: self.space_bytes,
            region_sections: self.region_sections,
            queue_bytes: self.queue_bytes,
            mode: self.mode,
            devices: self.devices.as_ref().map(|devices| devices.set),
        })
    }

    /// Sends the waiting messages, as far as the sockets have room. A process whose socket is full is not served until
    /// it reads.
    fn flush(&mut self) {
        self.state.ring_hosts();
        loop {
            let told = self.state.take_told();
            if told.is_empty() {
                return;
            }
            for client in told {
                if let Some(&number) = self.by_client.get(&client) {
                    self.send_waiting(number, client);
                }
            }
        }
    }

    fn send_waiting(&mut self, number: u64, client: ClientId) {
        let connection = self.connections.get_mut(&number).expect("a client has a connection");
        let Some(client) = self.state.client(client).filter(|_| !connection.full) else { return };
        while let Some(outgoing) = client.waiting.front() {
            let beside: Vec<BorrowedFd> = outgoing.beside.iter().map(|fd| fd.as_fd()).collect();
            match wire::send(connection.socket.as_fd(), &wire::encode(&outgoing.tell), &beside) {
                Ok(()) => drop(client.waiting.pop_front()),
                Err(Errno::AGAIN) => return self.listen_to(number, true),
                Err(_) => return self.end(number),
            }
        }
        if connection.leaving {
            self.end(number);
        }
    }

    /// Makes epoll report when a connection's socket has room (`full`), or when it has requests to read.
    fn listen_to(&mut self, number: u64, full: bool) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        connection.full = full;
        let flags = if full { epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
        let data = epoll::EventData::new_u64(number << 2 | SOCKET);
        if epoll::modify(&self.events, &connection.socket, data, flags).is_err() {
            self.end(number);
        }
    }

    fn end(&mut self, number: u64) {
        let Some(connection) = self.connections.remove(&number) else { return };
        for fd in [connection.socket.as_fd(), connection.process.as_fd()] {
            // Errors are ignored: the descriptor may not be watched, and it is closed now in any case.
            let _ = epoll::delete(&self.events, fd);
        }
        if let Some(client) = connection.client {
            self.by_client.remove(&client);
            self.state.leave(client);
        }
    }
}

fn watch(events: &OwnedFd, fd: BorrowedFd<'_>, what: u64, flags: epoll::EventFlags) -> std::io::Result<()> {
    Ok(epoll::add(events, fd, epoll::EventData::new_u64(what), flags)?)
}

fn listen(options: &Options) -> Result<OwnedFd, Error> {
    let path = &options.socket;
    let failed = |error: Errno| Error::Listen { path: path.clone(), error: error.into() };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let listener =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map_err(failed)?;
    let address = SocketAddrUnix::new(path).map_err(failed)?;
    // This process has the lock, so the manager that listened at this path has ended.
    let _ = rustix::fs::unlink(path);
    rustix::net::bind(&listener, &address).map_err(failed)?;
    rustix::fs::chmod(path, rustix::fs::Mode::from_bits_truncate(options.permissions)).map_err(failed)?;
    rustix::net::listen(&listener, 128).map_err(failed)?;
    Ok(listener)
}
