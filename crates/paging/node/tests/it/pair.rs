//! Both ends of the protocol, joined by two pipes in memory that pass on bytes in pieces of any size. Every load
//! returns the last stored contents, in whatever order messages overtake each other.

use crate::common::{PAGE, Slot, session_pages};
use proptest::prelude::*;
use std::collections::{HashMap, VecDeque};
use std::io::{IoSlice, IoSliceMut};
use unrack_node::session::Session;
use unrack_pager::node::session::NodeSession;
use unrack_pager::node::{PageCompletion, Rejected, Tuning};

const IDS: u32 = 24;

#[derive(Debug, Clone)]
enum Step {
    Store { id: u32 },
    Load { id: u32 },
    Forget { first: u32, count: u32 },
    Withdraw { id: u32 },
    Flush,
    Pump { out: usize, back: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let id = 0..IDS;
    prop_oneof![
        6 => id.clone().prop_map(|id| Step::Store { id }),
        5 => id.clone().prop_map(|id| Step::Load { id }),
        1 => (id.clone(), 1u32..5).prop_map(|(first, count)| Step::Forget { first, count }),
        1 => id.prop_map(|id| Step::Withdraw { id }),
        1 => Just(Step::Flush),
        4 => (1usize..40_000, 1usize..40_000).prop_map(|(out, back)| Step::Pump { out, back }),
    ]
}

/// Pages in transit by id, in the order in which they complete.
type OnTheWay = HashMap<u32, VecDeque<(Slot, u64)>>;

struct Pair {
    client: NodeSession,
    node: Session,
    to_node: Vec<u8>,
    to_client: VecDeque<u8>,
    /// Contents that the node holds once everything has arrived.
    model: HashMap<u32, u64>,
    storing: OnTheWay,
    loading: OnTheWay,
    next_value: u64,
    loaded: usize,
}

impl Pair {
    fn new(tuning: Tuning) -> Pair {
        Pair {
            client: NodeSession::new(tuning),
            node: Session::new(session_pages(1000).1, Default::default()),
            to_node: Vec::new(),
            to_client: VecDeque::new(),
            model: HashMap::new(),
            storing: HashMap::new(),
            loading: HashMap::new(),
            next_value: 0,
            loaded: 0,
        }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Store { id } => self.store(id),
            Step::Load { id } => self.load(id),
            Step::Forget { first, count } => self.forget(first, count),
            Step::Withdraw { id } => self.withdraw(id),
            Step::Flush => self.client.flush(),
            Step::Pump { out, back } => self.pump(out, back),
        }
    }

    fn store(&mut self, id: u32) {
        self.next_value += 1;
        let mut slot = Slot::with(self.next_value);
        // SAFETY: `storing` keeps the slot until it completes.
        match unsafe { self.client.store(id, slot.address()) } {
            Ok(()) => {
                self.storing.entry(id).or_default().push_back((slot, self.next_value));
                self.model.insert(id, self.next_value);
            }
            Err(why) => assert_eq!(why, Rejected::Full),
        }
    }

    fn load(&mut self, id: u32) {
        let mut slot = Slot::with(u64::MAX);
        // SAFETY: `loading` keeps the slot until it completes.
        match (unsafe { self.client.load(id, slot.address()) }, self.model.get(&id)) {
            (Ok(()), Some(value)) => self.loading.entry(id).or_default().push_back((slot, *value)),
            (Err(Rejected::Full), _) | (Err(Rejected::NotHeld), None) => {}
            other => panic!("page {id}: {other:?}"),
        }
    }

    fn forget(&mut self, first: u32, count: u32) {
        let ids: Vec<u32> = (first..first + count).collect();
        let accepted = self.client.forget(&ids);
        self.model.retain(|id, _| !ids[..accepted].contains(id));
    }

    fn withdraw(&mut self, id: u32) {
        if self.client.withdraw(id) {
            let (mut slot, _) = self.storing.get_mut(&id).unwrap().pop_back().unwrap();
            slot.fill(u64::MAX);
            self.model.remove(&id);
        }
    }

    /// Moves up to `out` and `back` bytes.
    fn pump(&mut self, out: usize, back: usize) {
        self.client.fill();
        self.send(out);
        let mut replies = Vec::new();
        let used = self.node.receive(&self.to_node, &mut replies).unwrap();
        self.to_node.drain(..used);
        self.to_client.extend(replies);
        self.receive(back);
    }

