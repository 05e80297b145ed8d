//! Bytes that pass while threads, processes and programs share the ends of a connection: all arrive, once, in order.

use crate::common::Rack;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

#[test]
fn streams_of_any_sizes_arrive_in_order_both_ways() {
    let rack = Rack::new("sockets-streams", 64);
    rack.run("flows::streams");
    assert!(rack.carried() >= 8, "{}", rack.carried());
}

#[test]
fn processes_that_share_an_end_lose_nothing() {
    let rack = Rack::new("sockets-forks", 16);
    rack.run("flows::forks");
    assert!(rack.carried() >= 1);
}

#[test]
fn a_program_without_the_library_goes_on_where_this_one_stopped() {
    let rack = Rack::new("sockets-strangers", 16);
    rack.run("flows::strangers");
    assert!(rack.carried() >= 2);
}

#[test]
fn a_program_with_the_library_has_what_was_in_the_ring() {
    let rack = Rack::new("sockets-heirs", 16);
    rack.run("flows::heirs");
    assert!(rack.carried() >= 1);
}

#[test]
fn a_socket_that_is_passed_on_is_whole() {
    let rack = Rack::new("sockets-passed", 16);
    rack.run("flows::passed");
    assert!(rack.carried() >= 1);
}

#[test]
fn a_program_that_closes_all_descriptors_is_woken_still() {
    let rack = Rack::new("sockets-wakeups", 16);
    rack.run("flows::wakeups_of_sleepers");
    assert!(rack.carried() >= 1);
}

#[test]
fn a_set_tells_of_bytes_in_the_order_in_which_they_came() {
    let rack = Rack::new("sockets-order", 16);
    rack.run("flows::order");
    assert!(rack.carried() >= 5, "{}", rack.carried());
}

