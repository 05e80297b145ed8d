//! Relay: a process that passes bytes between a connection that has bytes in its ring and the connection that replaced it.
//!
//! It must be a process, because the process that hands the socket over may become another program (`exec`), which ends its threads. The
//! relay uses system calls and this library's rings only, because it is a copy of a process that may have had other threads, and locks held
//! by these threads are never released. It ends with its connections.
//!
//! Other processes may have the socket as well, for example the parent of the child that started another program. The bytes that this
//! program leaves unread are put back for them: the relay keeps a descriptor of the program's end, and receives the remaining bytes from it
//! when the program has ended.

mod buffer;
mod pair;

use crate::area::ByteSource;
use crate::pieces::Pieces;
use crate::table::{self, Socket};
use crate::{close, epoll, kernel, lock, recv, send};
use buffer::Buffer;
use libc::{MSG_DONTWAIT, MSG_NOSIGNAL, POLLIN, POLLOUT, c_int, iovec, pollfd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Size of the buffer for bytes to the program. It also has room for bytes that are taken back.
const BUFFER: usize = 1 << 20;
/// Maximum bytes that the relay receives at a time. They are limited because bytes that were received early may have to be put back into
/// the ring.
const PIECE: usize = 64 << 10;
/// Longest sleep while other processes have the socket, because they may close it.
const NAP: Duration = Duration::from_millis(100);

/// Longest wait for the first bytes that a relay passes on.
const FIRST: Duration = Duration::from_millis(200);

/// Makes this process's descriptors of a socket refer to another connection, which a new process relays. Returns false if no process or
/// descriptor is available.
pub(super) fn replace(socket: &Socket) -> bool {
    let Some((near, far)) = pair::make(socket) else { return false };
    let same = socket.descriptors();
    let holders = &socket.description().holders;
    let is_shared = !socket.is_last(same.len());
    holders.fetch_add(1, Ordering::AcqRel);
    let (kept, program) = if is_shared { (near, own_process()) } else { (-1, -1) };
    let ends = RelayDescriptors { far, near: kept, program };
    let has_bytes = socket.carried().is_some_and(|carried| carried.readable() > 0);
    let is_made = spawn(socket, ends);
    if is_made {
        if has_bytes {
            // As in the kernel, a call that does not wait must find these bytes.
            is_ready_within(near, POLLIN, FIRST);
        }
        for fd in same {
            epoll::release(fd, || pair::place(near, fd));
            table::remove(fd);
        }
    } else {
        holders.fetch_sub(1, Ordering::AcqRel);
    }
    for fd in [near, far, program] {
        kernel::close(fd);
    }
    is_made
}

/// Returns a pidfd of this process, which may later become another program; -1 if none can be made.
fn own_process() -> c_int {
    // SAFETY: only plain numbers are passed.
    unsafe { libc::syscall(libc::SYS_pidfd_open, libc::syscall(libc::SYS_getpid), 0) as c_int }
}

/// Descriptors of a relay, apart from the connection whose ring has bytes.
#[derive(Clone, Copy)]
struct RelayDescriptors {
    /// The relay's end of the new connection.
    far: c_int,
    /// A copy of the program's end of the new connection, while other processes may want the bytes that the program leaves there; otherwise
    /// -1.
    near: c_int,
    /// A pidfd of the program's process; -1 if no bytes are to be put back.
    program: c_int,
}

/// Creates the relay process. It is not a child of this process, so that the program is not notified when the relay ends.
///
/// The relay's memory is mapped here, where a failure can still be reported. If the relay found out later that it has no memory, the bytes
/// in the ring would be lost.
fn spawn(socket: &Socket, ends: RelayDescriptors) -> bool {
    let (Some(down), Some(up)) = (Buffer::new(BUFFER), Buffer::new(PIECE)) else { return false };
    let mask = block_signals();
    let middle = clone();
    if middle == 0 {
        let relay = clone();
        if relay == 0 {
            Relay::begin(socket, ends, down, up).run();
        }
        if relay > 0 && ends.near >= 0 {
            // Store this before the program begins, and therefore before other processes can notice its end.
            socket.description().lent.store(relay as u32, Ordering::Release);
        }
        exit(c_int::from(relay < 0));
    }
    let mut status: c_int = -1;
    if middle > 0 {
        let none = std::ptr::null_mut::<libc::rusage>();
        // SAFETY: the kernel writes one `int`. Signals are blocked, so the call is not interrupted.
        unsafe { libc::syscall(libc::SYS_wait4, middle, &raw mut status, libc::__WALL, none) };
    }
    set_signals(mask);
    middle > 0 && status == 0
}

/// Copies this process. No signal is sent to the parent when the copy ends.
fn clone() -> c_int {
    // SAFETY: without flags it is a fork; the copy makes system calls only, and uses memory that it maps itself.
    unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) as c_int }
}

