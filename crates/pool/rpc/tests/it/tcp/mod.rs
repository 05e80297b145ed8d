//! Calls over TCP: all that works over a pool works there, and broken connections and hostile peers change
//! nothing.

mod encrypted;
mod hostile;
mod memory;

use crate::common::service;
use std::future::Future;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use unrack_rpc::client::{CallWindow, Options};
use unrack_rpc::server::RunningService;
use unrack_rpc::{Client, EntryStatus, Error, Server, server};
use unrack_testing::ClosedPort;

const PATIENCE: Duration = Duration::from_secs(60);

fn serve() -> (RunningService, SocketAddr) {
    listen(service(server::Options::default()))
}

fn listen(server: Server) -> (RunningService, SocketAddr) {
    let serving = server.serve("tcp://127.0.0.1:0").unwrap();
    let address = serving.address().unwrap();
    (serving, address)
}

fn connect(address: SocketAddr, options: Options) -> Result<Client, Error> {
    Client::connect(format!("tcp://{address}"), "test", options)
}

fn client(address: SocketAddr) -> Client {
    connect(address, Options::default()).unwrap()
}

fn words(client: &Client, method: &str, words: &[u64], room: usize) -> Result<Vec<u8>, Error> {
    let bytes = words.len() * 8;
    let mut request = client.request_with_room(bytes, room.max(bytes))?;
    for (at, word) in words.iter().enumerate() {
        request.body().put(at * 8, *word).unwrap();
    }
    Ok(request.call(method)?.body().to_vec())
}

fn is_served(address: SocketAddr) {
    let sum = words(&client(address), "sum", &[40, 2], 8).unwrap();
    assert_eq!(sum[..8], 42u64.to_le_bytes());
}

#[test]
fn calls_of_all_sizes_are_answered() {
    let (_serving, address) = serve();
    let client = client(address);
    assert_eq!(client.peer().to_string(), format!("test at tcp://{address}"));
    for bytes in [0, 1, 8, 4096, 65_535, 65_536, 65_537, 1 << 20, 5_000_001] {
        let mut request = client.request(bytes).unwrap();
        let message: Vec<u8> = (0..bytes).map(|at| (at * 7 % 251) as u8).collect();
        request.body().copy_from(&message);
        assert_eq!(request.body().as_mut_ptr() as usize % 64, 0);
        assert!(request.call("echo").unwrap().body().to_vec() == message, "{bytes}");
    }
    assert_eq!(words(&client, "sum", &[1, 2, 3], 8).unwrap()[..8], 6u64.to_le_bytes());
    assert_eq!(words(&client, "fill", &[200_000], 200_000).unwrap(), vec![0x5a; 200_000]);
    assert!(client.lent(0, 8).is_none());
}

#[test]
fn errors_name_cause_and_peer() {
    let (serving, address) = serve();
    let client = client(address);
    let of = |method: &str, value: u64, room| words(&client, method, &[value], room).unwrap_err();
    assert!(
        matches!(of("refuse", 0, 8), Error::Refused { status, .. } if status.0 == EntryStatus::SERVICE + 7)
    );
    assert!(matches!(of("panic", 0, 8), Error::Failed { .. }));
    assert!(matches!(of("none", 0, 8), Error::UnknownMethod { .. }));
    assert!(matches!(of("fill", 100, 10), Error::NoRoom { needed: 100, room: 10, .. }));
    let said = client.request(65 << 20).err().unwrap().to_string();
    assert!(said.contains("68157440") && said.contains("67108864"), "{said}");
    let other = Client::connect(format!("tcp://{address}"), "other", Options::default()).err().unwrap();
    assert!(other.to_string().contains("other"), "{other}");

    drop(serving);
    let hurry = Options { patience: Duration::from_millis(200), ..Options::default() };
    let nobody = connect(address, hurry).err().unwrap();
    assert!(matches!(nobody, Error::Connect { .. }) && nobody.to_string().contains(&address.to_string()));
    let closed = ClosedPort::new();
    let refused = connect(closed.address().into(), Options::default());
    assert!(matches!(refused, Err(Error::Connect { .. })));
    let nowhere = Server::new("test", server::Options { listen: Some("here".into()), ..Default::default() });
    let said = nowhere.serve("tcp://127.0.0.1:0");
    assert!(said.is_ok(), "the address that is served at counts");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("tcp://{}", taken.local_addr().unwrap());
    let said = service(server::Options::default()).serve(&at).err().unwrap().to_string();
    assert!(said.starts_with(&format!("cannot listen at {at}: ")), "{said}");
}

