//! Arbitrary bytes sent to either end cause a protocol error or nothing: never a panic, never more memory than
//! allowed.

use crate::common::{Slot, session_pages};
use proptest::prelude::*;
use std::io::{IoSlice, IoSliceMut};
use unrack_node::session::{MOST_REPLIES, Session};
use unrack_pager::node::session::NodeSession;
use unrack_pager::node::{PageCompletion, Tuning};
use unrack_wire::{HEADER, Header, MOST_IDS, PAGE, Verb};

const CAPACITY: u64 = 8;

/// Returns a strategy of bytes that look like requests more often than random bytes do.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let verb =
        prop::sample::select(vec![Verb::Store, Verb::Load, Verb::Forget, Verb::Grant, Verb::Bye, Verb::Ping]);
    let id = prop_oneof![4 => 0u32..4, 1 => any::<u32>(), 1 => MOST_IDS - 2..MOST_IDS + 2];
    let count = prop_oneof![4 => 0u16..4, 1 => any::<u16>()];
    let plausible = (verb, id, count, any::<u32>(), prop::bool::weighted(0.1), 0usize..4).prop_map(
        |(verb, id, count, number, reply, pages)| {
            let header = Header { reply, ..Header::request(verb, id, count, number) };
            let mut bytes = header.encode().to_vec();
            bytes.resize(HEADER + if verb == Verb::Store { pages * PAGE } else { 0 }, 7);
            bytes
        },
    );
    let noise = prop::collection::vec(any::<u8>(), 0..64);
    prop::collection::vec(prop_oneof![6 => plausible, 1 => noise], 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn a_node_survives_any_bytes(bytes in bytes(), piece in 1usize..9000) {
        let (capacity, pages) = session_pages(CAPACITY);
        let mut session = Session::new(pages, Default::default());
        let (mut start, mut end) = (0, 0);
        while end < bytes.len() {
            end = (end + piece).min(bytes.len());
            let mut replies = Vec::new();
            let Ok(used) = session.receive(&bytes[start..end], &mut replies) else { break };
            start += used;
            prop_assert!(session.pages().charged() <= CAPACITY);
            prop_assert!(replies.len() <= MOST_REPLIES + HEADER + PAGE);
        }
        drop(session);
        prop_assert_eq!(capacity.all().free(), CAPACITY);
    }

    #[test]
    fn a_client_takes_no_page_that_was_not_stored(bytes in bytes(), mimic: bool, piece in 1usize..9000) {
        let mut client = NodeSession::new(Tuning::default());
        let (mut store, mut load) = (Slot::with(1), Slot::with(2));
        // SAFETY: both slots live longer than the session is used.
        unsafe {
            client.store(3, store.address()).unwrap();
            client.load(3, load.address()).unwrap();
        }
        client.fill();
        let bytes = if mimic { answers(bytes) } else { bytes };
        let sent = client.outgoing(&mut [IoSlice::new(&[]); 8]).1;
        client.sent(sent);
        let mut done = Vec::new();
        for arriving in bytes.chunks(piece) {
            if !deliver(&mut client, arriving, &mut done) {
                break;
            }
        }
        let loaded = done.contains(&PageCompletion::Loaded { id: 3 });
        prop_assert!(!loaded || load.holds(1));
    }
}

/// Returns the headers of the right answers, with these bytes as the page.
fn answers(bytes: Vec<u8>) -> Vec<u8> {
    let stored = Header::request(Verb::Store, 3, 1, 0).answer(1).encode();
    let loaded = Header::request(Verb::Load, 3, 1, 1).answer(0).encode();
    let mut page = bytes;
    page.resize(PAGE, 0);
    [&stored[..], &loaded[..], &page].concat()
}

/// Delivers bytes to the client. Returns whether the session goes on.
fn deliver(client: &mut NodeSession, mut bytes: &[u8], done: &mut Vec<PageCompletion>) -> bool {
    while !bytes.is_empty() {
        let mut parts: [IoSliceMut; 4] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
        let (used, _) = client.landing(&mut parts);
        let mut landed = 0;
        for part in &mut parts[..used] {
            let len = part.len().min(bytes.len() - landed);
            part[..len].copy_from_slice(&bytes[landed..landed + len]);
            landed += len;
        }
        if client.landed(landed, done).is_err() {
            return false;
        }
        bytes = &bytes[landed..];
    }
    true
}

#[test]
fn a_node_says_when_a_page_is_not_held() {
    let mut session = Session::new(session_pages(CAPACITY).1, Default::default());
    let load = Header::request(Verb::Load, 5, 1, 0).encode();
    let fault = session.receive(&load, &mut Vec::new()).unwrap_err();
    assert_eq!(fault, unrack_node::session::SessionFault::NotHeld(5));
}
