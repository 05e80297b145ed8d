//! Random calls on both ends of a connection, once by the kernel alone and once by reference: every result is the same.

use crate::common::Rack;
use libc::{
    AF_INET, AF_UNIX, FIONREAD, MSG_DONTWAIT, MSG_NOSIGNAL, MSG_PEEK, MSG_WAITALL, POLLIN, POLLOUT,
    POLLRDHUP, SOCK_STREAM, c_int, c_long, iovec, pollfd, sockaddr_in,
};
use proptest::prelude::*;

#[test]
fn random_calls_have_the_kernels_results() {
    let rack = Rack::new("sockets-calls", 256);
    rack.run("calls::inside");
    assert!(rack.carried() > 100, "{} connections were carried", rack.carried());
}

/// One call on one end.
#[derive(Debug, Clone)]
enum Call {
    Send {
        end: usize,
        bytes: usize,
    },
    Writev {
        end: usize,
        bytes: [usize; 3],
    },
    Recv {
        end: usize,
        bytes: usize,
        flags: c_int,
    },
    Readv {
        end: usize,
        bytes: [usize; 2],
    },
    /// Receives exactly what is there, waiting for all.
    All {
        end: usize,
    },
    Poll {
        end: usize,
        events: i16,
    },
    Readable {
        end: usize,
    },
    Shutdown {
        end: usize,
        how: c_int,
    },
    /// Replaces the descriptor by a copy, and closes the first.
    Dup {
        end: usize,
    },
    /// Watches an end by a level-triggered `epoll`, and asks it.
    Epoll {
        end: usize,
        events: u32,
    },
    Close {
        end: usize,
    },
}

fn call() -> impl Strategy<Value = Call> {
    let end = 0..2_usize;
    let bytes = prop_oneof![1..20_usize, 1..5_000_usize];
    prop_oneof![
        8 => (end.clone(), bytes.clone()).prop_map(|(end, bytes)| Call::Send { end, bytes }),
        2 => (end.clone(), [0..9_usize, 0..3_000, 0..50]).prop_map(|(end, bytes)| Call::Writev { end, bytes }),
        8 => (end.clone(), bytes.clone(), prop_oneof![3 => Just(0), 1 => Just(MSG_PEEK)])
            .prop_map(|(end, bytes, flags)| Call::Recv { end, bytes, flags }),
        2 => (end.clone(), [0..9_usize, 0..3_000]).prop_map(|(end, bytes)| Call::Readv { end, bytes }),
        2 => end.clone().prop_map(|end| Call::All { end }),
        4 => (end.clone(), prop_oneof![Just(POLLIN), Just(POLLOUT), Just(POLLIN | POLLOUT | POLLRDHUP)])
            .prop_map(|(end, events)| Call::Poll { end, events }),
        3 => end.clone().prop_map(|end| Call::Readable { end }),
        1 => (end.clone(), 0..3_i32).prop_map(|(end, how)| Call::Shutdown { end, how }),
        1 => end.clone().prop_map(|end| Call::Dup { end }),
        3 => (end.clone(), prop_oneof![Just(libc::EPOLLIN), Just(libc::EPOLLOUT), Just(libc::EPOLLIN | libc::EPOLLOUT)])
            .prop_map(|(end, events)| Call::Epoll { end, events: events as u32 }),
        1 => end.prop_map(|end| Call::Close { end }),
    ]
}

/// Result of a call: what it returned, why it failed, and what it received.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Outcome {
    result: c_long,
    errno: c_int,
    bytes: Vec<u8>,
}

impl Outcome {
    fn new(result: c_long, bytes: Vec<u8>) -> Outcome {
        let errno = if result < 0 { std::io::Error::last_os_error().raw_os_error().unwrap_or(0) } else { 0 };
        Outcome { result, errno, bytes }
    }
}

/// A connection, and what is in flight in each direction.
struct Connection {
    fds: [c_int; 2],
    set: c_int,
    watched: [bool; 2],
    sent: [u8; 2],
}

impl Connection {
    fn new(family: c_int, by_reference: bool) -> Connection {
        let fds = if family == AF_UNIX { unix(by_reference) } else { internet(by_reference) };
        // SAFETY: a plain number.
        let set = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        assert!(set >= 0 && fds.iter().all(|fd| *fd >= 0), "{}", std::io::Error::last_os_error());
        Connection { fds, set, watched: [false; 2], sent: [0; 2] }
    }

