//! Edges of calls: bad pointers, several messages, signals, resets on purpose, copies of descriptors, a broker that does not
//! answer. What the kernel does is tested natively first, then by reference.

use crate::common::{Rack, library};
use crate::flows::{internet, warm_up};
use libc::{c_int, c_void};
use std::io::{Error, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::process::Command;
use std::time::{Duration, Instant};

fn by_reference(name: &str, test: &str) {
    let rack = Rack::new(name, 16);
    rack.run(test);
    assert!(rack.carried() >= 2, "{}", rack.carried());
}

#[test]
fn bad_pointers_are_refused_as_by_the_kernel() {
    pointers();
    by_reference("sockets-pointers", "edges::pointers");
}

/// Returns a page with these rights.
fn page(rights: c_int) -> *mut c_void {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory.
    unsafe { libc::mmap(std::ptr::null_mut(), 4096, rights, flags, -1, 0) }
}

#[track_caller]
fn is_fault(result: isize) {
    assert_eq!((result, Error::last_os_error().raw_os_error()), (-1, Some(libc::EFAULT)));
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn pointers() {
    let (a, b) = internet();
    warm_up(&a, &b);
    let (to, from) = (a.as_raw_fd(), b.as_raw_fd());
    let unmapped = page(libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: memory of the test, and descriptors of its own; the kernel refuses what is bad.
    unsafe {
        // It was good when it was used before.
        assert_eq!(libc::send(to, unmapped, 10, 0), 10);
        assert_eq!(libc::recv(from, unmapped, 10, libc::MSG_WAITALL), 10);
        libc::munmap(unmapped, 4096);
        let (none, constant) = (page(libc::PROT_NONE), page(libc::PROT_READ));
        for bad in [8 as *mut c_void, std::ptr::null_mut(), none, unmapped] {
            is_fault(libc::send(to, bad, 10, 0));
            is_fault(libc::write(to, bad, 10));
            let piece = libc::iovec { iov_base: bad, iov_len: 10 };
            is_fault(libc::writev(to, &raw const piece, 1));
            is_fault(libc::sendmsg(to, bad.cast(), 0));
            is_fault(libc::writev(to, bad.cast(), 1));
            is_fault(libc::poll(bad.cast(), 1, 0) as isize);
        }
        assert_eq!(libc::send(to, c"fault".as_ptr().cast(), 5, 0), 5);
        let mut one = libc::pollfd { fd: from, events: libc::POLLIN, revents: 0 };
        assert_eq!(libc::poll(&raw mut one, 1, 10_000), 1);
        for bad in [8 as *mut c_void, std::ptr::null_mut(), none, constant, unmapped] {
            is_fault(libc::recv(from, bad, 10, 0));
            is_fault(libc::read(from, bad, 10));
            is_fault(libc::recv(from, bad, 10, libc::MSG_PEEK));
            let piece = libc::iovec { iov_base: bad, iov_len: 10 };
            is_fault(libc::readv(from, &raw const piece, 1));
        }
        for bad in [8 as *mut c_void, none, unmapped] {
            is_fault(libc::readv(from, bad.cast(), 1));
            is_fault(libc::recvmsg(from, bad.cast(), 0));
            is_fault(libc::ioctl(from, libc::FIONREAD, bad) as isize);
        }
        let mut piece = [0_u8; 16];
        // All bytes are there still.
        assert_eq!(libc::recv(from, piece.as_mut_ptr().cast(), 16, 0), 5);
        assert_eq!(&piece[..5], b"fault");
    }
}

#[test]
fn a_call_for_several_messages_has_the_kernels_results() {
    messages();
    by_reference("sockets-messages", "edges::messages");
}

/// Receives at most three messages of four bytes, and returns how many, and the length of each.
fn receive_three(fd: RawFd, flags: c_int, most: Option<Duration>) -> (c_int, Vec<u32>) {
    let mut bytes = [[0_u8; 4]; 3];
    let mut pieces =
        bytes.each_mut().map(|one| libc::iovec { iov_base: one.as_mut_ptr().cast(), iov_len: 4 });
    let mut time =
        most.map(|most| libc::timespec { tv_sec: most.as_secs() as _, tv_nsec: most.subsec_nanos() as _ });
    let place = time.as_mut().map_or(std::ptr::null_mut(), |time| time as *mut libc::timespec);
    let mut all = pieces.each_mut().map(|piece| {
        // SAFETY: all zeros are an empty message.
        let mut message = unsafe { std::mem::zeroed::<libc::mmsghdr>() };
        (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (piece, 1);
        message
    });
    // SAFETY: messages of our own.
    let got = unsafe { libc::recvmmsg(fd, all.as_mut_ptr(), 3, flags as _, place) };
    (got, all[..got.max(0) as usize].iter().map(|message| message.msg_len).collect())
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn messages() {
    let (mut a, b) = internet();
    warm_up(&a, &b);
    let fd = b.as_raw_fd();
    let send = |mut to: &std::net::TcpStream, bytes: usize| {
        to.write_all(&vec![7; bytes]).expect("room");
        let mut there: c_int = 0;
        while (there as usize) < bytes {
            // SAFETY: an `int` of our own.
            unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut there) };
        }
    };
    send(&a, 10);
    assert_eq!(receive_three(fd, 0, None), (3, vec![4, 4, 2]));
    send(&a, 6);
    assert_eq!(receive_three(fd, libc::MSG_WAITFORONE, None), (2, vec![4, 2]));
    assert_eq!(receive_three(fd, libc::MSG_DONTWAIT, None), (-1, vec![]));
    send(&a, 4);
    // The time is looked at after each message only.
    assert_eq!(receive_three(fd, 0, Some(Duration::ZERO)), (1, vec![4]));
    a.write_all(b"end").expect("room");
    drop(a);
    assert_eq!(receive_three(fd, 0, None), (3, vec![3, 0, 0]));
}

#[test]
fn a_signal_ends_a_send_of_which_a_part_is_sent() {
    interrupted();
    by_reference("sockets-interrupted", "edges::interrupted");
}

extern "C" fn on_signal(_: c_int) {}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn interrupted() {
    let (a, b) = internet();
    warm_up(&a, &b);
    let all = vec![7_u8; 32 << 20];
    // SAFETY: a handler that does nothing, and calls that are begun again after it (`SA_RESTART`).
    unsafe {
        let mut action = std::mem::zeroed::<libc::sigaction>();
        (action.sa_sigaction, action.sa_flags) = (on_signal as *const () as usize, libc::SA_RESTART);
        libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut());
    }
    // SAFETY: a call without arguments.
    let sender = unsafe { libc::pthread_self() };
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(100));
                // SAFETY: a thread that waits for this one.
                unsafe { libc::pthread_kill(sender, libc::SIGUSR1) };
            }
        });
        // SAFETY: bytes of our own.
        let sent = unsafe { libc::send(a.as_raw_fd(), all.as_ptr().cast(), all.len(), 0) };
        stop.store(true, std::sync::atomic::Ordering::Release);
        assert!(sent > 0 && (sent as usize) < all.len(), "{sent}");
    });
}

