//! Hostile clients: whatever a process sends, the manager goes on, and others lose nothing.

use crate::common::{PATIENCE, Pool};
use proptest::prelude::*;
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::path::Path;
use std::time::{Duration, Instant};
use unrack_pool::wire::{
    self, Accepted, Access, Ask, Cause, ChannelId, ClientId, Denied, Event, Hello, ListingEntry,
    ReceivedPacket, RefusedCaller, Request, Tell, Welcome,
};
use unrack_pool::{Client, Error, Wakeups};
use unrack_units::Bytes;

/// Connection without the client library.
struct Raw(OwnedFd);

impl Raw {
    fn new(path: &Path) -> Raw {
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).expect("a manager listens");
        Raw(socket)
    }

    /// Connects with a correct hello.
    fn greeted(path: &Path) -> (Raw, ClientId) {
        let raw = Raw::new(path);
        let wakeups = Wakeups::make().unwrap();
        let hello = Hello { name: "hostile".into(), again: None };
        wire::send(raw.0.as_fd(), &wire::first(&hello), &[wakeups.file()]).unwrap();
        let ReceivedPacket::Packet(bytes, _) = wire::receive(raw.0.as_fd()).unwrap() else {
            panic!("no welcome")
        };
        let welcome = wire::read_first::<Result<Welcome, Denied>>(&bytes).unwrap().unwrap();
        (raw, welcome.you)
    }

    /// Sends bytes; errors are ignored, since the manager may have ended the connection.
    fn send(&self, bytes: &[u8], beside: &[rustix::fd::BorrowedFd<'_>]) {
        let _ = wire::send(self.0.as_fd(), bytes, beside);
    }

    /// Discards all that has arrived, without waiting.
    fn drain(&self) {
        rustix::io::ioctl_fionbio(&self.0, true).unwrap();
        while let Ok(ReceivedPacket::Packet(..) | ReceivedPacket::Malformed) = wire::receive(self.0.as_fd()) {
        }
        rustix::io::ioctl_fionbio(&self.0, false).unwrap();
    }
}

/// Pair of honest processes that would notice if their channel or buffer were touched.
struct Honest {
    client: Client,
    server: Client,
    near: unrack_pool::Channel,
    far: unrack_pool::Channel,
    buffer: unrack_pool::Buffer,
    arena: unrack_pool::Arena,
}

impl Honest {
    fn new(pool: &Pool) -> Honest {
        let (server, client) = (pool.client("server"), pool.client("client"));
        let service = server.register("honest").unwrap();
        let (near, far) = std::thread::scope(|scope| {
            let far = scope.spawn(|| service.accept(PATIENCE).unwrap().unwrap().accept(b"", 0, &[]).unwrap());
            (client.open("honest", b"", 0, &[], PATIENCE).unwrap().0, far.join().unwrap())
        });
        let arena = client.arena();
        arena.share_with(&near, Access::Read).unwrap();
        let buffer = arena.alloc(64).unwrap();
        // SAFETY: the buffer is ours.
        unsafe { buffer.as_ptr().write(0x42) };
        drop(service);
        Honest { client, server, near, far, buffer, arena }
    }

    fn check(self) {
        let start = Instant::now();
        assert!(self.client.list().is_ok() && self.server.list().is_ok(), "the manager goes on");
        assert!(start.elapsed() < PATIENCE, "in good time");
        assert_eq!((self.near.gone(), self.far.gone()), (None, None));
        let found = self.far.resolve(self.buffer.offset(), 64, Access::Read).expect("still granted");
        // SAFETY: granted.
        assert_eq!(unsafe { found.read() }, 0x42);
        let more = self.arena.alloc(1 << 20).expect("the pool is not exhausted");
        self.arena.free(more);
        self.arena.free(self.buffer);
    }
}

fn id() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0u64..12, 1 => any::<u64>()]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![Just("honest".into()), Just("mine".into()), ".{0,200}"]
}

fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![6 => (0u64..20).prop_map(|section| section << 21), 1 => any::<u64>()]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![prop::collection::vec(any::<u8>(), 0..40), Just(vec![7; 1025])]
}