    /// Returns the next bytes to send: each differs from the one before.
    fn next(&mut self, end: usize, bytes: usize) -> Vec<u8> {
        let first = self.sent[end];
        self.sent[end] = first.wrapping_add(bytes as u8);
        (0..bytes).map(|i| first.wrapping_add(i as u8)).collect()
    }

    fn apply(&mut self, call: &Call) -> Outcome {
        // SAFETY: all buffers are of this function, with their lengths.
        unsafe {
            match *call {
                Call::Send { end, bytes } => {
                    let data = self.next(end, bytes);
                    let sent =
                        libc::send(self.fds[end], data.as_ptr().cast(), bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
                    Outcome::new(sent as c_long, Vec::new())
                }
                Call::Writev { end, bytes } => {
                    let mut data = bytes.map(|bytes| self.next(end, bytes));
                    let list = data
                        .each_mut()
                        .map(|part| iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() });
                    let mut message = std::mem::zeroed::<libc::msghdr>();
                    (message.msg_iov, message.msg_iovlen) = (list.as_ptr().cast_mut(), list.len());
                    let sent = libc::sendmsg(self.fds[end], &raw const message, MSG_NOSIGNAL | MSG_DONTWAIT);
                    Outcome::new(sent as c_long, Vec::new())
                }
                Call::Recv { end, bytes, flags } => self.recv(end, bytes, flags | MSG_DONTWAIT),
                Call::Readv { end, bytes } => {
                    let mut data = bytes.map(|bytes| vec![0_u8; bytes]);
                    let list = data
                        .each_mut()
                        .map(|part| iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() });
                    let mut message = std::mem::zeroed::<libc::msghdr>();
                    (message.msg_iov, message.msg_iovlen) = (list.as_ptr().cast_mut(), list.len());
                    let got = libc::recvmsg(self.fds[end], &raw mut message, MSG_DONTWAIT);
                    let mut all = data.concat();
                    // The buffers are filled in turn.
                    all.truncate(got.max(0) as usize);
                    Outcome::new(got as c_long, all)
                }
                Call::All { end } => {
                    let mut there: c_int = 0;
                    libc::ioctl(self.fds[end], FIONREAD, &raw mut there);
                    if there == 0 {
                        return Outcome::new(0, Vec::new());
                    }
                    self.recv(end, there as usize, MSG_WAITALL)
                }
                Call::Poll { end, events } => {
                    let mut one = pollfd { fd: self.fds[end], events, revents: 0 };
                    let ready = libc::poll(&raw mut one, 1, 0);
                    let result = c_long::from(ready);
                    Outcome::new(result, one.revents.to_le_bytes().to_vec())
                }
                Call::Readable { end } => {
                    let mut there: c_int = 0;
                    let done = libc::ioctl(self.fds[end], FIONREAD, &raw mut there);
                    Outcome::new(done.into(), there.to_le_bytes().to_vec())
                }
                Call::Shutdown { end, how } => {
                    Outcome::new(libc::shutdown(self.fds[end], how).into(), Vec::new())
                }
                Call::Dup { end } => {
                    let copy = libc::dup(self.fds[end]);
                    if copy >= 0 {
                        self.unwatch(end);
                        libc::close(self.fds[end]);
                        self.fds[end] = copy;
                    }
                    Outcome::new((copy >= 0).into(), Vec::new())
                }
                Call::Epoll { end, events } => self.epoll(end, events),
                Call::Close { end } => {
                    self.unwatch(end);
                    let closed = libc::close(self.fds[end]);
                    self.fds[end] = -1;
                    Outcome::new(closed.into(), Vec::new())
                }
            }
        }
    }

    fn recv(&self, end: usize, bytes: usize, flags: c_int) -> Outcome {
        let mut data = vec![0_u8; bytes];
        // SAFETY: a buffer of our own.
        let got = unsafe { libc::recv(self.fds[end], data.as_mut_ptr().cast(), bytes, flags) };
        data.truncate(got.max(0) as usize);
        Outcome::new(got as c_long, data)
    }

    fn epoll(&mut self, end: usize, events: u32) -> Outcome {
        let operation = if self.watched[end] { libc::EPOLL_CTL_MOD } else { libc::EPOLL_CTL_ADD };
        let mut event = libc::epoll_event { events, u64: end as u64 };
        // SAFETY: an event of our own.
        let done = unsafe { libc::epoll_ctl(self.set, operation, self.fds[end], &raw mut event) };
        if done != 0 {
            return Outcome::new(done.into(), Vec::new());
        }
        self.watched[end] = true;
        let mut found = [libc::epoll_event { events: 0, u64: 0 }; 4];
        // SAFETY: room for four events.
        let count = unsafe { libc::epoll_wait(self.set, found.as_mut_ptr(), 4, 0) };
        let mut found: Vec<(u64, u32)> =
            found[..count.max(0) as usize].iter().map(|event| (event.u64, event.events)).collect();
        found.sort_unstable();
        let bytes =
            found.iter().flat_map(|(end, events)| [*end as u8, *events as u8, (events >> 8) as u8]).collect();
        Outcome::new(count.into(), bytes)
    }

    fn unwatch(&mut self, end: usize) {
        if std::mem::take(&mut self.watched[end]) {
            // SAFETY: plain numbers.
            unsafe { libc::epoll_ctl(self.set, libc::EPOLL_CTL_DEL, self.fds[end], std::ptr::null_mut()) };
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        for fd in [self.fds[0], self.fds[1], self.set] {
            // SAFETY: plain numbers.
            unsafe { libc::close(fd) };
        }
    }
}

