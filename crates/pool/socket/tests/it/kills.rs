//! Ends that are killed at any moment: the other one has all that was sent before, and the pool has its memory back.

use crate::common::Rack;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;
use unrack_pool::wire::ListingEntry;

/// Ends killed, in a test that everybody runs; the soak test has more.
const KILLS: u32 = 60;

#[test]
fn whoever_is_killed_leaves_nothing() {
    let kills =
        std::env::var("UNRACK_SOCKET_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let rack = Rack::new("sockets-kills", 32);
    let mut random = 7_u64;
    for round in 0..kills {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let micros = (random >> 33) % 6_000;
        let mut pair: Child = rack
            .role(["kills::unix", "kills::internet"][round as usize % 2])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a child");
        // It says when its connection is carried, then both ends pass bytes without end.
        let mut said = [0; 1];
        let output = pair.stdout.as_mut().expect("piped");
        while output.read_exact(&mut said).is_ok() && said != [b'!'] {}
        std::thread::sleep(Duration::from_micros(micros));
        drop(pair.stdin.take());
        let output = pair.wait_with_output().expect("its output");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success() && text.contains("1 passed"),
            "round {round}, after {micros} us: {text}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    assert!(rack.carried() >= u64::from(kills), "{} of {kills} were carried", rack.carried());
    assert_eq!(
        rack.counts.refused.load(Ordering::Relaxed),
        0,
        "the pool ran full: areas were not given back"
    );
    // The broker keeps one for the next connection.
    while segments(&rack) > 1 {
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn segments(rack: &Rack) -> usize {
    let list = rack.pool.list().expect("the manager answers");
    list.iter().filter(|entry| matches!(entry, ListingEntry::Segment { .. })).count()
}

#[test]
#[ignore = "runs below the preload library, started by the test above"]
fn unix() {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    kill_one(ours, theirs);
}

#[test]
#[ignore = "runs below the preload library, started by the test above"]
fn internet() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let ours = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    let theirs = listener.accept().expect("its other end").0;
    drop(listener);
    kill_one(ours, theirs);
}

/// Has a child echo, kills it when standard input ends, and checks what this end sees of it.
fn kill_one<S: Read + Write>(mut ours: S, mut theirs: S) {
    // SAFETY: the child only reads and writes.
    let child = match unsafe { libc::fork() } {
        0 => {
            drop(ours);
            let mut piece = vec![0; 40_000];
            while let Ok(got @ 1..) = theirs.read(&mut piece) {
                if theirs.write_all(&piece[..got]).is_err() {
                    break;
                }
            }
            // SAFETY: ends this process, without its parent's destructors.
            unsafe { libc::_exit(0) }
        }
        child => child,
    };
    drop(theirs);
    let (mut sent, mut received) = (0_u64, 0_u64);
    let killer = std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        // SAFETY: a child of this process.
        unsafe { libc::kill(child, libc::SIGKILL) };
    });
    let mut piece = vec![0; 30_000];
    loop {
        let size = (sent % 29_000 + 1) as usize;
        for (i, byte) in piece[..size].iter_mut().enumerate() {
            *byte = (sent + i as u64) as u8;
        }
        if ours.write_all(&piece[..size]).is_err() {
            break;
        }
        sent += size as u64;
        let mut left = size;
        while left > 0 {
            match ours.read(&mut piece[..left]) {
                Ok(got @ 1..) => {
                    for (i, byte) in piece[..got].iter().enumerate() {
                        assert_eq!(*byte, (received + i as u64) as u8);
                    }
                    received += got as u64;
                    left -= got;
                }
                Ok(_) | Err(_) => break,
            }
        }
        if left > 0 {
            break;
        }
        if sent > 100_000 && sent - (size as u64) <= 100_000 {
            println!("!");
            let _ = std::io::stdout().flush();
        }
    }
    assert!(received <= sent && sent > 100_000, "{received} of {sent}");
    killer.join().expect("it only kills");
    // SAFETY: a child of this process.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
}
