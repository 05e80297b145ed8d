//! A manager that is stopped: whoever asks it waits as long as was said, and no longer.

use crate::common::folder::Folder;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use unrack_pool::{Client, Error, Manager, Options};
use unrack_units::Bytes;

const SHORT: Duration = Duration::from_millis(300);
/// Much longer than all waits of a test together.
const FOR_EVER: Duration = Duration::from_secs(9);

/// Role of this program if a test started it: a manager, until its standard input ends.
#[test]
fn role() {
    let Ok(socket) = std::env::var("UNRACK_POOL_SERVES") else { return };
    let _manager = Manager::start(&Options::new(socket, Bytes::new(64 << 20))).unwrap();
    println!("\nserves");
    let _ = std::io::stdin().lock().lines().next();
}

struct Serving(Child);

impl Serving {
    fn start(folder: &Folder) -> Serving {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "silent::role", "--nocapture"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.env("UNRACK_POOL_SERVES", folder.path("pool.sock")).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line == "serves"));
        Serving(child)
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.0.id() as i32).unwrap(), signal).unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn who_connects_to_a_manager_that_is_stopped_is_told_in_time() {
    let folder = Folder::new();
    let path = folder.path("pool.sock");
    // A stopped manager's kernel takes connections, as many as it lets wait, and nobody reads them.
    let listener =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .unwrap();
    rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    rustix::net::listen(&listener, 1).unwrap();
    for _ in 0..4 {
        let start = Instant::now();
        let refused = Client::connect_in_time(&path, SHORT).map(drop).unwrap_err();
        assert!(matches!(refused, Error::Silent { .. }), "{refused}");
        assert!(refused.to_string().contains("does not answer within 300ms: it is stopped"), "{refused}");
        assert!((SHORT..FOR_EVER).contains(&start.elapsed()), "{:?}", start.elapsed());
    }
}

#[test]
fn requests_to_a_manager_that_is_stopped_end_in_time_and_so_does_leaving_it() {
    let folder = Folder::new();
    let manager = Serving::start(&folder);
    let client = Client::connect_as(folder.path("pool.sock"), "client").unwrap();
    let _service = client.register("silent").unwrap();
    let segments: Vec<_> = (0..3).map(|_| client.lease(1).unwrap()).collect();
    manager.send(Signal::STOP);
    let start = Instant::now();
    let refused = client.open("silent", b"", 0, &[], SHORT).map(drop).unwrap_err();
    assert!(matches!(refused, Error::Silent { .. }), "{refused}");
    // What is given up now waits for the manager, and nobody waits with it.
    drop((segments, client));
    assert!(start.elapsed() < FOR_EVER, "{:?}", start.elapsed());
    manager.send(Signal::CONT);
    let after = Client::connect_as(folder.path("pool.sock"), "after").unwrap();
    let start = Instant::now();
    while !after.list().unwrap().iter().all(|entry| !format!("{entry:?}").starts_with("Segment")) {
        assert!(start.elapsed() < FOR_EVER, "the manager has not heard what was given up");
        std::thread::sleep(Duration::from_millis(5));
    }
}
