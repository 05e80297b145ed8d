//! A peer that writes whatever it wants into its connection's area: the other end's calls return, and other connections do
//! not notice.

use crate::common::Rack;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[test]
fn whatever_a_peer_writes_the_other_end_lives_on() {
    let rack = Rack::new("sockets-hostile", 64);
    for _ in 0..3 {
        rack.run("hostile::inside");
    }
    assert!(rack.carried() >= 60, "{}", rack.carried());
}

/// Returns the headers of all areas that this process has mapped.
fn headers() -> Vec<&'static [AtomicU64; 512]> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("a list");
    let headers = maps.lines().filter(|line| line.contains("memfd:unrack-pool")).filter_map(|line| {
        let mut words = line.split_whitespace();
        let (range, _, offset) = (words.next()?, words.next()?, words.next()?);
        let begin = usize::from_str_radix(range.split('-').next()?, 16).ok()?;
        (offset == "00000000").then_some(begin as *const [AtomicU64; 512])
    });
    // SAFETY: each is mapped, a page long, for as long as its connection is open.
    headers.map(|header| unsafe { &*header }).collect()
}

fn warm_up(one: &mut UnixStream, other: &mut UnixStream) {
    for round in 0..8 {
        let mut got = [0];
        one.write_all(&[round]).expect("room");
        other.read_exact(&mut got).expect("a byte");
        other.write_all(&got).expect("room");
        one.read_exact(&mut got).expect("a byte");
    }
}

#[test]
#[ignore = "runs below the preload library, started by the test above"]
fn inside() {
    let mut random = u64::from(std::process::id()) | 1;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 16
    };
    let (mut good, mut peer) = UnixStream::pair().expect("a pair");
    warm_up(&mut good, &mut peer);
    let own = headers();
    for _ in 0..20 {
        let (mut one, mut other) = UnixStream::pair().expect("a pair");
        warm_up(&mut one, &mut other);
        let spoiled = headers().into_iter().find(|header| !own.iter().any(|own| std::ptr::eq(*own, *header)));
        let spoiled = spoiled.expect("it is carried");
        one.set_nonblocking(true).expect("open");
        other.set_nonblocking(true).expect("open");
        let mut buffer = vec![0; 700_000];
        for _ in 0..300 {
            let value = match next() % 6 {
                0 => 0,
                1 => 1,
                2 => u64::MAX,
                3 => next() % 600_000,
                4 => next(),
                _ => 1 << (next() % 64),
            };
            spoiled[next() as usize % 512].store(value, Ordering::Release);
            let size = next() as usize % buffer.len();
            let fd = [one.as_raw_fd(), other.as_raw_fd()][next() as usize % 2];
            let mut polled = libc::pollfd { fd, events: libc::POLLIN | libc::POLLOUT, revents: 0 };
            // SAFETY: buffers of our own, with their lengths.
            unsafe {
                match next() % 4 {
                    0 => {
                        libc::send(fd, buffer.as_ptr().cast(), size, libc::MSG_NOSIGNAL);
                    }
                    1 => {
                        libc::recv(fd, buffer.as_mut_ptr().cast(), size, 0);
                    }
                    2 => {
                        libc::recv(fd, buffer.as_mut_ptr().cast(), size, libc::MSG_PEEK);
                    }
                    _ => {
                        libc::poll(&raw mut polled, 1, 0);
                    }
                };
            }
        }
        drop((one, other));
        warm_up(&mut good, &mut peer);
    }
}

#[test]
fn a_peer_that_only_wakes_does_not_hold_a_call_beyond_its_time() {
    Rack::new("sockets-flood", 16).run("hostile::flood");
}

/// Places of the sums of wake bytes in a header, in words: see `Writer` in `area`.
const WAKES: [usize; 2] = [(384 + 40) / 8, (768 + 40) / 8];

#[test]
#[ignore = "runs below the preload library, started by the test above"]
fn flood() {
    let (mut victim, mut peer) = UnixStream::pair().expect("a pair");
    warm_up(&mut victim, &mut peer);
    let header = headers().pop().expect("it is carried");
    victim.set_read_timeout(Some(Duration::from_millis(100))).expect("open");
    let (has_returned, begin) = (AtomicBool::new(false), Instant::now());
    let patience = Duration::from_secs(60);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !has_returned.load(Ordering::Acquire) && begin.elapsed() < patience {
                for word in WAKES {
                    header[word].fetch_add(1, Ordering::AcqRel);
                }
                // SAFETY: a byte of our own, past the library.
                unsafe {
                    let call = libc::SYS_sendto;
                    let none = std::ptr::null::<u8>();
                    libc::syscall(call, peer.as_raw_fd(), [0_u8].as_ptr(), 1, libc::MSG_DONTWAIT, none, 0)
                };
            }
        });
        let got = victim.read(&mut [0]).expect_err("no byte of the stream");
        has_returned.store(true, Ordering::Release);
        assert_eq!(got.kind(), std::io::ErrorKind::WouldBlock);
    });
    assert!(begin.elapsed() < patience, "it returned when the peer stopped");
}
