//! Peers that violate the protocol: they get nothing, and delay nobody.

use super::*;

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

/// Sends some bytes and returns what the server replies until it closes, or is silent for a moment.
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
    // Partial messages, and clients that wait for ever, do not keep others from being served.
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

/// Connections in the middle of their hello, clients in the middle of a frame: a server that ends waits for none.
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
    // A hello may take five seconds, a frame ten.
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    for mut stream in strangers {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let ended = stream.read_to_end(&mut Vec::new());
        assert!(ended.is_ok() || ended.unwrap_err().kind() == std::io::ErrorKind::ConnectionReset);
    }
}

/// Sends bytes that look like calls, and bytes that do not.
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

/// Changes some of the bytes: flips bits, drops, duplicates or inserts bytes.
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

/// Changes what an honest client and an honest server send each other, greetings too. No thread of either panics,
/// each call ends in time, and others are served.
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

/// Runs a server that sends these bytes.
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
    use unrack_rpc::tcp::hello::{HelloVerdict, VERSION, Welcome};
    let welcome =
        Welcome { version: VERSION, verdict: HelloVerdict::Taken, session: [9; 16], most_bytes: 1 << 20 }
            .to_bytes();
    let options =
        || Options { patience: PATIENCE, deadline: Some(Duration::from_millis(600)), ..Options::default() };
    let hasty = || Options { patience: Duration::from_millis(300), ..options() };
    let begun = Instant::now();
    assert!(matches!(connect(hostile(vec![]), hasty()), Err(Error::Connect { .. })));
    assert!(matches!(connect(hostile(welcome[..20].to_vec()), hasty()), Err(Error::Connect { .. })));
    assert!(matches!(connect(hostile(vec![0x20; 100]), options()), Err(Error::NotRpc { .. })));
    let mut new = welcome;
    new[8] = 9;
    assert!(matches!(connect(hostile(new.to_vec()), options()), Err(Error::Version { theirs: 9, .. })));
    let answer = |first: u64, second: u64| [first.to_le_bytes(), second.to_le_bytes()].concat();
    let says = [
        // Nothing, half an answer, one too long, to no slot, to no call, of an impossible status, and nonsense.
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