fn exit(status: c_int) -> ! {
    loop {
        // SAFETY: ends this process.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

fn block_signals() -> u64 {
    let (all, mut before) = (u64::MAX, 0_u64);
    // SAFETY: sets of the kernel's size.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const all,
            &raw mut before,
            kernel::SIGSET_BYTES,
        )
    };
    before
}

fn set_signals(mask: u64) {
    let none = std::ptr::null_mut::<u64>();
    // SAFETY: a set of the kernel's size.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const mask, none, kernel::SIGSET_BYTES)
    };
}

/// State of a relay.
struct Relay<'a> {
    /// The connection whose ring has bytes.
    socket: &'a Socket,
    ends: RelayDescriptors,
    /// Bytes on their way to the program, and from the program.
    down: Buffer,
    up: Buffer,
    /// True once the connection, or the program, has sent its last byte.
    down_ended: bool,
    up_ended: bool,
    /// True once the peer's connection was reset. The program's connection is then reset too, after all bytes were passed on.
    is_broken: bool,
    /// True once the program has sent a byte.
    has_sent: bool,
}

impl Relay<'_> {
    /// Sets up the relay in its new process.
    fn begin(socket: &Socket, ends: RelayDescriptors, down: Buffer, up: Buffer) -> Relay<'_> {
        lock::forget_thread_number();
        // SAFETY: plain numbers, and a name that ends in zero.
        unsafe {
            libc::syscall(libc::SYS_setsid);
            libc::syscall(libc::SYS_prctl, libc::PR_SET_NAME, c"unrack-relay".as_ptr(), 0, 0, 0);
        }
        close_others(&mut [socket.fd, ends.far, ends.near, ends.program]);
        Relay {
            socket,
            ends,
            down,
            up,
            down_ended: false,
            up_ended: false,
            is_broken: false,
            has_sent: false,
        }
    }

    fn run(mut self) -> ! {
        loop {
            self.wait();
            self.receive_down();
            self.send_down();
            self.receive_up();
            self.send_up();
            self.pass_break_on();
            if self.ends.near >= 0 && self.socket.is_last(1) {
                self.forget_near();
            }
            if self.ends.near < 0 && self.is_done() {
                self.end();
            }
            if self.ends.program >= 0 && is_ready(self.ends.program, POLLIN) {
                self.take_up();
            }
        }
    }

    /// Returns whether no byte can pass any more. On a Unix socket it shows at once that no process has the program's end any more; on an
    /// internet connection, only when bytes are sent.
    fn is_done(&self) -> bool {
        let is_quiet = self.up_ended && self.up.is_empty();
        is_quiet && (self.down_ended && self.down.is_empty() || is_ready(self.ends.far, 0))
    }

    /// Resets the program's connection, as the peer's connection was, once the program's end has received all bytes.
    fn pass_break_on(&mut self) {
        let far = self.ends.far;
        if !self.is_broken || !self.down.is_empty() || far < 0 || pair::unsent(far) > 0 {
            return;
        }
        kernel::reset_at_end(far);
        if self.ends.near < 0 {
            self.end();
        }
        kernel::close(far);
        self.ends.far = -1;
    }

    /// Sleeps until there is work to do.
    fn wait(&self) {
        let if_any = |fd: c_int, events| pollfd { fd: if events == 0 { -1 } else { fd }, events, revents: 0 };
        let wants = |can_receive: bool, has_bytes: bool| {
            (if can_receive { POLLIN } else { 0 }) | (if has_bytes { POLLOUT } else { 0 })
        };
        let receives_down = self.down.is_empty() && !self.down_ended;
        let receives_up = self.up.is_empty() && !self.up_ended;
        let mut all = [
            if_any(self.socket.fd, wants(receives_down, !self.up.is_empty())),
            if_any(self.ends.far, wants(receives_up, !self.down.is_empty())),
            if_any(self.ends.program, POLLIN),
        ];
        let most = if receives_down && self.has_ring() {
            Some(Duration::ZERO)
        } else {
            (self.ends.near >= 0 || self.is_broken).then_some(NAP)
        };
        // SAFETY: the mask is null.
        unsafe { kernel::poll(&mut all, most, std::ptr::null()) };
    }

    /// Returns whether the next bytes may come through the ring, for which no descriptor becomes readable.
    fn has_ring(&self) -> bool {
        self.socket.carried().is_some_and(|carried| carried.inward.phase() == ByteSource::Ring)
    }

    fn receive_down(&mut self) {
        if self.down_ended || !self.down.is_empty() {
            return;
        }
        let (place, room) = self.down.room();
        let (place, room) = (place, room.min(PIECE));
        let fd = self.socket.fd;
        let piece = [iovec { iov_base: place.cast(), iov_len: room }];
        let got = recv::recv(fd, Pieces::new(&piece), MSG_DONTWAIT, |done, most, flags| {
            // SAFETY: free space of this relay's buffer.
            unsafe { kernel::recv(fd, place.wrapping_add(done), (room - done).min(most), flags | MSG_DONTWAIT) }
        });
        match got {
            1.. => self.down.filled(got as usize),
            0 => {
                self.down_ended = true;
                shut(self.ends.far);
            }
            _ if kernel::errno() == libc::EAGAIN => {}
            _ => {
                self.down_ended = true;
                let carried = self.socket.carried();
                if !self.has_sent && carried.is_some_and(|carried| carried.is_reset_by_wakes()) {
                    shut(self.ends.far);
                } else {
                    self.is_broken = true;
                }
            }
        }
    }

    fn send_down(&mut self) {
        if self.down.is_empty() {
            return;
        }
        let (place, bytes) = self.down.bytes();
        // SAFETY: bytes in this relay's buffer.
        let sent = unsafe { kernel::send(self.ends.far, place, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) };
        match sent {
            0.. => self.down.taken(sent as usize),
            _ if kernel::errno() == libc::EAGAIN => {}
            // The program closed its end, and does not receive the rest.
            _ => self.end(),
        }
    }

    fn receive_up(&mut self) {
        if self.up_ended || !self.up.is_empty() || self.ends.far < 0 {
            return;
        }
        let (place, room) = self.up.room();
        // SAFETY: free space of this relay's buffer.
        let got = unsafe { kernel::recv(self.ends.far, place, room, MSG_DONTWAIT) };
        match got {
            1.. => {
                self.has_sent = true;
                self.up.filled(got as usize);
            }
            0 => {
                self.up_ended = true;
                shut(self.socket.fd);
            }
            _ if kernel::errno() == libc::EAGAIN => {}
            _ => {
                if self.socket.is_last(1) {
                    kernel::reset_at_end(self.socket.fd);
                }
                self.end();
            }
        }
    }

    fn send_up(&mut self) {
        if self.up.is_empty() {
            return;
        }
        let (place, bytes) = self.up.bytes();
        let fd = self.socket.fd;
        let piece = [iovec { iov_base: place.cast(), iov_len: bytes }];
        let sent = send::send(fd, Pieces::new(&piece), MSG_DONTWAIT | MSG_NOSIGNAL, || {
            // SAFETY: bytes in this relay's buffer.
            unsafe { kernel::send(fd, place, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) }
        });
        match sent {
            0.. => self.up.taken(sent as usize),
            _ if kernel::errno() == libc::EAGAIN => {}
            // The peer has ended. A program that continues to write must get an error.
            _ => {
                let all = self.up.bytes().1;
                self.up.taken(all);
                self.up_ended = true;
            }
        }
    }

    /// Takes back the bytes that the program left unread when it ended. If a process that the program created still has its end, that
    /// process gets these bytes instead, and the relay continues.
    fn take_up(&mut self) {
        self.receive_all_up();
        self.take_unread();
        kernel::close(std::mem::replace(&mut self.ends.near, -1));
        kernel::close(std::mem::replace(&mut self.ends.program, -1));
        if self.ends.far < 0 || is_ready(self.ends.far, libc::POLLRDHUP) {
            self.put_back();
            self.end();
        }
        self.lend_no_more();
    }

    /// Receives the bytes that the program left unread, and puts them in front of those that were not passed on.
    fn take_unread(&mut self) {
        let deadline = Instant::now() + NAP;
        while let (place, room @ 1..) = self.down.room() {
            // SAFETY: free space of this relay's buffer.
            let got = unsafe { kernel::recv(self.ends.near, place, room, MSG_DONTWAIT) };
            match got {
                1.. => self.down.put_before(got as usize),
                // Bytes in flight arrive once there is room.
                _ if got < 0 && pair::unsent(self.ends.far) > 0 && Instant::now() < deadline => {
                    is_ready_within(self.ends.near, POLLIN, Duration::from_millis(1));
                }
                _ => break,
            }
        }
        self.down.settle();
    }

    /// Passes on all bytes that the program sent before it ended.
    fn receive_all_up(&mut self) {
        loop {
            self.receive_up();
            if self.up.is_empty() {
                return;
            }
            self.send_up();
            if !self.up.is_empty() {
                self.wait();
            }
        }
    }

    /// Puts the bytes that were received but not passed on back into the ring, from which other processes receive them.
    fn put_back(&mut self) {
        let Some(carried) = self.socket.carried() else { return };
        let (place, bytes) = self.down.bytes();
        // Bytes cannot be put back while bytes that precede the ring are still in the kernel.
        if bytes > 0 && carried.inward.phase() != ByteSource::Agreed {
            let _held = carried.lock_recv();
            // SAFETY: bytes in this relay's buffer.
            unsafe { carried.inward.put_back(place, bytes) };
        }
    }

    /// Closes the copy of the program's end, because no other process wants the bytes that the program leaves there.
    fn forget_near(&mut self) {
        for fd in [&mut self.ends.near, &mut self.ends.program] {
            kernel::close(std::mem::replace(fd, -1));
        }
        self.lend_no_more();
    }

    /// Lets other processes receive again.
    fn lend_no_more(&self) {
        let lent = &self.socket.description().lent;
        if lent.load(Ordering::Acquire) == lock::thread_number() {
            lent.store(0, Ordering::Release);
            kernel::futex_wake(lent, c_int::MAX);
            if let Some(carried) = self.socket.carried() {
                carried.signal_own();
            }
        }
    }

    fn end(&mut self) -> ! {
        self.lend_no_more();
        close::part(self.socket);
        self.socket.description().release();
        exit(0)
    }
}

