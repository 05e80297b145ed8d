//! A node that hands out shared memory.

use crate::common::{Slot, connect, end_of, load, pages, refusal, settings, store, tcp_node};
use std::path::PathBuf;
use unrack_node::{Listen, Options, RunningNode};
use unrack_pager::node::{ErrorKind, NodeSettings, PageCompletion, Rejected};
use unrack_testing::TestFolder;
use unrack_wire::{EndReason, GreetingStatus};

/// Starts a node with extents of 16 pages.
fn node(folder: &TestFolder, capacity: u64) -> RunningNode {
    let options = Options::new(Listen::Shared(folder.join("node")), pages(capacity));
    RunningNode::start(&Options { extent_pages: 16, per_client: "100%".parse().unwrap(), ..options }).unwrap()
}

#[test]
fn pages_come_back_as_they_were_stored_over_many_extents() {
    let folder = TestFolder::new("many");
    let node = node(&folder, 256);
    let mut client = connect(&node);
    for id in 0..100 {
        assert_eq!(store(&mut client, id * 1000, id as u64), PageCompletion::Stored { id: id * 1000 });
    }
    store(&mut client, 5000, 500);
    assert!((0..100).filter(|id| *id != 5).all(|id| load(&mut client, id * 1000).holds(id as u64)));
    assert!(load(&mut client, 5000).holds(500));
    assert_eq!(client.forget(&[7000]), 1);
    let mut slot = Slot::with(0);
    // SAFETY: the slot outlives the call, which fails at once.
    assert_eq!(unsafe { client.load(7000, slot.address()) }, Err(Rejected::NotHeld));
    assert!((104..=128).contains(&node.statistics().held_pages), "extents hold what is stored");
    drop(client);
    while node.statistics().held_pages > 0 {
        std::thread::yield_now();
    }
    node.stop();
}

#[test]
fn a_full_node_refuses_and_a_forgotten_page_makes_room() {
    let folder = TestFolder::new("full");
    let node = node(&folder, 32);
    let mut client = connect(&node);
    let stored =
        (0..40).filter(|id| store(&mut client, *id, 1) == PageCompletion::Stored { id: *id }).count();
    assert_eq!(stored, 32);
    let error = refusal(&settings(&node));
    assert!(matches!(error.kind, ErrorKind::Refused { status: GreetingStatus::OverShare, .. }), "{error}");
    client.forget(&[3]);
    assert_eq!(store(&mut client, 39, 39), PageCompletion::Stored { id: 39 });
    assert!(load(&mut client, 39).holds(39));
    drop(client);
    node.stop();
}

#[test]
fn the_end_of_a_node_is_seen() {
    let folder = TestFolder::new("end");
    let node = node(&folder, 32);
    let path = node.address().to_string();
    let mut client = connect(&node);
    store(&mut client, 1, 1);
    node.stop();
    let error = end_of(&mut client);
    assert_eq!(error.kind, ErrorKind::Ended(EndReason::Stopping));
    assert!(error.to_string().contains(&path), "{error}");
    assert!(!PathBuf::from(path).exists(), "nothing is left behind");
}

#[test]
fn a_left_over_socket_is_no_obstacle_but_a_living_node_is() {
    let folder = TestFolder::new("left");
    let path = folder.join("node");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let options = Options::new(Listen::Shared(path), pages(32));
    let node = RunningNode::start(&options).unwrap();
    assert!(RunningNode::start(&options).is_err());
    node.stop();
}

#[test]
fn streams_and_shared_memory_are_not_mixed_up() {
    let node = tcp_node(pages(8));
    let absent = TestFolder::new("absent").join("node").display().to_string();
    let error = refusal(&NodeSettings::new(unrack_pager::node::Address::Shared(absent)));
    assert!(error.to_string().contains("cannot reach"), "{error}");
    drop(node);
}