/// Makes a pair of Unix sockets; by reference through the wrapped call, otherwise by a call that is not wrapped.
fn unix(by_reference: bool) -> [c_int; 2] {
    let mut fds = [-1; 2];
    // SAFETY: room for two descriptors.
    unsafe {
        match by_reference {
            true => libc::socketpair(AF_UNIX, SOCK_STREAM, 0, fds.as_mut_ptr()),
            false => libc::syscall(libc::SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, fds.as_mut_ptr()) as c_int,
        }
    };
    fds
}

/// Makes a pair of TCP sockets, in the same two ways.
fn internet(by_reference: bool) -> [c_int; 2] {
    // SAFETY: addresses of our own.
    unsafe {
        let mut address = std::mem::zeroed::<sockaddr_in>();
        address.sin_family = AF_INET as _;
        address.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
        let mut length = size_of::<sockaddr_in>() as libc::socklen_t;
        let listener = libc::socket(AF_INET, SOCK_STREAM, 0);
        libc::bind(listener, (&raw const address).cast(), length);
        libc::listen(listener, 1);
        libc::getsockname(listener, (&raw mut address).cast(), &raw mut length);
        let client = libc::socket(AF_INET, SOCK_STREAM, 0);
        let none = std::ptr::null_mut::<libc::c_void>();
        let server = if by_reference {
            libc::connect(client, (&raw const address).cast(), length);
            libc::accept(listener, none.cast(), none.cast())
        } else {
            libc::syscall(libc::SYS_connect, client, &raw const address, length);
            libc::syscall(libc::SYS_accept4, listener, none, none, 0) as c_int
        };
        libc::close(listener);
        let one: c_int = 1;
        for fd in [client, server] {
            libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, (&raw const one).cast(), 4);
        }
        [client, server]
    }
}

/// Applies a call to both, and compares. A look at bytes that changed over twice, of which none was received yet, may end before the
/// second time.
fn compare(call: &Call, kernel: &mut Connection, ours: &mut Connection) -> Result<(), TestCaseError> {
    let (expected, found) = (kernel.apply(call), ours.apply(call));
    if matches!(call, Call::Recv { flags: MSG_PEEK, .. })
        && found.result > 0
        && found.result < expected.result
    {
        prop_assert_eq!(&found.bytes[..], &expected.bytes[..found.bytes.len()], "{:?}", call);
        return Ok(());
    }
    prop_assert_eq!(found, expected, "{:?}", call);
    Ok(())
}

/// Brings both ends to the point from which the ring carries both ways.
fn warm_up(one: &mut Connection) {
    for round in 0..6 {
        for end in [0, 1] {
            let data = [round as u8];
            // SAFETY: a buffer of our own.
            let sent = unsafe { libc::send(one.fds[end], data.as_ptr().cast(), 1, 0) };
            assert_eq!(sent, 1);
            let got = one.recv(1 - end, 1, 0);
            assert_eq!((got.result, got.bytes), (1, vec![round as u8]));
        }
    }
}

#[test]
#[ignore = "runs below the preload library, started by the test above"]
fn inside() {
    let config = ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() };
    let families = prop_oneof![Just(AF_UNIX), Just(AF_INET)];
    proptest!(config, |(family in families, warm in any::<bool>(), calls in prop::collection::vec(call(), 1..80))| {
        let (mut kernel, mut ours) = (Connection::new(family, false), Connection::new(family, true));
        if warm {
            warm_up(&mut kernel);
            warm_up(&mut ours);
        }
        for call in &calls {
            compare(call, &mut kernel, &mut ours)?;
        }
    });
}
