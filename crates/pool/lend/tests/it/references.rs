//! Reads find what was written, where it was written.

use crate::pool::{PATIENCE, Pair, Pool, bytes, eventually, filled, modes};
use std::io::{Read, Write};
use std::time::Duration;
use unrack_lend::Error;

#[test]
fn a_buffer_is_read_where_it_was_written() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let pair = Pair::new(&pool);
        for size in [0, 1, 64, 4097, 1 << 20, 5 << 20] {
            let text: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            let buffer = pair.buffer(&text);
            let offset = pair.owner.lend(&buffer).expect("the peer is there");
            let loan = pair.reader.receive(offset, text.len() as u64).expect("it is lent");
            assert_eq!(bytes(&loan), text, "{mode}, {size} bytes");
            drop(loan);
        }
        eventually(|| pair.owner.lent() == 0, || format!("{mode}: {} are lent", pair.owner.lent()));
    }
}

#[test]
fn a_reader_writes_a_writable_buffer() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let pair = Pair::new(&pool);
        for round in 0u8..20 {
            let buffer = filled(
                pair.listener.endpoint().writable_buffer(3000).expect("there is room"),
                &[round; 3000],
            );
            let offset = pair.owner.lend(&buffer).expect("the peer is there");
            drop(buffer);
            let loan = pair.reader.receive_writable(offset, 3000).expect("it is lent");
            assert_eq!(bytes(&loan), [round; 3000], "{mode}");
            // SAFETY: it is this reader's.
            unsafe { loan.as_ptr().as_ptr().write_bytes(0xff, 3000) };
            assert_eq!(bytes(&loan), [0xff; 3000], "{mode}");
            drop(loan);
            eventually(|| pair.owner.lent() == 0, || format!("{mode}: it was returned"));
        }
    }
}

#[test]
fn a_buffer_is_lent_both_ways_and_to_several_peers() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let first = Pair::new(&pool);
        let third = pool.endpoint();
        let reader = third.open("owner", PATIENCE).expect("it listens");
        let owner = first.listener.accept(PATIENCE).expect("it is there").expect("it was opened");
        let buffer = first.buffer(b"to both");
        let told = [&first.owner, &owner].map(|link| link.lend(&buffer).expect("there"));
        drop(buffer);
        let links = [(&first.reader, told[0]), (&reader, told[1])];
        let loans = links.map(|(link, told)| link.receive(told, 7).expect("it is lent"));
        assert_eq!(loans.each_ref().map(bytes), [b"to both"; 2], "{mode}");
        let back = filled(third.buffer(4).expect("there is room"), b"back");
        let offset = reader.lend(&back).expect("the peer is there");
        assert_eq!(bytes(&owner.receive(offset, 4).expect("it is lent")), b"back", "{mode}");
    }
}

#[test]
fn a_reference_is_received_once_however_often_its_buffer_is_lent() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let pair = Pair::new(&pool);
        let buffer = pair.buffer(b"first");
        let told = [0, 1].map(|_| pair.owner.lend(&buffer).expect("the peer is there"));
        drop(buffer);
        let again = |told| {
            let refused = pair.reader.receive(told, 5).map(drop).map_err(|error| error.to_string());
            assert!(
                refused.as_ref().is_err_and(|text| text.contains("received once")),
                "{mode}: {refused:?}"
            );
        };
        let loans = told.map(|told| pair.reader.receive(told, 5).expect("it is lent"));
        told.iter().for_each(|told| again(*told));
        let [one, other] = loans;
        drop(one);
        // The other one still has its bytes, whatever the owner takes.
        let taken = [0; 8].map(|_| pair.buffer(b"later"));
        assert_eq!(bytes(&other), b"first", "{mode}");
        drop(other);
        eventually(|| pair.owner.lent() == 0, || format!("{mode}: it was returned"));
        told.iter().for_each(|told| again(*told));
        drop(taken);
        let told = pair.owner.lend(&pair.buffer(b"again")).expect("the peer is there");
        assert_eq!(bytes(&pair.reader.receive(told, 5).expect("it is lent")), b"again", "{mode}");
    }
}

#[test]
fn a_reference_is_received_once_by_threads_that_race_for_it() {
    let pool = Pool::new(modes()[0]);
    let pair = Pair::new(&pool);
    for round in 0..200 {
        let told = pair.owner.lend(&pair.buffer(b"raced")).expect("the peer is there");
        let got = std::thread::scope(|scope| {
            let tried = [0; 3].map(|_| scope.spawn(|| pair.reader.receive(told, 5).is_ok()));
            tried.map(|one| one.join().expect("no panic")).into_iter().filter(|got| *got).count()
        });
        assert_eq!(got, 1, "round {round}");
    }
    eventually(|| pair.owner.lent() == 0, || "they were returned".into());
}

#[test]
fn the_stream_carries_bytes_and_its_end() {
    let pool = Pool::new(modes()[0]);
    let Pair { listener, owner, reader } = Pair::new(&pool);
    owner.stream().write_all(b"hello").expect("it is open");
    drop(owner);
    let mut text = String::new();
    reader.stream().read_to_string(&mut text).expect("it ends");
    assert_eq!(text, "hello");
    assert_eq!(reader.peer().pid, std::process::id());
    assert!(listener.accept(Duration::ZERO).expect("the manager is there").is_none());
}

#[test]
fn errors_say_what_is_wrong() {
    let pool = Pool::new(modes()[0]);
    let pair = Pair::new(&pool);
    let text = |error: Error| error.to_string();
    let nobody = pool.endpoint().open("nobody", PATIENCE).map(drop).map_err(text);
    assert!(nobody.as_ref().is_err_and(|text| text.contains("no service is named \"nobody\"")), "{nobody:?}");
    let taken = pool.endpoint().listen("owner").map(drop).map_err(text);
    assert!(taken.as_ref().is_err_and(|text| text.contains("is taken by")), "{taken:?}");
    let full = pair.listener.endpoint().buffer(1 << 30).map(drop).map_err(text);
    assert!(full.as_ref().is_err_and(|text| text.contains("the pool is full")), "{full:?}");
    let never = pair.reader.receive(1 << 20, 64).map(drop).map_err(text);
    assert!(never.as_ref().is_err_and(|text| text.contains("lends no 64 bytes at 0x100000")), "{never:?}");
    let read_only = pair.owner.lend(&pair.buffer(b"text")).expect("the peer is there");
    assert!(matches!(pair.reader.receive_writable(read_only, 4), Err(Error::NotLent { .. })));
    let others = pool.endpoint().buffer(4).expect("there is room");
    assert!(matches!(pair.owner.lend(&others), Err(Error::OtherEndpoint)));
    let none = unrack_lend::Endpoint::connect(pool.folder.join("none")).map(drop).map_err(text);
    assert!(none.as_ref().is_err_and(|text| text.contains("unrack pool serve")), "{none:?}");
}

#[test]
fn a_process_lends_to_itself_between_two_endpoints() {
    let pool = Pool::new(modes()[0]);
    let endpoint = pool.endpoint();
    let _listener = endpoint.listen("self").expect("the name is free");
    let refused = endpoint.open("self", PATIENCE).map(drop).map_err(|error| error.to_string());
    assert!(
        refused.as_ref().is_err_and(|text| text.contains("another endpoint of the process")),
        "{refused:?}"
    );
    drop(pool.endpoint().open("self", PATIENCE).expect("another endpoint"));
}
