//! Tests of greedy peers: such a peer gets no more than its share, and other peers get theirs.

use super::hello::{Hello, HelloVerdict, VERSION, WELCOME_BYTES, Welcome};
use super::limits::PeerLimits;
use super::listen::Listening;
use super::{REQUEST_BYTES, to_bytes};
use crate::client::{Client, Options};
use crate::queue::entry::{Kind, Request};
use crate::server::methods::{Handler, Methods};
use crate::{Error, Method};
use rustix::net::{AddressFamily, SocketAddrV4, SocketType};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;
/// Extra time that a busy machine may take.
const SLACK: Duration = Duration::from_secs(20);

fn serve(limits: PeerLimits) -> Listening {
    let mut methods = Methods::default();
    let fill = |call: &mut crate::server::Call<'_>| {
        call.answer(call.room())?;
        Ok(())
    };
    let slow = |_: &mut crate::server::Call<'_>| {
        std::thread::sleep(Duration::from_millis(700));
        Ok(())
    };
    methods.add("fill", Handler::Plain(Box::new(fill)));
    methods.add("slow", Handler::Plain(Box::new(slow)));
    let methods = Arc::new(methods.finish().unwrap());
    Listening::start("tcp://127.0.0.1:0", "test", &methods, limits).unwrap()
}

fn client(listening: &Listening) -> Result<Client, Error> {
    Client::connect(format!("tcp://{}", listening.address()), "test", Options::default())
}

fn answered(listening: &Listening, bytes: usize) -> Result<usize, Error> {
    let client = client(listening)?;
    let answer = client.request_with_room(8, bytes)?.call("fill")?;
    Ok(answer.body().len())
}

/// Connects from another loopback address, which counts as another peer.
fn from(host: u8, to: SocketAddr) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, host), 0)).unwrap();
    let SocketAddr::V4(to) = to else { panic!("{to}") };
    rustix::net::connect(&socket, &to).unwrap();
    socket.into()
}

fn hello(stream: &mut TcpStream, patience_ms: u32) -> Welcome {
    let hello = Hello { version: VERSION, lines: 8, patience_ms, session: [0; 16], service: "test".into() };
    stream.write_all(&hello.to_bytes()).unwrap();
    let mut welcome = [0; WELCOME_BYTES];
    stream.read_exact(&mut welcome).unwrap();
    Welcome::from_bytes(&welcome).unwrap()
}

fn call(method: &str, length: usize, capacity: usize) -> [u8; REQUEST_BYTES] {
    let request = Request {
        kind: Kind::Call,
        connection: 0,
        slot: 0,
        generation: 1,
        offset: 0,
        method: Method::named(method).0,
        length: length as u32,
        capacity: capacity as u32,
    };
    to_bytes(request.entries())
}

const LIMITS: PeerLimits = PeerLimits {
    bytes: 16 * MIB as u64,
    bytes_of_peer: 8 * MIB as u64,
    connections: 64,
    patience: Duration::from_secs(30),
};

/// Clients request long answers, disconnect, and want the server to wait for their return.
#[test]
fn answers_of_closed_sessions_make_room() {
    let listening = serve(LIMITS);
    for number in 0..40u8 {
        let mut stream = from(2 + number % 3, listening.address());
        assert_eq!(hello(&mut stream, u32::MAX).verdict, HelloVerdict::Taken);
        stream.write_all(&call("fill", 0, 3 * MIB)).unwrap();
        // The client is answered, and disconnects without reading the whole answer.
        stream.read_exact(&mut [0; 1000]).unwrap();
        drop(stream);
        assert!(listening.held() <= LIMITS.bytes, "{}", listening.held());
    }
    assert!(listening.held() > LIMITS.bytes / 4, "some are kept: {}", listening.held());
    assert_eq!(answered(&listening, 4 * MIB).unwrap(), 4 * MIB);
}

/// A client whose small answers fill its share one by one can continue, because the server drops the oldest answers.
#[test]
fn answers_that_are_kept_are_given_up_before_calls_are_refused() {
    let listening = serve(PeerLimits { bytes_of_peer: MIB as u64, ..LIMITS });
    let client = client(&listening).unwrap();
    let slots: Vec<_> = (0..200)
        .map(|_| client.request_with_room(8, 60_000).unwrap().start("fill").unwrap())
        .map(|pending| pending.wait().unwrap())
        .collect();
    assert!(slots.iter().all(|answer| answer.body().len() == 60_000));
    assert!(listening.held() <= MIB as u64, "{}", listening.held());
}

