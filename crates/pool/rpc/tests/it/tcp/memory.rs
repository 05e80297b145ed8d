//! Memory that a server takes from the machine, measured from outside: confirms the accounts that
//! `src/tcp/greedy_peers.rs` tests.

use super::*;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use unrack_rpc::Method;
use unrack_rpc::queue::entry::{Kind, Request};
use unrack_rpc::tcp::limits::CONNECTION_BYTES;
use unrack_rpc::tcp::{PeerLimits, REQUEST_BYTES, to_bytes};

const MIB: u64 = 1 << 20;

fn limits() -> PeerLimits {
    PeerLimits { bytes: 256 * MIB, bytes_of_peer: 256 * MIB, ..PeerLimits::default() }
}

/// Not a test: the server that the others fill.
#[test]
#[ignore = "runs until it is killed"]
fn server_to_be_filled() {
    let options = server::Options { limits: limits(), ..server::Options::default() };
    let serving = service(options).serve("tcp://127.0.0.1:0").unwrap();
    println!("listening {}", serving.address().unwrap());
    std::thread::sleep(Duration::from_secs(300));
}

struct Other(Child, SocketAddr);

impl Other {
    fn start() -> Other {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tcp::memory::server_to_be_filled", "--ignored", "--nocapture"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.find_map(|line| line.split_once("listening ")?.1.parse().ok());
        Other(child, address.unwrap())
    }

    fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Connects a client that is accepted, and wants the server to wait for it.
    fn taken(&self) -> TcpStream {
        let mut stream = TcpStream::connect(self.1).unwrap();
        let hello = unrack_rpc::tcp::hello::Hello {
            version: unrack_rpc::tcp::hello::VERSION,
            lines: 512,
            patience_ms: u32::MAX,
            session: [0; 16],
            service: "test".into(),
        };
        stream.write_all(&hello.to_bytes()).unwrap();
        stream.read_exact(&mut [0; 32]).unwrap();
        stream
    }

    fn check(&self, before: u64, connections: usize) {
        let most = before + limits().bytes + (connections * CONNECTION_BYTES) as u64 + 32 * MIB;
        assert!(self.resident() <= most, "{} MiB of {}", self.resident() / MIB, most / MIB);
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn call(method: &str, length: u64, capacity: u64) -> [u8; REQUEST_BYTES] {
    let method = Method::named(method).0;
    let (length, capacity) = (length as u32, capacity as u32);
    let request = Request {
        kind: Kind::Call,
        connection: 0,
        slot: 0,
        generation: 1,
        offset: 0,
        method,
        length,
        capacity,
    };
    to_bytes(request.entries())
}

/// Sessions that ask for answers of 60 MB, and leave: 20 of them once took 1.2 GB, for as long as they asked.
#[test]
fn closed_sessions_with_long_answers_do_not_fill_a_server() {
    let server = Other::start();
    let before = server.resident();
    for _ in 0..20 {
        let mut stream = server.taken();
        let words = [&call("fill", 8, 60 * MIB)[..], &(60 * MIB).to_le_bytes()].concat();
        stream.write_all(&words).unwrap();
        stream.read_exact(&mut [0; 100]).unwrap();
        drop(stream);
        server.check(before, 2);
    }
    is_served(server.1);
}

/// Frames that never end.
#[test]
fn half_frames_do_not_fill_a_server() {
    let server = Other::start();
    let before = server.resident();
    let bytes = vec![1; 40 * MIB as usize];
    let mut halves = Vec::new();
    for _ in 0..12 {
        let mut stream = server.taken();
        stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
        stream.write_all(&call("sum", 41 * MIB, 8)).unwrap();
        let _ = stream.write_all(&bytes);
        halves.push(stream);
        server.check(before, halves.len());
    }
    is_served(server.1);
}
