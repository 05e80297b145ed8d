//! Tests of the ledger.

use super::*;
use crate::wire::{Access, ChannelId, ClientId, Extent};
use proptest::prelude::*;
use rustix::fs::MemfdFlags;

const SHAPE: LedgerShape =
    LedgerShape { capacity_sections: 4, space_sections: 16, queue_bytes: 65536, backing: 9 };

fn file() -> OwnedFd {
    rustix::fs::memfd_create("ledger", MemfdFlags::CLOEXEC).expect("memory for a test")
}

fn record() -> impl Strategy<Value = LedgerRecord> {
    let id = (0u64..4).prop_map(ClientId);
    let channel = (0u64..4).prop_map(ChannelId);
    let extent = (0u64..4).prop_map(|offset| Extent { offset, bytes: 1 });
    prop_oneof![
        (extent, prop::option::of(id.clone())).prop_map(|(extent, owner)| LedgerRecord::Segment {
            extent,
            owner,
            file: Some(FileIdentity { device: u64::MAX, inode: u64::MAX }),
        }),
        ("[a-b]{1,2}", id.clone()).prop_map(|(name, by)| LedgerRecord::Service { name, by }),
        (0u64..3, channel, id).prop_map(|(offset, channel, to)| LedgerRecord::Grant(GrantRecord {
            offset,
            channel,
            to,
            access: Access::Read
        })),
    ]
}

#[test]
fn the_longest_record_fits() {
    let mut ledger = Ledger::create(&file(), SHAPE).unwrap();
    let name = "x".repeat(crate::wire::MOST_NAME);
    let peer = crate::wire::PeerProcess {
        id: ClientId(u64::MAX),
        pid: u32::MAX,
        uid: u32::MAX,
        gid: u32::MAX,
        name: name.clone(),
    };
    ledger.put(&LedgerRecord::Client(Process { peer, started: u64::MAX })).unwrap();
    ledger
        .put(&LedgerRecord::Channel(ChannelRecord {
            id: ChannelId(u64::MAX),
            service: name,
            client: ClientId(u64::MAX),
            server: ClientId(u64::MAX),
            client_open: true,
            server_open: true,
            asked: true,
            queues: Extent { offset: u64::MAX, bytes: u64::MAX },
        }))
        .unwrap();
}

proptest! {
    /// Compares with a map: exactly the records that were put and not removed are recovered, in the order in
    /// which they were put.
    #[test]
    fn recovers_what_was_put(steps in prop::collection::vec((record(), any::<bool>()), 0..60)) {
        let file = file();
        let mut ledger = Ledger::create(&file, SHAPE).unwrap();
        let mut expected: Vec<LedgerRecord> = Vec::new();
        for (record, put) in steps {
            expected.retain(|held| held.key() != record.key());
            if put {
                ledger.put(&record).unwrap();
                expected.push(record);
            } else {
                ledger.remove(&record.key());
            }
            let number = ledger.take_number();
            prop_assert!(ledger.take_number() > number);
        }
        let next = ledger.take_number();
        drop(ledger);
        let (mut ledger, records) = Ledger::recover(&file, SHAPE).unwrap().expect("it is a ledger");
        prop_assert_eq!(&records, &expected);
        prop_assert!(ledger.take_number() > next, "numbers are never given twice");
        prop_assert_eq!(ledger.free.len() + ledger.places.len(), ledger.slots);
        for record in expected {
            ledger.remove(&record.key());
        }
        prop_assert!(Ledger::recover(&file, SHAPE).unwrap().unwrap().1.is_empty());
    }

    /// Overwrites parts of a ledger at random: it is read without harm, and each record left is one of those put.
    #[test]
    fn damage_does_no_harm(
        puts in prop::collection::vec(record(), 1..20),
        damage in prop::collection::vec((0usize..PAGE as usize + 40 * SLOT, any::<u8>()), 1..40),
    ) {
        let file = file();
        let mut ledger = Ledger::create(&file, SHAPE).unwrap();
        for record in &puts {
            ledger.put(record).unwrap();
        }
        drop(ledger);
        for (at, byte) in damage {
            rustix::io::pwrite(&file, &[byte], at as u64).unwrap();
        }
        Ledger::shape_of(&file);
        if let Some((_, records)) = Ledger::recover(&file, SHAPE).unwrap() {
            prop_assert!(records.iter().all(|record| puts.contains(record)));
        }
    }
}

#[test]
fn another_shape_is_no_ledger_of_ours() {
    let file = file();
    drop(Ledger::create(&file, SHAPE).unwrap());
    assert_eq!(Ledger::shape_of(&file), Some(SHAPE));
    assert!(Ledger::recover(&file, LedgerShape { backing: 1, ..SHAPE }).unwrap().is_none());
    assert!(Ledger::recover(&self::file(), SHAPE).unwrap().is_none());
    assert_eq!(Ledger::shape_of(&self::file()), None);
}

fn service(number: usize) -> LedgerRecord {
    LedgerRecord::Service { name: format!("service-{number}"), by: ClientId(1) }
}

/// A ledger takes the bytes of its records and a page or two more, however large the pool.
#[test]
fn a_ledger_is_as_large_as_its_records() {
    for space_sections in [1, 1 << 10, 1 << 20, u64::from(u32::MAX)] {
        let file = file();
        let ledger = Ledger::create(&file, LedgerShape { space_sections, ..SHAPE }).unwrap();
        let stat = rustix::fs::fstat(&file).unwrap();
        assert!(stat.st_size <= 128 << 10, "{} bytes for {space_sections} sections", stat.st_size);
        assert!(stat.st_blocks * 512 <= 256 << 10);
        drop(ledger);
    }
}

/// A ledger grows to its limit and is recovered with that size; one that cannot grow keeps its records.
#[test]
fn a_ledger_grows_until_it_may_not() {
    let shape = LedgerShape { space_sections: 0, ..SHAPE };
    let file = file();
    let mut ledger = Ledger::create(&file, shape).unwrap();
    let put = (0..).take_while(|&number| ledger.put(&service(number)).is_ok()).count();
    assert_eq!(put, shape.slots() - SPARE);
    assert_eq!(ledger.put(&service(put)), Err(Errno::NOSPC));
    ledger.put(&service(3)).expect("one that is there can be changed");
    drop(ledger);
    let (_, records) = Ledger::recover(&file, shape).unwrap().expect("it is a ledger");
    assert_eq!(records.len(), put);
    assert_eq!(records.last(), Some(&service(3)));
}

#[test]
fn a_ledger_that_cannot_grow_says_so_and_loses_nothing() {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("ledger", flags).unwrap();
    let mut ledger = Ledger::create(&file, SHAPE).unwrap();
    rustix::fs::fcntl_add_seals(&file, rustix::fs::SealFlags::GROW).unwrap();
    let put = (0..).take_while(|&number| ledger.put(&service(number)).is_ok()).count();
    assert_eq!(put, FIRST_SLOTS - SPARE);
    ledger.remove(&service(0).key());
    ledger.put(&service(put)).expect("there is a slot again");
    drop(ledger);
    assert_eq!(Ledger::recover(&file, SHAPE).unwrap().expect("a ledger").1.len(), put);
}