#[test]
fn a_broker_that_does_not_answer_costs_its_time_once() {
    let folder = unrack_testing::TestFolder::new("sockets-silent");
    let path = folder.join("silent.sock");
    // A broker that was stopped: connections to it are made, and nothing is answered.
    // SAFETY: an address of our own.
    unsafe {
        let listener = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0);
        let mut address = std::mem::zeroed::<libc::sockaddr_un>();
        address.sun_family = libc::AF_UNIX as _;
        for (to, from) in address.sun_path.iter_mut().zip(path.to_str().expect("text").bytes()) {
            *to = from as _;
        }
        let bytes = size_of_val(&address) as libc::socklen_t;
        assert_eq!(libc::bind(listener, (&raw const address).cast(), bytes), 0);
        assert_eq!(libc::listen(listener, 1000), 0);
    }
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("ours");
    let begin = Instant::now();
    let status = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "edges::many", "--ignored", "--test-threads=1"])
        .env("LD_PRELOAD", library())
        .env(unrack_socket::SOCKET_VARIABLE, &path)
        .env(unrack_socket::AFTER_VARIABLE, "1")
        .status()
        .expect("a child");
    assert!(status.success());
    // Each of 20 processes and connections would wait for a second, and most of them several times.
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn many() {
    for _ in 0..20 {
        let (a, b) = internet();
        // SAFETY: the child passes bytes, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            warm_up(&a, &b);
            // SAFETY: ends this process, without its parent's destructors.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: a child of this process.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        drop(a);
        // The broker has no descriptor of the connection that would keep it open.
        assert_eq!((&b).read(&mut [0]).expect("the end"), 0);
    }
}