    fn send(&mut self, most: usize) {
        let mut parts = [IoSlice::new(&[]); 16];
        let (used, bytes) = self.client.outgoing(&mut parts);
        let flat: Vec<u8> = parts[..used].iter().flat_map(|part| part.iter().copied()).collect();
        assert_eq!(flat.len(), bytes);
        let sent = most.min(bytes);
        self.to_node.extend(&flat[..sent]);
        self.client.sent(sent);
    }

    fn receive(&mut self, most: usize) {
        let mut parts: [IoSliceMut; 16] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
        let (used, bytes) = self.client.landing(&mut parts);
        let landed = most.min(bytes).min(self.to_client.len());
        let mut arriving = self.to_client.drain(..landed);
        for byte in parts[..used].iter_mut().flat_map(|part| part.iter_mut()) {
            let Some(arrived) = arriving.next() else { break };
            *byte = arrived;
        }
        drop(arriving);
        let mut done = Vec::new();
        self.client.landed(landed, &mut done).unwrap();
        done.iter().for_each(|completion| self.complete(*completion));
    }

    fn complete(&mut self, completion: PageCompletion) {
        match completion {
            PageCompletion::Stored { id } => {
                let (mut slot, value) = self.storing.get_mut(&id).unwrap().pop_front().unwrap();
                assert!(slot.holds(value));
                slot.fill(u64::MAX);
            }
            PageCompletion::Loaded { id } => {
                let (slot, value) = self.loading.get_mut(&id).unwrap().pop_front().unwrap();
                assert!(slot.holds(value), "page {id} came back with other contents");
                self.loaded += 1;
            }
            PageCompletion::Refused { id } => panic!("page {id} was refused though there is room"),
        }
    }

    fn settle(&mut self) {
        self.client.flush();
        while !self.client.is_idle() {
            self.pump(usize::MAX, usize::MAX);
        }
        assert!(self.storing.values().chain(self.loading.values()).all(VecDeque::is_empty));
        // A page whose store was withdrawn may still be held in an older version.
        assert!(self.node.pages().held() as usize >= self.model.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_load_brings_what_was_stored_last(
        steps in prop::collection::vec(step(), 1..300),
        batch in 1usize..20,
        merge in 1usize..9,
        window in 1usize..9,
        queue in 4usize..40,
    ) {
        let mut pair = Pair::new(Tuning { batch, merge, window, queue, ..Tuning::default() });
        steps.iter().for_each(|step| pair.take(step));
        pair.settle();
        let held: Vec<u32> = pair.model.keys().copied().collect();
        let before = pair.loaded;
        for id in &held {
            pair.load(*id);
            pair.settle();
        }
        prop_assert_eq!(pair.loaded - before, held.len());
    }
}

/// Returns the number of bytes that leave in one step.
fn bytes_of(pair: &mut Pair) -> usize {
    pair.client.flush();
    pair.client.fill();
    pair.client.outgoing(&mut [IoSlice::new(&[]); 64]).1
}

#[test]
fn neighbours_travel_as_one_message() {
    let mut pair = Pair::new(Tuning::default());
    (0..8).for_each(|id| pair.store(id));
    assert_eq!(bytes_of(&mut pair), 16 + 8 * PAGE);
    pair.settle();
    [1, 3, 5].iter().for_each(|id| pair.store(*id));
    assert_eq!(bytes_of(&mut pair), 3 * (16 + PAGE));
}

#[test]
fn loads_overtake_stores_except_of_the_same_page() {
    let mut pair = Pair::new(Tuning { batch: 1000, window: 1, ..Tuning::default() });
    (0..4).for_each(|id| pair.store(id));
    pair.settle();
    [0, 2].iter().for_each(|id| pair.store(*id));
    pair.load(1);
    assert_eq!(bytes_of(&mut pair), 16 + 16 + PAGE, "the load, and as many stores as the window has");
    pair.pump(16, 0);
    pair.pump(0, usize::MAX);
    assert_eq!(pair.loaded, 1);
    pair.load(2);
    pair.settle();
    assert_eq!(pair.loaded, 2);
}