fn request() -> impl Strategy<Value = Request> {
    let access = prop_oneof![Just(Access::Read), Just(Access::Write)];
    let refused = (any::<u32>(), ".{0,600}").prop_map(|(code, text)| RefusedCaller { code, text });
    let accepted = (bytes(), 0u32..70).prop_map(|(greeting, wakeup)| Accepted { greeting, wakeup });
    prop_oneof![
        prop_oneof![0u32..4, any::<u32>()].prop_map(|sections| Request::Lease { sections }),
        offset().prop_map(|offset| Request::Release { offset }),
        (id(), offset(), access).prop_map(|(channel, offset, access)| Request::Grant {
            channel: ChannelId(channel),
            offset,
            access
        }),
        name().prop_map(|service| Request::Register { service }),
        name().prop_map(|service| Request::Withdraw { service }),
        (name(), bytes(), 0u32..70).prop_map(|(service, greeting, wakeup)| Request::Open {
            service,
            greeting,
            wakeup
        }),
        (0u32..20).prop_map(|number| Request::Abandon { number }),
        (id(), accepted).prop_map(|(channel, accepted)| Request::Answer {
            channel: ChannelId(channel),
            verdict: Ok(accepted)
        }),
        (id(), refused).prop_map(|(channel, refused)| Request::Answer {
            channel: ChannelId(channel),
            verdict: Err(refused)
        }),
        id().prop_map(|channel| Request::Close { channel: ChannelId(channel) }),
        id().prop_map(|channel| Request::GiveUp { channel: ChannelId(channel) }),
        (id(), offset())
            .prop_map(|(channel, offset)| Request::Unmapped { channel: ChannelId(channel), offset }),
        offset().prop_map(|offset| Request::HandBack { offset }),
        prop::collection::vec(id().prop_map(ChannelId), 0..5).prop_map(|channels| Request::Keep { channels }),
        Just(Request::Resumed),
        id().prop_map(|from| Request::List { from }),
        Just(Request::Sync),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Sends requests of every kind, for things of its own, of others and of nobody, from two hostile processes.
    #[test]
    fn any_requests(steps in prop::collection::vec((any::<bool>(), request(), 0usize..3), 1..120)) {
        let pool = Pool::new(|options| options.capacity = Bytes::new(48 << 20));
        let honest = Honest::new(&pool);
        let hostile = [Raw::greeted(pool.manager.socket()).0, Raw::greeted(pool.manager.socket()).0];
        let null = std::fs::File::open("/dev/null").unwrap();
        for (number, (which, request, passed)) in steps.into_iter().enumerate() {
            // A pool that is used up is no fault of the manager.
            let sane = !matches!(request, Request::Lease { sections } if sections > 1);
            if sane {
                let beside = vec![null.as_fd(); passed];
                let raw = &hostile[which as usize];
                raw.send(&wire::encode(&Ask { number: number as u32, request }), &beside);
                raw.drain();
            }
        }
        drop(hostile);
        honest.check();
    }

    /// Sends bytes that are no message, or nearly one.
    #[test]
    fn any_bytes(
        requests in prop::collection::vec((request(), prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4), any::<bool>()), 1..20),
        noise in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..200), 0..6),
    ) {
        let pool = Pool::new(|_| {});
        let honest = Honest::new(&pool);
        for (request, changes, cut) in requests {
            let (raw, _) = Raw::greeted(pool.manager.socket());
            let mut bytes = wire::encode(&Ask { number: 1, request });
            for (at, byte) in changes {
                *at.get_mut(&mut bytes) = byte;
            }
            if cut {
                bytes.pop();
            }
            if !bytes.is_empty() {
                raw.send(&bytes, &[]);
            }
        }
        for bytes in noise {
            Raw::new(pool.manager.socket()).send(&bytes, &[]);
            let mut first = wire::MAGIC.to_vec();
            first.extend(&bytes);
            Raw::new(pool.manager.socket()).send(&first, &[]);
        }
        honest.check();
    }
}

#[test]
fn other_versions_and_other_wakeups_are_refused() {
    let pool = Pool::new(|_| {});
    let wakeups = Wakeups::make().unwrap();
    let answer = |bytes: &[u8], beside: &[rustix::fd::BorrowedFd<'_>]| {
        let raw = Raw::new(pool.manager.socket());
        raw.send(bytes, beside);
        match wire::receive(raw.0.as_fd()) {
            Ok(ReceivedPacket::Packet(bytes, _)) => {
                Some(wire::read_first::<Result<Welcome, Denied>>(&bytes).unwrap())
            }
            _ => None,
        }
    };
    let hello = |name: &str, again| wire::first(&Hello { name: name.into(), again });
    let mut newer = hello("x", None);
    newer[8] += 1;
    assert_eq!(answer(&newer, &[wakeups.file()]), Some(Err(Denied::Version { theirs: wire::VERSION })));
    assert_eq!(answer(&hello("\u{7}", None), &[wakeups.file()]), Some(Err(Denied::BadName)));
    assert_eq!(answer(&hello("x", Some(ClientId(1))), &[wakeups.file()]), Some(Err(Denied::Stranger)));
    let null = std::fs::File::open("/dev/null").unwrap();
    assert_eq!(answer(&hello("x", None), &[null.as_fd()]), Some(Err(Denied::NotYours)));
    assert_eq!(answer(&hello("x", None), &[]), None);
    assert_eq!(answer(&vec![0; 20_000], &[]), None, "longer than any message");
    assert!(answer(&hello("x", None), &[wakeups.file()]).unwrap().is_ok());
}

