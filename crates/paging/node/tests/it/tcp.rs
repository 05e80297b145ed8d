//! A node on a real socket, and the errors of its clients when the node fails or answers wrongly.

use crate::common::{
    PAGE, Slot, connect, end_of, load, pages, refusal, settings, settle, store, tcp, tcp_node,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use unrack_pager::node::{Client, ErrorKind, NodeSettings, PageCompletion, Rejected};
use unrack_wire::{
    EndReason, GreetingStatus, HEADER, HELLO, Header, MOST_IDS, MOST_PAGES, VERSION, Verb, Welcome,
};

#[test]
fn pages_come_back_as_they_were_stored_and_sessions_do_not_see_each_other() {
    let node = tcp_node(pages(4096));
    let (mut one, mut two) = (connect(&node), connect(&node));
    let mut slots: Vec<Slot> = (0..600).map(Slot::with).collect();
    for (id, slot) in (0..).zip(&mut slots) {
        // SAFETY: the slots live until everything has settled.
        unsafe { one.store(id, slot.address()) }.unwrap();
    }
    assert_eq!(settle(&mut one).unwrap().len(), 600);
    assert_eq!(store(&mut two, 5, 77), PageCompletion::Stored { id: 5 });
    assert!((0..600).rev().step_by(7).all(|id| load(&mut one, id).holds(id as u64)));
    assert!(load(&mut two, 5).holds(77));
    assert_eq!(node.statistics().held_pages, 601);
    assert_eq!(one.forget(&[1, 2, 3, 9]), 4);
    settle(&mut one).unwrap();
    // SAFETY: nothing is queued.
    assert_eq!(unsafe { one.load(2, slots[0].address()) }, Err(Rejected::NotHeld));
    assert!(load(&mut one, 4).holds(4));
    // In a block that is not empty, written pages stay charged.
    assert_eq!(node.statistics().held_pages, 601);
    drop(one);
    while node.statistics().held_pages > 1 {
        std::thread::yield_now();
    }
    let statistics = node.stop();
    assert_eq!((statistics.stored_pages, statistics.forgotten_pages, statistics.sessions), (601, 4, 2));
}

#[test]
fn a_full_node_refuses_pages_and_sessions_and_keeps_what_it_has() {
    let node = tcp_node(pages(40));
    let mut client = connect(&node);
    let mut slots: Vec<Slot> = (0..48).map(Slot::with).collect();
    for (id, slot) in (0..).zip(&mut slots) {
        // SAFETY: the slots live until everything has settled.
        unsafe { client.store(id, slot.address()) }.unwrap();
    }
    let done = settle(&mut client).unwrap();
    let refused = |id: u32| done.contains(&PageCompletion::Refused { id });
    assert!((0..40).all(|id| !refused(id)) && (40..48).all(refused));
    assert!((0..40).all(|id| load(&mut client, id).holds(id as u64)));
    // SAFETY: nothing is queued.
    assert_eq!(unsafe { client.load(45, slots[0].address()) }, Err(Rejected::NotHeld));
    let error = refusal(&settings(&node));
    assert!(matches!(error.kind, ErrorKind::Refused { status: GreetingStatus::OverShare, free: 0, .. }));
    assert!(error.to_string().contains("--per-client"), "{error}");
    assert_eq!(client.forget(&[7]), 1);
    assert_eq!(store(&mut client, 45, 45), PageCompletion::Stored { id: 45 });
    drop(client);
    while node.statistics().open_sessions > 0 {
        std::thread::yield_now();
    }
    refusal(&NodeSettings { reserve_pages: 41, ..settings(&node) });
    Client::connect(&NodeSettings { reserve_pages: 40, ..settings(&node) }).unwrap();
}

#[test]
fn a_node_that_stops_says_so() {
    let node = tcp_node(pages(16));
    let address = node.address().to_string();
    let mut client = connect(&node);
    store(&mut client, 1, 1);
    node.stop();
    let error = end_of(&mut client);
    assert_eq!(error.kind, ErrorKind::Ended(EndReason::Stopping));
    assert!(error.to_string().contains(&address), "{error}");
    let error = refusal(&NodeSettings::new(tcp(address.rsplit(':').next().unwrap().parse().unwrap())));
    // Another test may have the port by now.
    assert!(matches!(error.kind, ErrorKind::Connect(_) | ErrorKind::Closed), "{error}");
}

/// Role of this program if the next test started it: the node that the test kills.
#[test]
#[ignore = "runs until it is killed"]
fn node_to_be_killed() {
    let node = tcp_node(pages(1 << 16));
    println!("listening {}", node.address());
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
fn a_node_killed_in_the_middle_is_an_error_and_never_wrong_data() {
    for rounds in [0, 3, 40] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tcp::node_to_be_killed", "--ignored", "--nocapture"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ports = lines.map_while(Result::ok).filter_map(|line| {
            line.split_once("listening ").map(|(_, address)| address.rsplit(':').next().unwrap().to_owned())
        });
        let port = ports.into_iter().next().unwrap().parse().unwrap();
        let mut client = Client::connect(&NodeSettings::new(tcp(port))).unwrap();
        let mut slots: Vec<Slot> = (0..512).map(Slot::with).collect();
        for (id, slot) in (0..).zip(&mut slots) {
            // SAFETY: the slots live as long as the client is used.
            unsafe { client.store(id, slot.address()) }.unwrap();
        }
        settle(&mut client).unwrap();
        slots.iter_mut().for_each(|slot| slot.fill(u64::MAX));
        for (id, slot) in (0..).zip(&mut slots) {
            // SAFETY: the slots live as long as the client is used, and the stores from them have settled.
            unsafe { client.load(id, slot.address()) }.unwrap();
        }
        let mut done = Vec::new();
        (0..rounds).for_each(|_| client.progress(&mut done).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        while done.len() < 512 {
            let Err(error) = client.progress(&mut done) else { continue };
            assert!(matches!(error.kind, ErrorKind::Closed | ErrorKind::Broken(_)), "{error}");
            break;
        }
        for completion in &done {
            let PageCompletion::Loaded { id } = completion else { panic!("{completion:?}") };
            assert!(slots[*id as usize].holds(*id as u64));
        }
    }
}

