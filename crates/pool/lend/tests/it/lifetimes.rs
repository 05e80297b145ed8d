//! Lifetimes: what stays when something ends, and that nothing is left in the end.

use crate::pool::{PATIENCE, Pair, Pool, bytes, eventually, filled, modes};

#[test]
fn a_loan_outlives_buffer_link_and_owner() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let before = pool.books();
        let Pair { listener, owner, reader } = Pair::new(&pool);
        let buffer = filled(listener.endpoint().buffer(6).expect("there is room"), b"stays.");
        let offset = owner.lend(&buffer).expect("the peer is there");
        drop(buffer);
        // What is allocated next does not take its place.
        let next = filled(listener.endpoint().buffer(6).expect("there is room"), b"others");
        let loan = reader.receive(offset, 6).expect("it is lent");
        drop(reader);
        assert_eq!(bytes(&loan), b"stays.", "{mode}");
        drop((next, owner, listener));
        for _ in 0..100 {
            assert_eq!(bytes(&loan), b"stays.", "{mode}");
            std::thread::yield_now();
        }
        drop(loan);
        pool.come_back_to(before);
    }
}

#[test]
fn an_owner_that_leaves_at_once_has_lent_all_the_same() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let before = pool.books();
        for size in [3, 3 << 20] {
            let Pair { listener, owner, reader } = Pair::new(&pool);
            let text = vec![7; size];
            let buffer =
                filled(listener.endpoint().writable_buffer(size as u64).expect("there is room"), &text);
            let offset = owner.lend(&buffer).expect("the peer is there");
            drop((buffer, owner, listener));
            let loan = reader.receive_writable(offset, size as u64).expect("it was lent");
            assert_eq!(bytes(&loan), text, "{mode}");
        }
        pool.come_back_to(before);
    }
}

#[test]
fn a_peer_that_ends_returns_what_it_never_received() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let before = pool.books();
        let pair = Pair::new(&pool);
        for _ in 0..10 {
            pair.owner.lend(&pair.buffer(&[1; 100_000])).expect("the peer is there");
        }
        assert_eq!(pair.owner.lent(), 10);
        let kept = pair.owner.lend(&pair.buffer(b"kept")).expect("the peer is there");
        let loan = pair.reader.receive(kept, 4).expect("it is lent");
        drop(pair.reader);
        assert!(pair.owner.lent() > 0, "a loan keeps the link");
        drop(loan);
        eventually(|| pair.owner.lent() == 0, || "all are returned".into());
        // Nothing is held for a peer that is gone.
        let _ = pair.owner.lend(&filled(pair.listener.endpoint().buffer(4).expect("room"), b"late"));
        assert_eq!(pair.owner.lent(), 0);
        drop((pair.owner, pair.listener));
        pool.come_back_to(before);
    }
}

#[test]
fn buffers_are_used_again() {
    let pool = Pool::new(modes()[0]);
    let pair = Pair::new(&pool);
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..200u8 {
        let buffer = pair.buffer(&vec![round; 3 << 20]);
        let told = pair.owner.lend(&buffer).expect("the pool is not used up");
        let loan = pair.reader.receive(told, 3 << 20).expect("it is lent");
        assert_eq!(bytes(&loan)[3000], round);
        drop(loan);
        eventually(|| pair.owner.lent() == 0, || "it was returned".into());
        seen.insert(buffer.as_ptr());
    }
    assert!(seen.len() < 20, "{} places", seen.len());
}

#[test]
fn a_listener_frees_its_name_and_keeps_its_links() {
    let pool = Pool::new(modes()[0]);
    let before = pool.books();
    let Pair { listener, owner, reader } = Pair::new(&pool);
    let buffer = filled(listener.endpoint().writable_buffer(2).expect("room"), b"on");
    drop(listener);
    let offset = owner.lend(&buffer).expect("the peer is there");
    drop(buffer);
    assert_eq!(bytes(&reader.receive_writable(offset, 2).expect("it is lent")), b"on");
    let again = pool.endpoint().listen("owner").expect("the name is free");
    drop(pool.endpoint().open("owner", PATIENCE).expect("it listens"));
    drop((again, owner, reader));
    pool.come_back_to(before);
}

#[test]
fn memory_goes_back_to_the_pool_while_the_link_stays() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let pair = Pair::new(&pool);
        let before = pool.books();
        // More than an arena keeps for ever.
        let sizes = [40 << 20, 1000];
        let loans = sizes.map(|size| {
            let offset = pair.owner.lend(&pair.buffer(&vec![5; size])).expect("the peer is there");
            pair.reader.receive(offset, size as u64).expect("it is lent")
        });
        assert!(loans.iter().all(|loan| bytes(loan).iter().all(|byte| *byte == 5)), "{mode}");
        drop(loans);
        eventually(|| pool.segments() <= 1, || format!("{mode}: {:?}, before: {before:?}", pool.books()));
    }
}
