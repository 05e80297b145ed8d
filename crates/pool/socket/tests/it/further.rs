//! Calls beyond plain bytes: files and pipes, `MSG_ZEROCOPY`, bytes where they lie, `io_uring`, cancelled threads.

use crate::common::Rack;
use crate::flows::{byte, internet, warm_up};
use libc::{c_char, c_int, c_void};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};

#[test]
fn files_and_pipes_pass_through_sockets_whole() {
    let rack = Rack::new("sockets-files", 16);
    rack.run("further::files");
    assert!(rack.carried() >= 2, "{}", rack.carried());
}

#[test]
fn calls_with_zerocopy_are_reported_as_the_kernel_does() {
    let rack = Rack::new("sockets-zerocopy", 16);
    rack.run("further::zerocopy");
    assert!(rack.carried() >= 2, "{}", rack.carried());
}

#[test]
fn bytes_are_read_and_written_where_they_lie() {
    let rack = Rack::new("sockets-references", 16);
    rack.run("further::references");
    assert!(rack.carried() >= 2, "{}", rack.carried());
}

#[test]
fn messages_say_how_many_bytes_are_left() {
    inq();
    let rack = Rack::new("sockets-inq", 16);
    rack.run("further::inq");
    assert!(rack.carried() >= 2, "{}", rack.carried());
}

#[test]
fn a_program_with_an_io_uring_stays_with_the_kernel() {
    let rack = Rack::new("sockets-uring", 16);
    rack.run("further::uring");
    assert_eq!(rack.carried(), 0);
}

#[test]
fn a_thread_that_reads_from_a_pipe_can_be_cancelled() {
    Rack::new("sockets-cancel", 16).run("further::cancelled");
}

#[test]
fn what_is_printed_arrives_between_what_is_sent() {
    let rack = Rack::new("sockets-printed", 16);
    rack.run("further::printed");
    assert!(rack.carried() >= 2, "{}", rack.carried());
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(byte).collect()
}

/// Receives so many bytes in a thread, while `send` sends them.
fn exchange(mut to: impl Read + Send, bytes: usize, send: impl FnOnce()) -> Vec<u8> {
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut all = vec![0; bytes];
            to.read_exact(&mut all).expect("all bytes");
            all
        });
        send();
        reader.join().expect("a reader")
    })
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn files() {
    let all = content(3_000_000);
    let mut file = tempfile();
    file.write_all(&all).expect("room");
    let (a, b) = internet();
    warm_up(&a, &b);
    // A part by an offset of the call's own, and the rest from where the file is.
    let mut offset = 1_000_i64;
    // SAFETY: plain numbers, and an offset of our own.
    unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_SET) };
    let got = exchange(&b, all.len() - 1_000 + 500, || {
        while offset < all.len() as i64 {
            // SAFETY: an offset of our own.
            let sent = unsafe { libc::sendfile(a.as_raw_fd(), file.as_raw_fd(), &raw mut offset, 700_000) };
            assert!(sent > 0);
        }
        // SAFETY: no offset.
        let sent = unsafe { libc::sendfile(a.as_raw_fd(), file.as_raw_fd(), std::ptr::null_mut(), 500) };
        assert_eq!(sent, 500);
        // SAFETY: plain numbers.
        assert_eq!(unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_CUR) }, 500);
    });
    assert!(got[..all.len() - 1_000] == all[1_000..] && got[all.len() - 1_000..] == all[..500]);
    pipes(&a, &b, &all);
}