#[test]
fn windows_streams_one_way_cancelled_and_awaited_calls_work() {
    let (_serving, address) = serve();
    let windowed = connect(address, Options { window: CallWindow::Fixed(16), ..Options::default() }).unwrap();
    let mut pending = std::collections::VecDeque::new();
    for number in 0..2000u64 {
        let mut request = windowed.request(8).unwrap();
        request.body().put(0, number).unwrap();
        pending.push_back((number, request.start("echo").unwrap()));
        if number % 3 == 0 {
            // Some are cancelled.
            pending.pop_back();
        }
        if pending.len() > 16 {
            let (number, first) = pending.pop_front().unwrap();
            assert_eq!(first.wait().unwrap().body().get::<u64>(0).unwrap(), number);
        }
    }
    drop(pending);
    for ahead in [0, 3] {
        let mut request = windowed.request(8).unwrap();
        request.body().put(0, 50u64).unwrap();
        let mut stream = request.stream("count", ahead).unwrap();
        let mut next = 0;
        while let Some(part) = stream.next_part().unwrap() {
            assert_eq!(part.body().get::<u64>(0).unwrap(), next);
            next += 1;
        }
        assert_eq!(next, 50);
        let mut request = windowed.request(8).unwrap();
        request.body().put(0, u64::MAX).unwrap();
        // The rest of this stream is not wanted.
        request.stream("count", ahead).unwrap().next_part().unwrap().unwrap();
    }
    windowed.request(64).unwrap().send("echo").unwrap();
    let mut request = windowed.request(8).unwrap();
    request.body().put(0, 9u64).unwrap();
    let answer = block_on(request.start("echo").unwrap()).unwrap();
    assert_eq!(answer.body().get::<u64>(0).unwrap(), 9);
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => std::thread::park_timeout(PATIENCE),
        }
    }
}

#[test]
fn one_server_serves_pool_and_tcp() {
    let pool = crate::common::Pool::new(unrack_pool::cache_control::MemoryKind::Coherent);
    let listen = Some("tcp://127.0.0.1:0".to_string());
    let serving = crate::common::serve(&pool.socket(), server::Options { listen, ..Default::default() });
    is_served(serving.address().unwrap());
    let near = pool.client(Options::default());
    assert_eq!(words(&near, "sum", &[1, 2], 8).unwrap()[..8], 3u64.to_le_bytes());
}

/// Beyond the rack, of several places the first is taken where the service is.
#[test]
fn where_no_memory_is_shared_calls_go_over_tcp() {
    let pool = crate::common::Pool::new(unrack_pool::cache_control::MemoryKind::Coherent);
    let beyond = crate::common::Pool::new(unrack_pool::cache_control::MemoryKind::Coherent);
    let listen = Some("tcp://127.0.0.1:0".to_string());
    let serving = crate::common::serve(&pool.socket(), server::Options { listen, ..Default::default() });
    let address = format!("tcp://{}", serving.address().unwrap());
    let absent = pool.socket().with_file_name("absent");
    for (place, shares) in [(pool.socket(), true), (beyond.socket(), false), (absent, false)] {
        let places = format!("{},{address}", place.display());
        let client = Client::connect(&places, "test", Options::default()).expect("one of them has it");
        assert_eq!(client.shares_memory(), shares, "{places}");
        assert_eq!(words(&client, "sum", &[1, 2], 8).unwrap()[..8], 3u64.to_le_bytes());
    }
    let closed = ClosedPort::new();
    let places = format!("{},tcp://{}", beyond.socket().display(), closed.address());
    let nowhere = Client::connect(&places, "test", Options::default()).map(drop).unwrap_err().to_string();
    assert!(nowhere.contains(&closed.address().to_string()), "{nowhere}");
}

#[test]
fn a_deadline_ends_a_call_and_no_other() {
    let (_serving, address) = serve();
    let deadline = Some(Duration::from_millis(50));
    let resend = Some(Duration::from_millis(10));
    let client = connect(address, Options { deadline, resend, ..Options::default() }).unwrap();
    let begun = Instant::now();
    assert!(matches!(words(&client, "slow", &[400], 8), Err(Error::Deadline { .. })));
    assert!(begun.elapsed() < Duration::from_millis(350));
    let later = std::iter::from_fn(|| Some(words(&client, "sum", &[7], 8))).find_map(Result::ok).unwrap();
    assert_eq!(later[..8], 7u64.to_le_bytes());
}

/// Proxy between a client and a server that can cut connections.
struct Between {
    address: SocketAddr,
    connections: Arc<Mutex<Vec<TcpStream>>>,
    open: Arc<AtomicBool>,
}