/// Messages for a process that does not read are refused, at no cost to other processes.
#[test]
fn a_process_that_does_not_read_holds_nobody_up() {
    let pool = Pool::new(|options| options.limits.waiting = 8);
    let honest = Honest::new(&pool);
    let (deaf, _) = Raw::greeted(pool.manager.socket());
    deaf.send(&wire::encode(&Ask { number: 0, request: Request::Register { service: "deaf".into() } }), &[]);
    // It asks endlessly, and reads no reply: in the end the manager stops reading from it, too.
    rustix::io::ioctl_fionbio(&deaf.0, true).unwrap();
    let request = wire::encode(&Ask { number: 1, request: Request::List { from: 0 } });
    let start = Instant::now();
    let mut blocked = 0;
    while blocked < 20 && start.elapsed() < PATIENCE {
        match wire::send(deaf.0.as_fd(), &request, &[]) {
            Ok(()) => blocked = 0,
            Err(_) => {
                blocked += 1;
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
    assert_eq!(blocked, 20, "there is an end to what the manager keeps for it");
    let mut refused = None;
    for _ in 0..40 {
        match honest.client.open("deaf", b"", 0, &[], Duration::from_millis(1)) {
            Err(Error::TimedOut(_)) => {}
            other => {
                refused = Some(other.map(drop));
                break;
            }
        }
    }
    assert!(matches!(refused, Some(Err(Error::Denied(Denied::Slow(_))))), "{refused:?}");
    honest.check();
}

/// The other side is told why, once. Segments granted to the process stay allocated until it closes the channel,
/// since it has them mapped.
#[test]
fn a_process_that_gives_a_channel_up_holds_what_it_was_granted_until_it_closes_it() {
    let pool = Pool::new(|_| {});
    let honest = Honest::new(&pool);
    let (raw, _) = Raw::greeted(pool.manager.socket());
    raw.send(&wire::encode(&Ask { number: 0, request: Request::Register { service: "raw".into() } }), &[]);
    let answer = |channel| {
        let accepted = Accepted { greeting: Vec::new(), wakeup: 0 };
        let request = Request::Answer { channel, verdict: Ok(accepted) };
        raw.send(&wire::encode(&Ask { number: 1, request }), &[]);
    };
    let client = pool.client("caller");
    let (near, channel) = std::thread::scope(|scope| {
        let opened = scope.spawn(|| client.open("raw", b"", 0, &[], PATIENCE).unwrap().0);
        let channel = loop {
            let ReceivedPacket::Packet(bytes, _) = wire::receive(raw.0.as_fd()).unwrap() else {
                panic!("no offer")
            };
            if let Tell::Event(Event::Offered { offer, .. }) = wire::decode(&bytes).unwrap() {
                break offer.channel;
            }
        };
        answer(channel);
        (opened.join().unwrap(), channel)
    });
    let segment = client.lease(1).unwrap();
    let at = segment.extent().offset;
    near.grant(&segment, Access::Write).unwrap();
    for number in 2..100 {
        raw.send(&wire::encode(&Ask { number, request: Request::GiveUp { channel } }), &[]);
    }
    until(|| near.gone() == Some(Cause::CannotMap));
    drop((near, segment));
    let is_there = || {
        let segment = |listed: &ListingEntry| matches!(listed, ListingEntry::Segment { extent, .. } if extent.offset == at);
        honest.client.list().unwrap().iter().any(segment)
    };
    assert!(is_there(), "it is mapped by who gave the channel up");
    raw.send(&wire::encode(&Ask { number: 100, request: Request::Close { channel } }), &[]);
    until(|| !is_there());
    honest.check();
}

fn until(holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn connections_that_say_nothing_are_few() {
    let pool = Pool::new(|_| {});
    let honest = Honest::new(&pool);
    let silent: Vec<_> = (0..200).map(|_| Raw::new(pool.manager.socket())).collect();
    assert!(Client::connect_as(pool.manager.socket(), "late").is_ok());
    drop(silent);
    honest.check();
}

#[test]
fn one_process_has_so_much_and_no_more() {
    let pool = Pool::new(|options| {
        options.limits.services = 2;
        options.limits.segments = 3;
        options.limits.channels = 2;
        options.limits.clients = 4;
    });
    let (one, two) = (pool.client("one"), pool.client("two"));
    let _services = [one.register("a").unwrap(), one.register("b").unwrap()];
    assert!(matches!(one.register("c"), Err(Error::Denied(Denied::Limit { most: 2, .. }))));
    let _segments = [(); 3].map(|()| one.lease(1).unwrap());
    assert!(matches!(one.lease(1), Err(Error::Denied(Denied::Limit { most: 3, .. }))));
    let short = Duration::from_millis(5);
    for _ in 0..2 {
        assert!(matches!(two.open("a", b"", 0, &[], short), Err(Error::TimedOut(_))));
    }
    // The service still has both offers.
    assert!(matches!(two.open("a", b"", 0, &[], short), Err(Error::Denied(Denied::Limit { most: 2, .. }))));
    let _more = [pool.client("three"), pool.client("four")];
    let refused = Client::connect_as(pool.manager.socket(), "five").map(drop);
    assert!(matches!(refused, Err(Error::Denied(Denied::Limit { most: 4, .. }))));
}