/// Passes bytes from a pipe through a connection into another pipe.
fn pipes(a: &std::net::TcpStream, b: &std::net::TcpStream, all: &[u8]) {
    let ((mut from, mut into), (mut out, to)) =
        (std::io::pipe().expect("a pipe"), std::io::pipe().expect("a pipe"));
    // SAFETY: no offsets; descriptors of our own.
    let splice = |from: RawFd, to: RawFd, bytes| unsafe {
        libc::splice(from, std::ptr::null_mut(), to, std::ptr::null_mut(), bytes, 0)
    };
    let got = std::thread::scope(|scope| {
        scope.spawn(move || into.write_all(all).expect("a reader"));
        let (pipe, end) = (from.as_raw_fd(), a.as_raw_fd());
        scope.spawn(move || {
            let mut sum = 0;
            while sum < all.len() {
                let moved = splice(pipe, end, 100_000);
                assert!(moved > 0, "{moved} after {sum}");
                sum += moved as usize;
            }
        });
        let (end, pipe) = (b.as_raw_fd(), to.as_raw_fd());
        scope.spawn(move || {
            let mut sum = 0;
            while sum < all.len() {
                let moved = splice(end, pipe, 50_000);
                assert!(moved > 0, "{moved} after {sum}");
                sum += moved as usize;
            }
        });
        let mut got = vec![0; all.len()];
        out.read_exact(&mut got).expect("all bytes");
        got
    });
    assert!(got == all);
    // Nothing is there: a socket that does not wait says so.
    b.set_nonblocking(true).expect("a flag");
    let empty = splice(b.as_raw_fd(), to.as_raw_fd(), 10);
    assert_eq!((empty, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EAGAIN)));
    let _ = from.read(&mut []);
}

fn tempfile() -> std::fs::File {
    // SAFETY: a name that ends in zero.
    let made = unsafe { libc::memfd_create(c"content".as_ptr(), 0) };
    assert!(made >= 0);
    // SAFETY: ours.
    unsafe { std::os::fd::FromRawFd::from_raw_fd(made) }
}

/// Sends a byte with `MSG_ZEROCOPY`.
fn send_zerocopy(fd: RawFd) {
    // SAFETY: a byte of our own.
    let sent = unsafe { libc::send(fd, [7_u8].as_ptr().cast(), 1, libc::MSG_ZEROCOPY) };
    assert_eq!(sent, 1, "{}", std::io::Error::last_os_error());
}