impl Between {
    fn new(server: SocketAddr) -> Between {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, open) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(true)));
        let between = Between { address, connections: connections.clone(), open: open.clone() };
        std::thread::spawn(move || {
            for near in listener.incoming() {
                if !open.load(Ordering::SeqCst) {
                    return;
                }
                let (near, far) = (near.unwrap(), TcpStream::connect(server).unwrap());
                connections.lock().unwrap().extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
                for (mut from, mut to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)]
                {
                    std::thread::spawn(move || {
                        let mut bytes = [0; 3000];
                        while let Ok(count @ 1..) = from.read(&mut bytes) {
                            if to.write_all(&bytes[..count]).is_err() {
                                break;
                            }
                        }
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        between
    }

    fn cut(&self) {
        for connection in self.connections.lock().unwrap().drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        self.open.store(false, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        self.cut();
    }
}

#[test]
fn calls_run_once_however_often_the_connection_breaks() {
    let ran = Arc::new(Mutex::new(Vec::new()));
    let log = ran.clone();
    let server = Server::new("test", server::Options::default()).method("log", move |call| {
        let number = call.request().get::<u64>(0).unwrap();
        log.lock().unwrap().push(number);
        let bytes = call.request().len();
        // Short answers and long ones, which are dropped when they have arrived.
        call.answer(if number.is_multiple_of(5) { bytes } else { 8 })?.put(0, number).unwrap();
        Ok(())
    });
    let (_serving, address) = listen(server);
    let between = Between::new(address);
    let client =
        connect(between.address, Options { window: CallWindow::Fixed(8), ..Options::default() }).unwrap();
    let (stop, cuts) = (AtomicBool::new(false), AtomicU64::new(0));
    const CALLS: u64 = 4000;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut wait = 1;
            while !stop.load(Ordering::Relaxed) {
                wait = wait * 7 % 31;
                std::thread::sleep(Duration::from_millis(wait));
                between.cut();
                cuts.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut pending = std::collections::VecDeque::new();
        for number in 0..CALLS {
            let bytes = if number.is_multiple_of(5) { 100_000 } else { 1000 };
            let mut request = client.request(bytes).unwrap();
            request.body().put(0, number).unwrap();
            pending.push_back((number, request.start("log").unwrap()));
            if pending.len() > 8 || number + 1 == CALLS {
                for (number, call) in pending.drain(..if number + 1 == CALLS { pending.len() } else { 1 }) {
                    let answer = call.wait().unwrap();
                    assert_eq!(answer.body().get::<u64>(0).unwrap(), number);
                    assert_eq!(answer.body().len() == 8, !number.is_multiple_of(5));
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let ran = ran.lock().unwrap();
    assert!(*ran == (0..CALLS).collect::<Vec<_>>(), "each once and in order");
    assert!(cuts.load(Ordering::Relaxed) > 5);
}

#[test]
fn a_server_that_is_gone_is_told_of() {
    // On an address that no other test connects from: such a connection might take the port between two servers.
    let serving = service(server::Options::default()).serve("tcp://127.0.3.27:0").unwrap();
    let address = serving.address().unwrap();
    let patience = Duration::from_millis(300);
    let client = connect(address, Options { patience, ..Options::default() }).unwrap();
    std::thread::scope(|scope| {
        let waits =
            scope.spawn(|| words(&client, "slow", &[100], 8).and_then(|_| words(&client, "slow", &[100], 8)));
        std::thread::sleep(Duration::from_millis(20));
        drop(serving);
        let error = waits.join().unwrap().unwrap_err();
        assert!(error.is_gone() && error.to_string().contains("is lost"), "{error}");
    });
    let begun = Instant::now();
    assert!(words(&client, "sum", &[1], 8).unwrap_err().is_gone());
    assert!(begun.elapsed() < PATIENCE / 2);
    // Another server at the same address does not know the client.
    let again = service(server::Options::default()).serve(format!("tcp://{address}")).unwrap();
    is_served(again.address().unwrap());
    let client = self::client(address);
    drop(again);
    let _other = service(server::Options::default()).serve(format!("tcp://{address}")).unwrap();
    let error = words(&client, "sum", &[1], 8).unwrap_err();
    assert!(error.to_string().contains("restarted"), "{error}");
}

#[test]
fn clients_that_are_gone_are_told_of_once() {
    let gone = Arc::new(Mutex::new(Vec::new()));
    let told = gone.clone();
    let server = Server::new("test", server::Options::default())
        .method("who", |call| {
            let client = call.client();
            call.answer(8)?.put(0, client).unwrap();
            Ok(())
        })
        .when_gone(move |client| told.lock().unwrap().push(client));
    let (serving, address) = listen(server);
    let who = |client: &Client| {
        let answer = client.request(8).unwrap().call("who").unwrap();
        answer.body().get::<u64>(0).unwrap()
    };
    let until = |count| {
        let begun = Instant::now();
        while gone.lock().unwrap().len() < count {
            assert!(begun.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let ended = client(address);
    let first = who(&ended);
    drop(ended);
    until(1);
    // A client that vanishes: its session waits for its patience.
    let between = Between::new(address);
    let patience = Duration::from_millis(100);
    let vanished = connect(between.address, Options { patience, ..Options::default() }).unwrap();
    let second = who(&vanished);
    drop(between);
    until(2);
    let stays = client(address);
    let third = who(&stays);
    drop(serving);
    until(3);
    assert_eq!(*gone.lock().unwrap(), [first, second, third]);
}
