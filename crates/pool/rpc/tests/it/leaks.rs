//! Leaks: after bad input of each kind, the manager lists the same as before.

use crate::common::books::Books;
use crate::common::{Pool, modes, serve};
use std::time::Duration;
use unrack_pool::cache_control::{LINE, SharedMemory};
use unrack_rpc::{Client, Error, client, server};

const PATIENCE: Duration = Duration::from_secs(60);

fn options() -> client::Options {
    client::Options { deadline: Some(PATIENCE), ..client::Options::default() }
}

fn is_answered(client: &Client) {
    let mut request = client.request(16).expect("a buffer");
    request.body().put(0, [20u64, 22]).expect("sixteen bytes");
    let answer = request.call("sum").expect("an answer");
    assert_eq!(answer.body().get::<u64>(0).expect("eight bytes"), 42);
}

fn too_long(pool: &Pool) {
    let client = pool.client(options());
    assert!(matches!(client.request(usize::MAX / 2), Err(Error::TooLong { .. })));
    let mut request = client.request_with_room(8, 100).unwrap();
    request.body().put(0, 101u64).unwrap();
    assert!(matches!(request.call("fill"), Err(Error::NoRoom { needed: 101, room: 100, .. })));
    is_answered(&client);
}

fn unknown(pool: &Pool) {
    let nobody = pool.connect("nobody", options()).map(drop).unwrap_err();
    assert!(nobody.to_string().contains("no service is named"), "{nobody}");
    let client = pool.client(options());
    for _ in 0..100 {
        let wrong = client.request(1000).unwrap().call("nothing").map(drop);
        assert!(matches!(wrong, Err(Error::UnknownMethod { .. })));
    }
}

fn other_version(pool: &Pool) {
    let raw = pool.raw();
    for greeting in [&b"urrpc\0\x09\0"[..], b"hello", b""] {
        assert!(raw.open("test", greeting, 0, &[], PATIENCE).is_err());
    }
    let service = raw.register("other").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let offer = service.accept(PATIENCE).unwrap().expect("somebody connects");
            drop(offer.accept(b"urrpc\0\xff\x7f", 0, &[]).unwrap());
            let offer = service.accept(PATIENCE).unwrap().expect("somebody connects");
            offer.refuse(9, "not today");
        });
        let connect = || pool.connect("other", options()).map(drop).unwrap_err();
        assert!(matches!(connect(), Error::Version { theirs: 0x7fff, .. }));
        assert!(connect().to_string().contains("not today"));
    });
}

fn full(pool: &Pool) {
    let client = pool.client(options());
    let mut held = Vec::new();
    let full = loop {
        match client.request(1 << 20) {
            Ok(request) => held.push(request),
            Err(wrong) => break wrong,
        }
    };
    assert!(full.to_string().contains("full"), "{full}");
    // Whether there is memory for another client's queues depends on the rest of a section; for a message there
    // is none.
    if let Ok(other) = pool.connect("test", options()) {
        assert!(other.request(1 << 20).map(drop).unwrap_err().to_string().contains("full"));
    }
    drop(held);
    is_answered(&client);
}

/// Sends calls as fast as its queue takes them, and never looks at an answer.
fn stops_reading(pool: &Pool) {
    let raw = pool.raw();
    let (channel, _) = raw.open("test", b"urrpc\0\x01\0\0\0", 0, &[], PATIENCE).unwrap();
    let words = channel.queue_base().cast::<std::sync::atomic::AtomicU64>();
    let lines = channel.queues().bytes as usize / LINE / 2;
    for lap in 0..4u64 {
        let flag = (1 - lap % 2) << 63;
        for line in 0..lines {
            for beside in [2, 1, 0] {
                let entry = if beside == 0 { (line as u64 % 1024) << 38 } else { lap << 32 };
                // SAFETY: inside of the queue area; atomics may be shared.
                raw.memory().store(unsafe { words.add(line * LINE / 8 + beside).as_ref() }, entry | flag);
            }
        }
    }
}

fn gives_up(pool: &Pool) {
    let client = pool.client(client::Options { deadline: Some(Duration::from_millis(5)), ..options() });
    for _ in 0..4 {
        let mut request = client.request(100_000).unwrap();
        request.body().part(0, 8).unwrap().put(0, 20u64).unwrap();
        // A busy machine may be so slow that the answer has come.
        let ended = request.call("slow").map(drop);
        assert!(matches!(ended, Ok(()) | Err(Error::Deadline { .. })), "{ended:?}");
    }
}

type Kind = (&'static str, fn(&Pool));

#[test]
fn bad_input_leaves_nothing_behind() {
    for mode in modes() {
        let pool = Pool::with(mode, "16MiB", |_| {});
        let _serving = serve(&pool.socket(), server::Options::default());
        let honest = pool.client(options());
        is_answered(&honest);
        let observer = unrack_pool::Client::connect_as(pool.socket(), "observer").unwrap();
        let before = Books::of(&observer);
        let kinds: [Kind; 6] = [
            ("messages that are too long", too_long),
            ("services and methods that are not there", unknown),
            ("other versions", other_version),
            ("a full pool", full),
            ("a client that stops reading", stops_reading),
            ("calls that are given up", gives_up),
        ];
        for (what, does) in kinds {
            does(&pool);
            before.come_back(&observer, what);
            is_answered(&honest);
        }
    }
}