/// Receives reports until so many calls were reported, and returns their numbers.
fn reports(fd: RawFd, calls: usize) -> Vec<u32> {
    let mut numbers = Vec::new();
    while numbers.len() < calls {
        let mut one = libc::pollfd { fd, events: 0, revents: 0 };
        // SAFETY: a structure of our own.
        assert!(unsafe { libc::poll(&raw mut one, 1, 10_000) } == 1 && one.revents & libc::POLLERR != 0);
        let mut beside = [0_u64; 16];
        // SAFETY: all zeros are an empty message.
        let mut message = unsafe { std::mem::zeroed::<libc::msghdr>() };
        (message.msg_control, message.msg_controllen) = (beside.as_mut_ptr().cast(), 128);
        // SAFETY: a message of our own.
        assert_eq!(unsafe { libc::recvmsg(fd, &raw mut message, libc::MSG_ERRQUEUE) }, 0);
        // SAFETY: the kernel, or this library, wrote a message with its header.
        let error = unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            assert!(((*header).cmsg_level, (*header).cmsg_type) == (libc::SOL_IP, libc::IP_RECVERR));
            libc::CMSG_DATA(header).cast::<libc::sock_extended_err>().read_unaligned()
        };
        assert_eq!((error.ee_errno, error.ee_origin, error.ee_code), (0, 5, 1));
        numbers.extend(error.ee_info..=error.ee_data);
    }
    numbers.sort_unstable();
    numbers
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn zerocopy() {
    let (a, b) = internet();
    let one: c_int = 1;
    // SAFETY: an `int` of our own.
    let set = unsafe {
        let value = (&raw const one).cast::<c_void>();
        libc::setsockopt(a.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ZEROCOPY, value, 4)
    };
    assert_eq!(set, 0);
    let (mut received, calls) = ([0; 1], 30);
    for call in 0..calls {
        // The first of them go through the kernel, those in the middle into the ring, and the last through the kernel again.
        send_zerocopy(a.as_raw_fd());
        (&b).read_exact(&mut received).expect("a byte");
        (&b).write_all(&received).expect("room");
        (&a).read_exact(&mut received).expect("a byte");
        if call == 25 {
            assert_eq!(reports(a.as_raw_fd(), 26), (0..26).collect::<Vec<_>>());
            // Urgent data is the kernel's, and what follows.
            // SAFETY: a byte of our own.
            let urgent = unsafe { libc::send(a.as_raw_fd(), [1_u8].as_ptr().cast(), 1, libc::MSG_OOB) };
            assert_eq!(urgent, 1);
        }
    }
    assert_eq!(reports(a.as_raw_fd(), 4), (26..30).collect::<Vec<_>>());
    let mut one = libc::pollfd { fd: a.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: a structure of our own.
    assert_eq!(unsafe { libc::poll(&raw mut one, 1, 0) }, 0, "no report is left");
}

type RecvRef = unsafe extern "C" fn(c_int, *mut *const c_void, c_int) -> isize;
type RecvDone = unsafe extern "C" fn(c_int, usize);
type Filler = unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> isize;
type SendRef = unsafe extern "C" fn(c_int, usize, Option<Filler>, *mut c_void, c_int) -> isize;

/// Returns a function of the library.
fn exported(name: &std::ffi::CStr) -> *mut c_void {
    // SAFETY: a name that ends in zero.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    assert!(!found.is_null(), "{name:?}");
    found
}

/// Puts bytes of a stream into room, and remembers how far it came in the context.
unsafe extern "C" fn put(context: *mut c_void, room: *mut c_void, bytes: usize) -> isize {
    // SAFETY: the test's position, and the library's room.
    unsafe {
        let position = &mut *context.cast::<u64>();
        for i in 0..bytes {
            room.cast::<u8>().add(i).write(byte(*position + i as u64));
        }
        *position += bytes as u64;
    }
    bytes as isize
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn references() {
    // SAFETY: the library's functions have these types.
    let (recv_ref, recv_done, send_ref) = unsafe {
        (
            std::mem::transmute::<*mut c_void, RecvRef>(exported(c"unrack_recv_ref")),
            std::mem::transmute::<*mut c_void, RecvDone>(exported(c"unrack_recv_done")),
            std::mem::transmute::<*mut c_void, SendRef>(exported(c"unrack_send_ref")),
        )
    };
    let (a, b) = internet();
    let mut bytes = std::ptr::null();
    // SAFETY: a pointer of our own.
    let early = unsafe { recv_ref(b.as_raw_fd(), &raw mut bytes, libc::MSG_DONTWAIT) };
    assert_eq!((early, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EOPNOTSUPP)));
    warm_up(&a, &b);
    let all = 5_000_000_u64;
    std::thread::scope(|scope| {
        let to = a.as_raw_fd();
        scope.spawn(move || {
            let mut position = 0_u64;
            while position < all {
                let most = ((all - position) as usize).min(300_000);
                let before = position;
                // SAFETY: the filler writes within its room.
                let sent = unsafe { send_ref(to, most, Some(put), (&raw mut position).cast(), 0) };
                assert_eq!(sent, (position - before) as isize);
            }
        });
        let mut at = 0_u64;
        while at < all {
            // SAFETY: a pointer of our own.
            let there = unsafe { recv_ref(b.as_raw_fd(), &raw mut bytes, 0) };
            assert!(there > 0, "{there}");
            // SAFETY: so many bytes lie there until they are given back.
            let found = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), there as usize) };
            // What is not given back is there again.
            let kept = found.len().div_ceil(2);
            assert!(found[..kept].iter().enumerate().all(|(i, one)| *one == byte(at + i as u64)));
            // SAFETY: fewer than there are.
            unsafe { recv_done(b.as_raw_fd(), kept) };
            at += kept as u64;
        }
    });
    drop(a);
    let mut end = [0; 1];
    assert_eq!((&b).read(&mut end).expect("the end"), 0);
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn inq() {
    const TCP_INQ: c_int = 36;
    let (a, b) = internet();
    warm_up(&a, &b);
    let one: c_int = 1;
    // SAFETY: an `int` of our own.
    let set = unsafe {
        libc::setsockopt(b.as_raw_fd(), libc::SOL_TCP, TCP_INQ, (&raw const one).cast::<c_void>(), 4)
    };
    assert_eq!(set, 0);
    (&a).write_all(&[7; 10]).expect("room");
    // All have come before the first is received.
    let mut there: c_int = 0;
    while there < 10 {
        // SAFETY: an `int` of our own.
        unsafe { libc::ioctl(b.as_raw_fd(), libc::FIONREAD, &raw mut there) };
    }
    for (most, left) in [(4, 6), (5, 1), (1, 0)] {
        let (mut bytes, mut beside) = ([0_u8; 10], [0_u64; 8]);
        let mut piece = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: most };
        // SAFETY: all zeros are an empty message.
        let mut message = unsafe { std::mem::zeroed::<libc::msghdr>() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut piece, 1);
        (message.msg_control, message.msg_controllen) = (beside.as_mut_ptr().cast(), 64);
        // SAFETY: a message of our own.
        assert_eq!(unsafe { libc::recvmsg(b.as_raw_fd(), &raw mut message, 0) }, most as isize);
        // SAFETY: the kernel, or this library, wrote a message with its header.
        let (level, kind, found) = unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            let found = libc::CMSG_DATA(header).cast::<c_int>().read_unaligned();
            ((*header).cmsg_level, (*header).cmsg_type, found)
        };
        assert_eq!((level, kind, found), (libc::SOL_TCP, TCP_INQ, left));
    }
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn uring() {
    let mut parameters = [0_u32; 30];
    // SAFETY: room for the kernel's structure of 120 bytes.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, parameters.as_mut_ptr()) };
    if ring < 0 {
        // A kernel without, or a sandbox: liburing's call is watched all the same.
        // SAFETY: the library's function; its own call fails here.
        unsafe {
            type Setup = unsafe extern "C" fn(u32, *mut c_void) -> c_int;
            let setup = std::mem::transmute::<*mut c_void, Setup>(exported(c"io_uring_setup"));
            setup(4, parameters.as_mut_ptr().cast());
        }
    }
    let (a, b) = internet();
    warm_up(&a, &b);
    warm_up(&b, &a);
}