/// Frames that never end: the server holds their bytes, but only up to the limit.
#[test]
fn half_frames_hold_no_more_than_their_share_and_small_calls_go_on() {
    let listening = serve(LIMITS);
    let half = |host: u8| {
        let mut stream = from(host, listening.address());
        stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        hello(&mut stream, 100);
        stream.write_all(&call("fill", 6 * MIB, 8)).unwrap();
        let _ = stream.write_all(&vec![7; 6 * MIB - 1]);
        stream
    };
    let mut halves: Vec<TcpStream> = (0..12).map(|number| half(2 + number % 3)).collect();
    assert!(listening.held() <= LIMITS.bytes, "{}", listening.held());
    // The three peers have taken all memory. A small call needs none of it, and a large call is refused.
    assert_eq!(answered(&listening, 1000).unwrap(), 1000);
    match answered(&listening, 7 * MIB) {
        Err(error @ Error::Busy { .. }) => assert!(error.to_string().contains("MiB"), "{error}"),
        // The machine is so slow that the incomplete frames have timed out by now.
        other => assert_eq!(other.unwrap(), 7 * MIB),
    }
    let begun = Instant::now();
    halves.clear();
    while answered(&listening, 7 * MIB).is_err() {
        assert!(begun.elapsed() < SLACK, "{} bytes are held", listening.held());
    }
}

/// A refused call has not run, and the connection can be used for the next call.
#[test]
fn a_call_that_is_refused_leaves_its_connection_as_it_was() {
    let listening = serve(LIMITS);
    let mut stream = from(2, listening.address());
    hello(&mut stream, 100);
    let other = (0..2).map(|_| {
        let mut half = from(2, listening.address());
        hello(&mut half, 100);
        half.write_all(&[&call("fill", 7 * MIB, 8)[..], &vec![1; 7 * MIB - 1]].concat()).unwrap();
        half
    });
    let _halves: Vec<TcpStream> = other.take(1).collect();
    while listening.held() < 7 * MIB as u64 {
        std::thread::sleep(Duration::from_millis(1));
    }
    stream.write_all(&[&call("fill", 5 * MIB, 8)[..], &vec![1; 5 * MIB]].concat()).unwrap();
    let mut busy = [0; super::ANSWER_BYTES];
    stream.read_exact(&mut busy).unwrap();
    let answer = crate::queue::entry::Answer::from_entries(super::from_bytes(busy));
    assert_eq!((answer.status, answer.length), (crate::EntryStatus::BUSY, 7));
    // The same slot and generation come again, as after a broken connection. The call runs now, because it did not run
    // before.
    stream.write_all(&[&call("fill", 3, 8)[..], &[1; 3]].concat()).unwrap();
    let mut done = [0; super::ANSWER_BYTES + 8];
    stream.read_exact(&mut done).unwrap();
    let answer = super::from_bytes(*done.first_chunk::<{ super::ANSWER_BYTES }>().unwrap());
    assert_eq!(crate::queue::entry::Answer::from_entries(answer).status, crate::EntryStatus::DONE);
}

/// One peer has connections without a hello, and clients that never call. Another peer is served at once.
#[test]
fn idle_connections_of_one_peer_make_room_for_another() {
    let listening = serve(PeerLimits { connections: 8, ..LIMITS });
    let mut idle: Vec<TcpStream> = (0..8).map(|_| from(2, listening.address())).collect();
    for stream in idle.iter_mut().take(4) {
        hello(stream, 100);
    }
    assert_eq!(answered(&listening, 100).unwrap(), 100);
    // All of them send their hello now, except for the one that was closed to make room.
    for stream in idle.iter_mut().skip(4) {
        stream.set_read_timeout(Some(SLACK)).unwrap();
        let _ = stream.write_all(&[0; 3]);
    }
    assert_eq!(answered(&listening, 100).unwrap(), 100);
}

#[test]
fn who_finds_no_room_is_told_how_many_there_are() {
    let listening = serve(PeerLimits { connections: 2, ..LIMITS });
    let clients: Vec<Client> = (0..2).map(|_| client(&listening).unwrap()).collect();
    let calls: Vec<_> =
        clients.iter().map(|client| client.request(8).unwrap().start("slow").unwrap()).collect();
    let said = loop {
        // The attempt is repeated until the two calls run.
        if let Err(error) = client(&listening) {
            break error.to_string();
        }
    };
    assert!(said.contains("all 2 connections that it accepts are in use, 2 of them from here"), "{said}");
    drop(calls);
}

#[test]
fn a_server_waits_no_longer_than_it_says_for_a_client() {
    let listening = serve(PeerLimits { patience: Duration::from_millis(50), ..LIMITS });
    let mut stream = from(2, listening.address());
    hello(&mut stream, u32::MAX);
    stream.write_all(&call("fill", 0, MIB)).unwrap();
    stream.read_exact(&mut [0; 1000]).unwrap();
    drop(stream);
    let begun = Instant::now();
    while listening.held() > 0 {
        assert!(begun.elapsed() < SLACK, "{}", listening.held());
        std::thread::sleep(Duration::from_millis(5));
    }
}