/// Starts a false node, which greets and then runs `says`.
fn false_node(welcome: Welcome, says: impl FnOnce(&mut TcpStream) + Send + 'static) -> NodeSettings {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.read_exact(&mut [0; HELLO]).unwrap();
        stream.write_all(&welcome.encode()).unwrap();
        says(&mut stream);
    });
    NodeSettings::new(tcp(port))
}

const WELCOME: Welcome = Welcome {
    version: VERSION,
    status: GreetingStatus::Welcome,
    most_pages: MOST_PAGES,
    capacity: 100,
    free: 100,
    most_ids: MOST_IDS,
    extent_pages: 0,
    share: 100,
    silence_ms: 0,
    identity: 0,
};

#[test]
fn a_greeting_that_is_none_is_refused() {
    let other = refusal(&false_node(Welcome { version: 9, ..WELCOME }, |_| ()));
    assert!(other.to_string().contains("speaks version 9"), "{other}");
    let absurd = refusal(&false_node(Welcome { most_pages: 0, ..WELCOME }, |_| ()));
    assert!(matches!(absurd.kind, ErrorKind::Garbage(_)), "{absurd}");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp(silent.local_addr().unwrap().port());
    let late = refusal(&NodeSettings { timeout_ns: 50_000_000, ..NodeSettings::new(address) });
    assert_eq!(late.kind, ErrorKind::TimedOut);
}

/// Reads a store of page 3 and a load of it, and answers the store correctly.
fn answer_store(stream: &mut TcpStream) -> Header {
    let mut request = [0; 2 * HEADER + PAGE];
    stream.read_exact(&mut request).unwrap();
    let store = Header::decode(request[..HEADER].try_into().unwrap()).unwrap();
    stream.write_all(&store.answer(1).encode()).unwrap();
    Header::decode(request[HEADER + PAGE..].try_into().unwrap()).unwrap()
}

/// Returns the error when page 3 is stored to, and loaded from, a node that answers with `says`.
fn outcome(says: impl FnOnce(&mut TcpStream) + Send + 'static) -> ErrorKind {
    let mut client = Client::connect(&false_node(WELCOME, says)).unwrap();
    let (mut stored, mut loaded) = (Slot::with(1), Slot::with(2));
    // SAFETY: both slots live as long as the client is used.
    unsafe {
        client.store(3, stored.address()).unwrap();
        client.load(3, loaded.address()).unwrap();
    }
    end_of(&mut client).kind
}

#[test]
fn answers_that_are_wrong_end_the_session() {
    let cut = outcome(|stream| {
        let load = answer_store(stream);
        stream.write_all(&load.answer(0).encode()).unwrap();
        stream.write_all(&[0; PAGE / 2]).unwrap();
    });
    assert_eq!(cut, ErrorKind::Closed);
    let changed = outcome(|stream| {
        let load = answer_store(stream);
        stream.write_all(&load.answer(0).encode()).unwrap();
        stream.write_all(&[0; PAGE]).unwrap();
    });
    assert_eq!(changed, ErrorKind::Corrupt { id: 3 });
    let other = outcome(|stream| {
        let load = answer_store(stream);
        stream.write_all(&Header { number: 7, ..load.answer(0) }.encode()).unwrap();
    });
    assert!(matches!(other, ErrorKind::Garbage(_)), "{other:?}");
    let early = outcome(|stream| {
        let store = Header::request(Verb::Store, 3, 1, 0);
        stream.write_all(&store.answer(2).encode()).unwrap();
    });
    assert!(matches!(early, ErrorKind::Garbage(_)), "{early:?}");
    let bye = outcome(|stream| stream.write_all(&Header::bye(EndReason::Stopping).encode()).unwrap());
    assert_eq!(bye, ErrorKind::Ended(EndReason::Stopping));
}

#[test]
fn a_faulty_session_ends_alone() {
    let node = tcp_node(pages(64));
    let mut good = connect(&node);
    store(&mut good, 1, 1);
    let mut faulty = TcpStream::connect(node.address().to_string()).unwrap();
    let hello = unrack_wire::Hello::new(unrack_wire::PageTransport::Stream, 0);
    faulty.write_all(&hello.encode()).unwrap();
    faulty.read_exact(&mut [0; unrack_wire::WELCOME]).unwrap();
    faulty.write_all(&[0xFF; HEADER]).unwrap();
    let mut answer = [0; HEADER];
    faulty.read_exact(&mut answer).unwrap();
    assert_eq!(Header::decode(&answer), Ok(Header::bye(EndReason::Malformed)));
    assert_eq!(faulty.read(&mut answer).unwrap(), 0);
    TcpStream::connect(node.address().to_string()).unwrap().write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert!(load(&mut good, 1).holds(1));
    while node.statistics().faulty_sessions == 0 {
        std::thread::yield_now();
    }
}