fn shut(fd: c_int) {
    // SAFETY: only plain numbers are passed.
    unsafe { libc::syscall(libc::SYS_shutdown, fd, libc::SHUT_WR) };
}

fn is_ready(fd: c_int, events: libc::c_short) -> bool {
    is_ready_within(fd, events, Duration::ZERO)
}

fn is_ready_within(fd: c_int, events: libc::c_short, most: Duration) -> bool {
    let (ready, found) = kernel::poll_one(fd, events, Some(most));
    ready > 0 && found & (events | libc::POLLHUP) != 0
}

/// Closes all descriptors except these. Otherwise the program's pipes and connections would stay open while the relay runs.
fn close_others(kept: &mut [c_int; 4]) {
    kept.sort_unstable();
    let mut first = 0_u32;
    for fd in kept.iter().filter(|fd| **fd >= 0) {
        let fd = *fd as u32;
        if first < fd {
            close_range(first, fd - 1);
        }
        first = fd + 1;
    }
    close_range(first, u32::MAX);
}

fn close_range(first: u32, last: u32) {
    // SAFETY: only plain numbers are passed.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if closed != 0 {
        // Linux before 5.9 has no `close_range`.
        (first..=last.min(1 << 16)).for_each(|fd| {
            kernel::close(fd as c_int);
        });
    }
}
