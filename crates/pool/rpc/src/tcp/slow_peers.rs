//! Tests of peers that stop in the middle of a frame, or that are too slow. Each such peer costs its own connection the
//! time of a frame, which is short in these tests ([`super::stream`]), and costs no other connection anything.

use super::hello::{Hello, VERSION, WELCOME_BYTES};
use super::stream::{Stream, allowed};
use super::{REQUEST_BYTES, to_bytes};
use crate::queue::entry::{Kind, Request};
use crate::server::{Options, RunningService};
use crate::{Client, Method, Server};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use unrack_keys::Wire;

/// Extra time that a busy machine may take.
const SLACK: Duration = Duration::from_secs(10);
const ANSWER: u32 = 256 << 10;

fn serve() -> RunningService {
    Server::new("test", Options::default())
        .method("fill", |call| {
            call.answer(call.room())?;
            Ok(())
        })
        .serve("tcp://127.0.0.1:0")
        .unwrap()
}

fn is_served(serving: &RunningService) {
    let place = format!("tcp://{}", serving.address().unwrap());
    let client = Client::connect(place, "test", crate::client::Options::default()).unwrap();
    assert_eq!(client.request(100).unwrap().call("fill").unwrap().body().len(), 100);
}

/// Connects a client that the server accepts.
fn taken(serving: &RunningService) -> TcpStream {
    let mut stream = TcpStream::connect(serving.address().unwrap()).unwrap();
    let hello =
        Hello { version: VERSION, lines: 8, patience_ms: 100, session: [0; 16], service: "test".into() };
    stream.write_all(&hello.to_bytes()).unwrap();
    stream.read_exact(&mut [0; WELCOME_BYTES]).unwrap();
    stream
}

fn frame(generation: u32, length: u32, capacity: u32) -> Vec<u8> {
    let method = Method::named("fill").0;
    let request =
        Request { kind: Kind::Call, connection: 0, slot: 0, generation, offset: 0, method, length, capacity };
    let header: [u8; REQUEST_BYTES] = to_bytes(request.entries());
    [&header[..], &vec![7; length as usize]].concat()
}

/// Returns how long it takes until the server ends the connection.
fn ended_after(mut stream: &TcpStream) -> Duration {
    let begun = Instant::now();
    stream.set_read_timeout(Some(SLACK)).unwrap();
    match stream.read(&mut [0]) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("the connection is not ended: {other:?}"),
    }
    begun.elapsed()
}

#[test]
fn half_a_frame_ends_its_connection_in_time() {
    let serving = serve();
    let whole = frame(1, 1000, 8);
    let halves: Vec<TcpStream> = [1, REQUEST_BYTES - 1, REQUEST_BYTES, whole.len() - 1]
        .into_iter()
        .map(|end| {
            let mut stream = taken(&serving);
            stream.write_all(&whole[..end]).unwrap();
            stream
        })
        .collect();
    // A silent connection is no burden, and may wait without a limit.
    let mut silent = taken(&serving);
    is_served(&serving);
    for stream in &halves {
        assert!(ended_after(stream) < allowed(1000) + SLACK);
    }
    std::thread::sleep(allowed(0));
    silent.write_all(&frame(1, 0, 8)).unwrap();
    silent.read_exact(&mut [0; super::ANSWER_BYTES + 8]).unwrap();
    is_served(&serving);
}

#[test]
fn a_frame_that_trickles_ends_its_connection_in_time() {
    let serving = serve();
    let mut stream = taken(&serving);
    let begun = Instant::now();
    for byte in frame(1, 100_000, 8) {
        // Each byte comes before the next check of the clock, but the whole frame does not come before the deadline.
        if stream.write_all(&[byte]).is_err() {
            break;
        }
        assert!(begun.elapsed() < 2 * allowed(100_000) + SLACK, "it is still read");
        std::thread::sleep(Duration::from_millis(5));
    }
    is_served(&serving);
}

#[test]
fn a_client_that_never_reads_is_ended_in_time() {
    let serving = serve();
    let mut stream = taken(&serving);
    let begun = Instant::now();
    let mut generation = 0;
    while begun.elapsed() < allowed(ANSWER as usize) + 2 * SLACK {
        generation += 1;
        if stream.write_all(&frame(generation, 0, ANSWER)).is_err() {
            is_served(&serving);
            return;
        }
        // There are more answers than the sockets can buffer.
        if generation > 200 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    panic!("its connection is still there");
}

#[test]
fn a_stream_reads_and_writes_until_its_deadline_and_not_beyond() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let socket = Stream::prepare(listener.accept().unwrap().0).unwrap();
    let mut stream = Stream::new(Wire::plain(socket));
    let soon = || Instant::now() + Duration::from_millis(60);
    far.write_all(b"abc").unwrap();
    let mut bytes = [0; 3];
    stream.read(&mut bytes, soon()).unwrap();
    assert_eq!(&bytes, b"abc");
    far.write_all(b"de").unwrap();
    for room in [3, 100_000] {
        let late = soon();
        assert_eq!(stream.read(&mut vec![0; room], late).unwrap_err().kind(), ErrorKind::TimedOut);
        assert!(late <= Instant::now() && late.elapsed() < SLACK);
    }
    let late = soon();
    let all = vec![0; 64 << 20];
    assert_eq!(stream.write(b"header", &all, late).unwrap_err().kind(), ErrorKind::TimedOut);
    assert!(late <= Instant::now() && late.elapsed() < SLACK);
}

/// A client that ends gives the server time to take the requests that were sent before, but not without a limit.
#[test]
fn a_server_that_never_reads_does_not_hold_up_a_client_that_goes() {
    use super::hello::{HelloVerdict, Welcome};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = format!("tcp://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let welcome = Welcome {
            version: VERSION,
            verdict: HelloVerdict::Taken,
            session: [1; 16],
            most_bytes: 64 << 20,
        };
        stream.write_all(&welcome.to_bytes()).unwrap();
        stream
    });
    let client = Client::connect(place, "test", crate::client::Options::default()).unwrap();
    let _stream = server.join().unwrap();
    client.request(48 << 20).unwrap().send("fill").unwrap();
    let begun = Instant::now();
    drop(client);
    assert!(begun.elapsed() < SLACK);
}
