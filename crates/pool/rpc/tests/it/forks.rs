//! A child made by `fork`: what it has from its parent is refused, and the parent goes on as if there was no child.

use crate::common::Pool;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use unrack_pool::cache_control::MemoryKind;
use unrack_rpc::{Client, Error, Server, client, server};

const PATIENCE: Duration = Duration::from_secs(60);

fn serve(place: &str) -> server::RunningService {
    let service = Server::new("forked", server::Options::default())
        .method("echo", |_| Ok(()))
        .method("same", |call| {
            let bytes = call.request().to_vec();
            call.answer(bytes.len())?.copy_from(&bytes);
            Ok(())
        })
        .stream("parts", |_| Ok(Box::new(|call| call.answer(1).map(|_| true).map_err(Into::into))));
    service.serve(place).expect("it serves")
}

fn is_forked<T>(outcome: Result<T, Error>) -> bool {
    matches!(outcome.map(drop), Err(Error::Pool(unrack_pool::Error::Forked)))
}

fn call(client: &Client, text: &[u8]) -> Vec<u8> {
    let mut request = client.request(text.len()).expect("a slot is free");
    request.body().copy_from(text);
    request.call("same").expect("it is answered").body().to_vec()
}

/// Runs a function in a child, which has to return true in time.
fn in_child(function: impl FnOnce() -> bool) {
    // SAFETY: the child runs this function and ends without returning; it takes no lock that another thread may hold.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let holds = std::panic::catch_unwind(std::panic::AssertUnwindSafe(function)).unwrap_or(false);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!holds)) };
    }
    let (start, mut status) = (Instant::now(), 0);
    // SAFETY: a child of this process, and a place of its own.
    while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
        if start.elapsed() > PATIENCE {
            // SAFETY: the child is not waited for yet.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(status, 0, "the child used what is its parent's, hung or failed");
}

fn a_child_is_refused(place: &str, serving: server::RunningService) {
    let client = Client::connect(place, "forked", client::Options::default()).expect("it is there");
    assert_eq!(call(&client, b"before"), b"before");
    let mut other = Client::connect(place, "forked", client::Options::default()).ok();
    let mut written = client.request(4).expect("a slot is free");
    written.body().copy_from(b"mine");
    let (pending, awaited, looked) = (
        client.request(64).unwrap().start("echo").unwrap(),
        client.request(64).unwrap().start("echo").unwrap(),
        client.request(64).unwrap().start("echo").unwrap(),
    );
    let answered = client.request(8).unwrap().call("same").unwrap();
    let mut stream = client.request(8).unwrap().stream("parts", 2).unwrap();
    stream.next_part().unwrap().expect("there are more");
    let mut own = Some((written, pending, awaited, looked, answered, stream, serving));
    in_child(|| {
        let (written, pending, awaited, looked, answered, mut stream, serving) = own.take().unwrap();
        let mut awaited = pin!(awaited);
        let polled = awaited.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let is_ready_and_forked = match polled {
            Poll::Ready(outcome) => is_forked(outcome),
            Poll::Pending => false,
        };
        let all = is_forked(client.request(8))
            && is_forked(client.connection().request(1 << 20))
            && is_forked(client.request_within(8, 8, PATIENCE))
            && is_forked(written.call("same"))
            && is_forked(pending.wait())
            && is_ready_and_forked
            && looked.try_wait().is_ok_and(is_forked)
            && is_forked(stream.next_part())
            && client.lent(0, 1).is_none();
        drop((answered, stream));
        serving.wait();
        all
    });
    let (written, pending, awaited, looked, answered, mut stream, serving) =
        own.take().expect("only the child took them");
    assert_eq!(written.call("same").expect("it is answered").body().to_vec(), b"mine");
    for pending in [pending, awaited, looked] {
        pending.wait().expect("it is answered");
    }
    assert!(stream.next_part().expect("it goes on").is_some());
    drop((answered, stream));
    in_child(|| {
        drop(other.take());
        true
    });
    assert_eq!(call(&other.expect("only the child dropped it"), b"after"), b"after");
    drop(serving);
}

#[test]
fn a_child_is_refused_and_its_parent_goes_on() {
    let pool = Pool::new(MemoryKind::Coherent);
    let place = pool.socket().to_str().expect("a text").to_string();
    let _serving = serve(&place);
    let client = Client::connect(&place, "forked", client::Options::default()).expect("it is there");
    let kept = client.request(64).unwrap().start("echo").unwrap();
    let mut held = Some((&client, kept));
    for round in 0..20 {
        in_child(|| {
            let refused = (0..50).all(|_| is_forked(client.request(8)));
            drop(held.take());
            refused
        });
        for number in 0..50 {
            let text = format!("parent {round} {number}");
            assert_eq!(call(&client, text.as_bytes()), text.as_bytes());
        }
    }
    held.take().expect("only children took it").1.wait().expect("it is answered");
    // A child connects for itself.
    in_child(|| {
        let own = Client::connect(&place, "forked", client::Options::default()).expect("it is there");
        let right = call(&own, b"child") == b"child";
        drop(own);
        right
    });
}

#[test]
fn every_handle_is_refused_in_a_child_and_can_be_dropped_there() {
    let pool = Pool::new(MemoryKind::Coherent);
    let place = pool.socket().to_str().expect("a text").to_string();
    a_child_is_refused(&place, serve(&place));
}

#[test]
fn every_handle_over_tcp_is_refused_in_a_child_and_can_be_dropped_there() {
    let serving = serve("tcp://127.0.0.1:0");
    let place = format!("tcp://{}", serving.address().expect("it listens"));
    a_child_is_refused(&place, serving);
}

/// A queue thread that spins looks for clients that are gone, too: their memory would stay taken as long as the server runs.
#[test]
fn a_server_that_spins_lets_go_of_clients_that_are_gone() {
    let pool = Pool::new(MemoryKind::Coherent);
    let options = server::Options { waiting: unrack_rpc::WaitPolicy::Spin, ..server::Options::default() };
    let _serving = crate::common::serve(&pool.socket(), options);
    let observer = unrack_pool::Client::connect_as(pool.socket(), "observer").unwrap();
    let client = pool.client(client::Options::default());
    client.request(8).unwrap().call("echo").map(drop).ok();
    drop(client);
    let start = Instant::now();
    let is_channel = |entry: &unrack_pool::wire::ListingEntry| {
        matches!(entry, unrack_pool::wire::ListingEntry::Channel { .. })
    };
    while observer.list().unwrap().iter().any(is_channel) {
        assert!(start.elapsed() < PATIENCE, "the server keeps the channel");
        std::thread::sleep(Duration::from_millis(2));
    }
}
