//! Peers that keep to no protocol harm their own link only.

use crate::pool::{PATIENCE, Pair, Pool, bytes, eventually, modes};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use unrack_lend::Error;
use unrack_pool::Channel;
use unrack_pool::wire::Access;

const GREETING: &[u8] = b"unrack-lend 2";

/// Returns the reference of a loan, as an owner numbers them.
fn reference(channel: &Channel, number: u64, offset: u64) -> u64 {
    let first = channel.id().0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 41;
    (first + number) << 41 | offset >> 6
}

/// Returns the offset of a reference's buffer, by which it is returned.
fn offset_of(reference: u64) -> u64 {
    (reference & ((1 << 41) - 1)) << 6
}

/// Opens a link to `owner` by hand.
fn raw(pool: &Pool) -> (Channel, OwnedFd) {
    let (channel, mut greeting) =
        pool.observer.open("owner", GREETING, 0, &[], PATIENCE).expect("it takes any greeting of its own");
    let returns = greeting.passed.pop().expect("two sockets");
    (channel, returns)
}

#[test]
fn noise_returns_only_what_was_lent_by_its_link() {
    let pool = Pool::new(modes()[0]);
    let pair = Pair::new(&pool);
    let (_channel, returns) = raw(&pool);
    let owner = pair.listener.accept(PATIENCE).expect("it is there").expect("it was opened");
    let buffer = pair.buffer(b"shared");
    let told = pair.owner.lend(&buffer).expect("the peer is there");
    owner.lend(&buffer).expect("the peer is there");
    let word = offset_of(told).to_le_bytes();
    // Unknown offsets, what others hold, the same again, cut short.
    let mut packets: Vec<Vec<u8>> = (1..600).map(|size| vec![size as u8; size]).collect();
    packets.extend([word.to_vec(), word.repeat(64), word[..7].to_vec()]);
    for packet in packets {
        send(&returns, &packet, SendFlags::empty()).expect("its thread reads");
    }
    eventually(|| owner.lent() == 0, || "it was returned".into());
    drop(buffer);
    let loan = pair.reader.receive(told, 6).expect("the other peer still has it");
    assert_eq!((bytes(&loan), pair.owner.lent()), (&b"shared"[..], 1));
}

#[test]
fn an_owner_that_reads_nothing_holds_no_reader_up() {
    let pool = Pool::new(modes()[0]);
    let service = pool.observer.register("deaf").expect("the name is free");
    let arena = pool.observer.arena();
    let pair = |kind| socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).expect("a pair");
    let ((_stream, far_stream), (_deaf, far)) = (pair(SocketType::STREAM), pair(SocketType::SEQPACKET));
    let (link, channel) = std::thread::scope(|scope| {
        let link = scope.spawn(|| pool.endpoint().open("deaf", PATIENCE).expect("it is accepted"));
        let offer = service.accept(PATIENCE).expect("it is there").expect("it asks");
        let channel = offer.accept(GREETING, 0, &[far_stream.as_fd(), far.as_fd()]).expect("it waits");
        (link.join().expect("it is fine"), channel)
    });
    arena.share_with(&channel, Access::Read).expect("it is there");
    let buffer = arena.alloc(64).expect("there is room");
    for number in 0..20_000 {
        drop(link.receive(reference(&channel, number, buffer.offset()), 64).expect("it is granted"));
    }
    assert!(link.receive(reference(&channel, 20_000, 0), 64).is_err(), "nothing is granted there");
    arena.free(buffer);
}

#[test]
fn other_protocols_are_named() {
    let pool = Pool::new(modes()[0]);
    let _owner = pool.endpoint().listen("owner").expect("the name is free");
    let refused = pool.observer.open("owner", b"calls", 0, &[], PATIENCE).map(drop);
    let text = refused.expect_err("another greeting").to_string();
    assert!(text.contains("use the same release of both programs"), "{text}");
    let service = pool.observer.register("calls").expect("the name is free");
    std::thread::scope(|scope| {
        let link = scope.spawn(|| pool.endpoint().open("calls", PATIENCE).map(drop));
        let offer = service.accept(PATIENCE).expect("it is there").expect("it asks");
        let _channel = offer.accept(b"calls", 0, &[]).expect("it waits");
        assert!(matches!(link.join().expect("it is fine"), Err(Error::Protocol { .. })));
    });
}