/// Byte at a position of a stream: no two positions near each other are alike.
pub(crate) fn byte(position: u64) -> u8 {
    (position.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn send_stream(mut to: impl Write, bytes: u64, seed: u64) {
    let (mut at, mut random) = (0, seed | 1);
    while at < bytes {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Small writes, large ones, and some that do not fit into the ring.
        let most = [7, 300, 70_000, 1_500_000][(random >> 61) as usize & 3];
        let size = ((random >> 20) % most + 1).min(bytes - at);
        let piece: Vec<u8> = (at..at + size).map(byte).collect();
        to.write_all(&piece).expect("the peer reads");
        at += size;
    }
}

fn check_stream(mut from: impl Read, bytes: u64, seed: u64) {
    let (mut at, mut random, mut piece) = (0, seed | 1, vec![0; 200_000]);
    while at < bytes {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let most = [3, 1_000, 64 << 10, 200_000][(random >> 61) as usize & 3];
        let room = ((random >> 20) as usize % most + 1).min((bytes - at) as usize);
        let got = from.read(&mut piece[..room]).expect("the peer writes");
        assert!(got > 0, "the stream ended at {at} of {bytes}");
        for (i, found) in piece[..got].iter().enumerate() {
            assert_eq!(*found, byte(at + i as u64), "byte {} of {bytes}", at + i as u64);
        }
        at += got as u64;
    }
}

pub(crate) fn internet() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    (client, listener.accept().expect("its other end").0)
}

/// Passes bytes to and fro until both directions are in the ring.
pub(crate) fn warm_up(mut one: impl Read + Write, mut other: impl Read + Write) {
    for round in 0..8 {
        let mut got = [0];
        one.write_all(&[round]).expect("room");
        other.read_exact(&mut got).expect("a byte");
        other.write_all(&got).expect("room");
        one.read_exact(&mut got).expect("a byte");
        assert_eq!(got, [round]);
    }
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn streams() {
    for round in 0..4 {
        let (a, b) = UnixStream::pair().expect("a pair");
        both_ways(&a, &b, round);
        let (a, b) = internet();
        both_ways(&a, &b, round);
    }
}

fn both_ways<S: Sync>(a: &S, b: &S, round: u64)
where
    for<'a> &'a S: Read + Write,
{
    let bytes = 6_000_000;
    std::thread::scope(|scope| {
        scope.spawn(move || send_stream(a, bytes, round));
        scope.spawn(move || send_stream(b, bytes, round + 100));
        scope.spawn(move || check_stream(b, bytes, round + 200));
        check_stream(a, bytes, round + 300);
    });
}

/// Returns this process's descriptors of wakeups.
fn wakeups() -> Vec<i32> {
    let open = std::fs::read_dir("/proc/self/fd").expect("descriptors").flatten();
    let is_wakeup = |path: &std::path::Path| {
        std::fs::read_link(path).is_ok_and(|link| link.as_os_str() == "anon_inode:[eventfd]")
    };
    let number = |path: std::path::PathBuf| path.file_name()?.to_str()?.parse().ok();
    // One that another thread is just making is at a lower number, where the program may close it.
    open.map(|entry| entry.path())
        .filter(|path| is_wakeup(path))
        .filter_map(number)
        .filter(|fd| *fd >= 900)
        .collect()
}

#[test]
fn a_program_that_makes_sets_again_and_again_keeps_a_wakeup() {
    let rack = Rack::new("sockets-sets", 16);
    rack.run("flows::sets");
    assert!(rack.carried() >= 1);
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn sets() {
    let (a, b) = internet();
    warm_up(&a, &b);
    let mut had = Vec::new();
    // More than the broker names for one process.
    for _ in 0..100 {
        // SAFETY: plain numbers, and events of our own.
        unsafe {
            let set = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 7 };
            assert_eq!(libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, b.as_raw_fd(), &raw mut event), 0);
            // It sleeps, as nothing comes.
            assert_eq!(libc::epoll_wait(set, &raw mut event, 1, 1), 0);
            had.push(wakeups().len());
            libc::close(set);
        }
    }
    assert!(had.iter().all(|count| count == &had[0]), "{had:?}");
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn wakeups_of_sleepers() {
    let (a, b) = internet();
    warm_up(&a, &b);
    let (mut ours, mut theirs) = (&a, &b);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut byte = [0];
            while theirs.read(&mut byte).expect("a byte") == 1 {
                theirs.write_all(&byte).expect("room");
            }
        });
        let mut had = Vec::new();
        for round in 0..20_u8 {
            // Long enough for the other thread to fall asleep.
            std::thread::sleep(std::time::Duration::from_millis(5));
            let mut byte = [round];
            ours.write_all(&byte).expect("room");
            ours.read_exact(&mut byte).expect("a byte");
            assert_eq!(byte, [round]);
            had = wakeups();
            for wakeup in &had {
                // SAFETY: plain numbers.
                assert_eq!(unsafe { libc::close(*wakeup) }, -1, "a wakeup is not the program's to close");
                // SAFETY: plain numbers.
                assert_eq!(unsafe { libc::dup2(0, *wakeup) }, -1, "nor to replace");
            }
            // SAFETY: plain numbers.
            assert_eq!(unsafe { libc::close_range(700, u32::MAX, 0) }, 0);
            // The other thread may have made one meanwhile.
            let kept = wakeups();
            assert!(had.iter().all(|wakeup| kept.contains(wakeup)), "{had:?} {kept:?}");
        }
        // SAFETY: all zeros are limits.
        let mut most = unsafe { std::mem::zeroed::<libc::rlimit>() };
        // SAFETY: limits of our own.
        unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut most) };
        assert_eq!(had.is_empty(), most.rlim_cur < 900, "{had:?}");
        a.shutdown(Shutdown::Write).expect("an end");
    });
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn forks() {
    let (mut ours, mut theirs) = UnixStream::pair().expect("a pair");
    warm_up(&ours, &theirs);
    let (children, lines) = (4_u8, 3_000_u32);
    let mut numbers = Vec::new();
    for child in 0..children {
        // SAFETY: the child only writes and ends.
        match unsafe { libc::fork() } {
            0 => {
                drop(ours);
                for line in 0..lines {
                    let mut record = [child; 8];
                    record[4..].copy_from_slice(&line.to_le_bytes());
                    theirs.write_all(&record).expect("the parent reads");
                }
                // SAFETY: ends this process, without its parent's destructors.
                unsafe { libc::_exit(0) }
            }
            number => numbers.push(number),
        }
    }
    drop(theirs);
    let mut next = vec![0_u32; children.into()];
    let mut record = [0; 8];
    while ours.read_exact(&mut record).is_ok() {
        let (child, line) =
            (usize::from(record[0]), u32::from_le_bytes([record[4], record[5], record[6], record[7]]));
        assert_eq!(line, next[child], "child {child}");
        next[child] += 1;
    }
    assert_eq!(next, vec![lines; children.into()]);
    for number in numbers {
        // SAFETY: a child of this process.
        unsafe { libc::waitpid(number, std::ptr::null_mut(), 0) };
    }
}

