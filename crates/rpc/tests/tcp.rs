//! Calls over TCP: what they can do over a pool they can do there, and broken connections and hostile peers change nothing.

mod common;

use common::service;
use std::future::Future;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use unrack_rpc::client::{Options, Window};
use unrack_rpc::server::Serving;
use unrack_rpc::{Client, Error, Server, Status, server};

const PATIENCE: Duration = Duration::from_secs(20);

fn serve() -> (Serving, SocketAddr) {
    listen(service(server::Options::default()))
}

fn listen(server: Server) -> (Serving, SocketAddr) {
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
    assert!(matches!(of("refuse", 0, 8), Error::Refused { status, .. } if status.0 == Status::SERVICE + 7));
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
    assert!(matches!(
        connect("127.0.0.1:1".parse().unwrap(), Options::default()),
        Err(Error::Connect { .. })
    ));
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
    let windowed = connect(address, Options { window: Window::Fixed(16), ..Options::default() }).unwrap();
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
        // Nobody wants all of this one.
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
    let pool = common::Pool::new(unrack_pool::cache_control::Mode::Coherent);
    let listen = Some("tcp://127.0.0.1:0".to_string());
    let serving = common::serve(&pool.socket(), server::Options { listen, ..Default::default() });
    is_served(serving.address().unwrap());
    let near = pool.client(Options::default());
    assert_eq!(words(&near, "sum", &[1, 2], 8).unwrap()[..8], 3u64.to_le_bytes());
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

/// Stands between a client and a server, and cuts.
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
        // Short answers and long ones, which are forgotten when they have come.
        call.answer(if number.is_multiple_of(5) { bytes } else { 8 })?.put(0, number).unwrap();
        Ok(())
    });
    let (_serving, address) = listen(server);
    let between = Between::new(address);
    let client =
        connect(between.address, Options { window: Window::Fixed(8), ..Options::default() }).unwrap();
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
    let (serving, address) = serve();
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
    assert!(error.to_string().contains("started anew"), "{error}");
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
    // One that vanishes: its session waits for its patience.
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

fn hello(lines: u16, session: [u8; 16]) -> Vec<u8> {
    let hello = unrack_rpc::tcp::hello::Hello {
        version: unrack_rpc::tcp::hello::VERSION,
        lines,
        patience_ms: 100,
        session,
        service: "test".into(),
    };
    hello.to_bytes()
}

/// What the server says to some bytes until it closes, or has nothing to say for a moment.
fn say(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let _ = stream.write_all(bytes);
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    said
}

#[test]
fn hostile_clients_get_nothing_and_hold_up_nobody() {
    let (_serving, address) = serve();
    let request = |word: u64, generation: u32, length: u32, capacity: u32| {
        let words = [word, u64::from(generation) << 32, u64::from(length) << 32 | u64::from(capacity)];
        words.into_iter().flat_map(u64::to_le_bytes).collect::<Vec<u8>>()
    };
    let refused = |hello: Vec<u8>, verdict: u8| {
        let said = say(address, &hello);
        assert_eq!((said.len(), said[10]), (32, verdict), "{said:?}");
    };
    let mut old = hello(8, [0; 16]);
    old[8] = 99;
    refused(old, 1);
    refused([&hello(8, [0; 16])[..30], b"\0\0\x04\0none"].concat(), 2);
    refused(hello(8, [7; 16]), 3);
    refused(hello(0, [0; 16]), 5);
    refused(hello(5000, [0; 16]), 5);
    refused(vec![0x55; 400], 5);
    let unhappy = [
        request(0, 1, u32::MAX >> 1, 0),
        request(0, 1, 0, u32::MAX),
        request(7 << 60, 1, 0, 0),
        request(200 << 38, 1, 0, 0),
        request(0, 0, 0, 0),
        request(1 << 63 | 5 << 60, 1, 0, 0),
        request(0, 1 << 30, 0, 0).repeat(2),
    ];
    for frames in unhappy {
        let said = say(address, &[hello(8, [0; 16]), frames].concat());
        assert!(said.len() <= 32 + 2 * 16, "{said:?}");
    }
    // Half of everything, and clients that wait for ever, do not keep others from being served.
    let whole = [hello(8, [0; 16]), request(0, 1, 100_000, 8)].concat();
    let slow: Vec<TcpStream> = (0..whole.len())
        .step_by(5)
        .map(|end| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&whole[..end]).unwrap();
            stream
        })
        .collect();
    is_served(address);
    drop(slow);
    is_served(address);
}