#[test]
fn a_reset_on_purpose_is_as_the_kernels() {
    resets();
    by_reference("sockets-resets", "edges::resets");
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn resets() {
    for has_bytes in [false, true] {
        let (mut a, mut b) = internet();
        warm_up(&a, &b);
        let now = libc::linger { l_onoff: 1, l_linger: 0 };
        // SAFETY: a structure of our own.
        unsafe {
            let value = (&raw const now).cast::<c_void>();
            libc::setsockopt(
                a.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_LINGER,
                value,
                size_of_val(&now) as u32,
            )
        };
        if has_bytes {
            a.write_all(b"last").expect("room");
            let mut there: c_int = 0;
            while there < 4 {
                // SAFETY: an `int` of our own.
                unsafe { libc::ioctl(b.as_raw_fd(), libc::FIONREAD, &raw mut there) };
            }
        }
        drop(a);
        let mut one = libc::pollfd { fd: b.as_raw_fd(), events: libc::POLLOUT | libc::POLLIN, revents: 0 };
        // SAFETY: a structure of our own.
        assert_eq!(unsafe { libc::poll(&raw mut one, 1, 10_000) }, 1);
        let all = libc::POLLIN | libc::POLLOUT | libc::POLLERR | libc::POLLHUP;
        assert_eq!(one.revents, all, "bytes {has_bytes}");
        let mut got = [0; 10];
        if has_bytes {
            assert_eq!(b.read(&mut got).expect("bytes that came before the reset"), 4);
        }
        let error = b.read(&mut got).expect_err("a reset");
        assert_eq!(error.raw_os_error(), Some(libc::ECONNRESET), "bytes {has_bytes}");
        assert_eq!(b.read(&mut got).expect("the end"), 0);
        let error = b.write(&got).expect_err("no peer");
        assert_eq!(error.raw_os_error(), Some(libc::EPIPE), "bytes {has_bytes}");
    }
}

#[test]
fn a_copy_of_a_descriptor_that_is_closed_is_as_the_kernels() {
    copies();
    by_reference("sockets-copies", "edges::copies");
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn copies() {
    let (mut a, mut b) = internet();
    warm_up(&a, &b);
    // SAFETY: descriptors and an event of our own.
    unsafe {
        let set = libc::epoll_create1(libc::EPOLL_CLOEXEC);
        let copy = libc::dup(b.as_raw_fd());
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 7 };
        assert_eq!(libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, copy, &raw mut event), 0);
        // The kernel's set holds the open file, which lives: closing the copy that was registered takes nothing out.
        libc::close(copy);
        a.write_all(&[1]).expect("room");
        assert_eq!(libc::epoll_wait(set, &raw mut event, 1, 10_000), 1);
        assert_eq!({ event.u64 }, 7);
        b.read_exact(&mut [0]).expect("a byte");
        assert_eq!(libc::epoll_wait(set, &raw mut event, 1, 0), 0);
        libc::close(set);
    }
}