extern "C" fn read_pipe(pipe: *mut c_void) -> *mut c_void {
    let mut byte = 0_u8;
    // SAFETY: a byte of our own.
    unsafe { libc::read(pipe as usize as c_int, (&raw mut byte).cast(), 1) };
    std::ptr::null_mut()
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn cancelled() {
    let (from, _to) = std::io::pipe().expect("a pipe");
    let mut thread = 0;
    let mut result = std::ptr::null_mut();
    // SAFETY: a thread that only reads, and is joined.
    unsafe {
        let pipe = from.as_raw_fd() as usize as *mut c_void;
        assert_eq!(libc::pthread_create(&raw mut thread, std::ptr::null(), read_pipe, pipe), 0);
        assert_eq!(libc::pthread_cancel(thread), 0);
        assert_eq!(libc::pthread_join(thread, &raw mut result), 0);
    }
    assert_eq!(result as isize, -1, "PTHREAD_CANCELED");
}

unsafe extern "C" {
    fn dprintf(fd: c_int, format: *const c_char, ...) -> c_int;
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn printed() {
    let (mut a, mut b) = internet();
    warm_up(&a, &b);
    a.write_all(b"sent ").expect("bytes go");
    let (small, large, text) = (-7, 2.5_f64, c"text".as_ptr());
    let format = c"%d %.1f %s %d %d %d %d %.1f|".as_ptr();
    // SAFETY: arguments of the kinds that the format names, more than registers hold.
    let printed = unsafe { dprintf(a.as_raw_fd(), format, small, large, text, 1, 2, 3, 4, large) };
    a.write_all(b" sent again").expect("bytes go");
    let expected = "sent -7 2.5 text 1 2 3 4 2.5| sent again";
    assert_eq!(printed as usize, expected.len() - "sent ".len() - " sent again".len());
    let mut got = vec![0; expected.len()];
    b.read_exact(&mut got).expect("all bytes");
    assert_eq!(String::from_utf8_lossy(&got), expected);
}