/// Strangers in the middle of their greeting, clients in the middle of a frame: a server that ends waits for none.
#[test]
fn a_server_ends_at_once_whatever_clients_are_about() {
    let (serving, address) = serve();
    let whole = [hello(8, [0; 16]), vec![0; 20]].concat();
    let strangers: Vec<TcpStream> = [0, 1, 33, 36, whole.len() - 20, whole.len()]
        .into_iter()
        .map(|end| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&whole[..end]).unwrap();
            stream
        })
        .collect();
    is_served(address);
    let begun = Instant::now();
    drop(serving);
    // A greeting may take five seconds, a frame ten.
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    for mut stream in strangers {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let ended = stream.read_to_end(&mut Vec::new());
        assert!(ended.is_ok() || ended.unwrap_err().kind() == std::io::ErrorKind::ConnectionReset);
    }
}

/// Bytes that look like calls, and bytes that do not.
#[test]
fn nonsense_ends_its_own_connection() {
    let (_serving, address) = serve();
    let mut state = 99u64;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    };
    let steady = client(address);
    for round in 0..150 {
        let mut bytes = hello(16, [0; 16]);
        if round % 3 == 0 {
            let at = random() as usize % bytes.len();
            bytes[at] ^= 1 << (random() % 8);
        }
        for _ in 0..random() % 20 {
            let (kind, slot, method) = (random() % 6, random() % 20, unrack_rpc::Method::named("echo").0);
            let words = [
                ((random() % 40 / 39) << 63) | (kind << 60) | (slot << 38),
                ((random() % 3) << 32) | u64::from(method),
                ((random() % 50) << 32) | (random() % 50),
            ];
            bytes.extend(words.into_iter().flat_map(u64::to_le_bytes));
            bytes.extend((0..random() % 50).map(|_| random() as u8));
        }
        let mut stream = TcpStream::connect(address).unwrap();
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut said = Vec::new();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = stream.read_to_end(&mut said);
        assert!(said.len() < 4096);
        assert_eq!(words(&steady, "sum", &[round], 8).unwrap()[..8], round.to_le_bytes());
    }
}

/// Changes some of what it is given: bits, bytes that are lost, said twice, or come from nowhere.
fn mutated(bytes: &[u8], random: &mut impl FnMut() -> u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let at = random() as usize % bytes.len();
    let end = (at + random() as usize % 40).min(bytes.len());
    match random() % 5 {
        0 => bytes[at] ^= 1 << (random() % 8),
        1 => drop(bytes.drain(at..end)),
        2 => bytes.splice(at..at, bytes[at..end].to_vec()).for_each(drop),
        3 => bytes.splice(at..at, (0..random() % 40).map(|_| random() as u8)).for_each(drop),
        _ => bytes[at..end].fill(random() as u8),
    }
    bytes
}

fn draws(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    }
}

/// Carries one connection, both ways, and changes one piece in `often`.
fn mutate_between(server: SocketAddr, seed: u64, often: u64) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (near, _) = listener.accept().unwrap();
        let far = TcpStream::connect(server).unwrap();
        let ways = [(near.try_clone().unwrap(), far.try_clone().unwrap(), seed), (far, near, !seed)];
        for (mut from, mut to, seed) in ways {
            let mut random = draws(seed);
            std::thread::spawn(move || {
                let mut bytes = [0; 3000];
                while let Ok(count @ 1..) = from.read(&mut bytes) {
                    let piece = &bytes[..count];
                    let changed = if random().is_multiple_of(often) {
                        mutated(piece, &mut random)
                    } else {
                        piece.to_vec()
                    };
                    if to.write_all(&changed).is_err() {
                        break;
                    }
                }
                let (_, _) = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
            });
        }
    });
    address
}