/// Runs a program on a socket that has unread bytes in the ring, and returns what it wrote back.
fn on_socket(program: &mut Command, by_fork: bool) -> Vec<u8> {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    warm_up(&ours, &theirs);
    let bytes = 120_000;
    send_stream(&ours, bytes, 1);
    let ends = [&theirs, &theirs].map(|end| OwnedFd::from(end.try_clone().expect("a copy")));
    let [input, output] = ends;
    program.stdin(input).stdout(output).stderr(Stdio::inherit());
    if by_fork {
        // SAFETY: nothing is done: the standard library then forks instead of spawning.
        unsafe { program.pre_exec(|| Ok(())) };
    }
    let parent = ours.as_raw_fd();
    let mut child = std::thread::scope(|scope| {
        // The end that hands bytes back is in a call: here it waits for the program's answer.
        let started = scope.spawn(|| program.spawn().expect("the program"));
        let mut one = libc::pollfd { fd: parent, events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor of our own.
        unsafe { libc::poll(&raw mut one, 1, 10_000) };
        started.join().expect("it was started")
    });
    drop(theirs);
    *program = Command::new("true");
    ours.shutdown(Shutdown::Write).expect("open");
    let mut answer = Vec::new();
    (&ours).read_to_end(&mut answer).expect("the program's answer");
    assert!(child.wait().expect("its status").success());
    let wrong = answer.iter().enumerate().find(|(i, found)| **found != byte(*i as u64));
    assert_eq!((answer.len() as u64, wrong), (bytes, None));
    answer
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn strangers() {
    for by_fork in [true, false] {
        let mut cat = Command::new("cat");
        let answer = on_socket(cat.env_remove("LD_PRELOAD"), by_fork);
        check_stream(&answer[..], answer.len() as u64, 2);
    }
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn heirs() {
    let answer = on_socket(&mut Command::new("cat"), true);
    check_stream(&answer[..], answer.len() as u64, 2);
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn passed() {
    let (ours, theirs) = internet();
    warm_up(&ours, &theirs);
    send_stream(&ours, 100_000, 3);
    let (from, to) = UnixStream::pair().expect("a pair");
    std::thread::scope(|scope| {
        scope.spawn(|| pass(&from, theirs.as_raw_fd()));
        let mut one = libc::pollfd { fd: ours.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor of our own.
        unsafe { libc::poll(&raw mut one, 1, 300) };
    });
    drop(theirs);
    let received = receive(&to);
    send_stream(&ours, 50_000, 4);
    ours.shutdown(Shutdown::Write).expect("open");
    check_stream(&received, 100_000, 5);
    check_stream(&received, 50_000, 6);
}

/// Passes a socket to another process, or to this one.
pub(crate) fn pass(through: &UnixStream, socket: RawFd) {
    let mut room = [0_usize; 8];
    let mut piece = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: 1 };
    let mut control = [0_usize; 8];
    // SAFETY: structures of our own; the control buffer has room for one descriptor.
    unsafe {
        let mut message = std::mem::zeroed::<libc::msghdr>();
        (message.msg_iov, message.msg_iovlen) = (&raw mut piece, 1);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as usize;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(header).cast::<libc::c_int>().write_unaligned(socket);
        assert_eq!(libc::sendmsg(through.as_raw_fd(), &raw const message, 0), 1);
    }
}

pub(crate) fn receive(through: &UnixStream) -> TcpStream {
    let mut room = [0_usize; 8];
    let mut piece = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: 1 };
    let mut control = [0_usize; 8];
    // SAFETY: structures of our own; what came is a descriptor of this process now.
    unsafe {
        let mut message = std::mem::zeroed::<libc::msghdr>();
        (message.msg_iov, message.msg_iovlen) = (&raw mut piece, 1);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        assert_eq!(libc::recvmsg(through.as_raw_fd(), &raw mut message, 0), 1);
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        let fd = libc::CMSG_DATA(header).cast::<libc::c_int>().read_unaligned();
        std::os::fd::FromRawFd::from_raw_fd(fd)
    }
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn order() {
    let pairs: Vec<_> = (0..5).map(|_| internet()).collect();
    // SAFETY: plain numbers, and an event of our own.
    let set = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    for (i, (one, other)) in pairs.iter().enumerate() {
        warm_up(one, other);
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: i as u64 };
        // SAFETY: an event of our own.
        let added = unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, other.as_raw_fd(), &raw mut event) };
        assert_eq!(added, 0);
    }
    for round in 0..120_usize {
        // Another order each time, and more sends on one of them than moments are kept.
        let mut sent: Vec<usize> = (0..pairs.len()).collect();
        sent.sort_by_key(|i| (i + 1) * (round + 7) % 11);
        for (place, &i) in sent.iter().enumerate() {
            for _ in 0..if place == round % 5 { 1 + round % 20 } else { 1 } {
                (&pairs[i].0).write_all(&[1]).expect("room");
            }
        }
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 8];
        // SAFETY: room for so many.
        let found = unsafe { libc::epoll_wait(set, events.as_mut_ptr(), 8, 1000) };
        let told: Vec<usize> = events[..found as usize].iter().map(|event| event.u64 as usize).collect();
        assert_eq!(told, sent, "round {round}");
        for &i in &told {
            let mut bytes = [0; 64];
            assert!((&pairs[i].1).read(&mut bytes).expect("bytes") > 0);
        }
        // SAFETY: room for so many.
        assert_eq!(unsafe { libc::epoll_wait(set, events.as_mut_ptr(), 8, 0) }, 0);
    }
}