/// An honest client and an honest server, and between them somebody who changes what they say, greetings too. No thread of
/// either panics, each call ends in its time, and others are served.
#[test]
fn changed_bytes_cost_their_own_connection_only() {
    static PANICS: AtomicU64 = AtomicU64::new(0);
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name().is_some_and(|name| name.starts_with("unrack")) {
            PANICS.fetch_add(1, Ordering::SeqCst);
        }
        usual(panic);
    }));
    let (_serving, address) = serve();
    let steady = client(address);
    let options = || Options {
        patience: Duration::from_millis(40),
        deadline: Some(Duration::from_millis(60)),
        resend: Some(Duration::from_millis(10)),
        ..Options::default()
    };
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            scope.spawn(move || {
                for round in 0..12 {
                    let place = mutate_between(address, thread << 32 | round, 1 + round % 6);
                    let begun = Instant::now();
                    if let Ok(client) = connect(place, options()) {
                        for bytes in [8, 100_000, 0] {
                            let _ = words(&client, "sum", &vec![1; bytes / 8], 8);
                            let _ = client.request(bytes).and_then(|request| request.send("echo"));
                            let _ = words(&client, "fill", &[bytes as u64], bytes.max(8));
                        }
                        if let Ok(mut stream) = client.request(8).and_then(|call| call.stream("count", 2)) {
                            while let Ok(Some(_)) = stream.next_part() {}
                        }
                    }
                    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
                }
            });
        }
        (0..50).for_each(|number| {
            let sum = words(&steady, "sum", &[number], 8).unwrap();
            assert_eq!(sum[..8], number.to_le_bytes());
        });
    });
    is_served(address);
    assert_eq!(PANICS.load(Ordering::SeqCst), 0);
}

/// A server that says what it likes.
fn hostile(says: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        listener.set_nonblocking(false).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(3) {
            let Ok((mut stream, _)) = listener.accept() else { return };
            let says = says.clone();
            std::thread::spawn(move || {
                stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
                let _ = stream.write_all(&says);
                let mut bytes = [0; 4096];
                while let Ok(1..) = stream.read(&mut bytes) {}
            });
        }
    });
    address
}

#[test]
fn hostile_servers_are_errors_within_patience() {
    use unrack_rpc::tcp::hello::{VERSION, Verdict, Welcome};
    let welcome =
        Welcome { version: VERSION, verdict: Verdict::Taken, session: [9; 16], most_bytes: 1 << 20 }
            .to_bytes();
    let options = || Options {
        patience: Duration::from_millis(300),
        deadline: Some(Duration::from_millis(600)),
        ..Options::default()
    };
    let begun = Instant::now();
    assert!(matches!(connect(hostile(vec![]), options()), Err(Error::Connect { .. })));
    assert!(matches!(connect(hostile(welcome[..20].to_vec()), options()), Err(Error::Connect { .. })));
    assert!(matches!(connect(hostile(vec![0x20; 100]), options()), Err(Error::NotRpc { .. })));
    let mut new = welcome;
    new[8] = 9;
    assert!(matches!(connect(hostile(new.to_vec()), options()), Err(Error::Version { theirs: 9, .. })));
    let answer = |first: u64, second: u64| [first.to_le_bytes(), second.to_le_bytes()].concat();
    let says = [
        // Nothing, half an answer, one too long, to no slot, to no call, of a status that cannot be, and nonsense.
        vec![],
        answer(0, 1 << 32)[..9].to_vec(),
        answer(0, 1 << 32 | 0xffff_ffff),
        answer(1000 << 38, 1 << 32),
        answer(3 << 38, 1 << 32),
        answer(2 << 48, 1 << 32),
        vec![0xff; 3000],
    ];
    for frames in says {
        let client = connect(hostile([&welcome[..], &frames].concat()), options()).unwrap();
        let error = words(&client, "sum", &[1, 2], 16).unwrap_err();
        assert!(matches!(error, Error::Lost { .. } | Error::Deadline { .. }), "{error}");
    }
    assert!(begun.elapsed() < PATIENCE);
}
