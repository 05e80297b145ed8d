//! Per-flow queues with back-pressure (PFQ): decides which packet a node sends next on each of its links.
//!
//! The R2C2 paper compares R2C2 to this ideal (§5.2). The ideal is unrealistic for racks, because each node needs state and buffers for
//! each flow (§2.2). A node has one queue for each flow that passes through it. A link serves the flows that can use it in turn, one packet
//! each. When the backlog of a flow at a node exceeds a threshold, the node asks the neighbours that send it packets of this flow to *hold*
//! the flow, which means to stop sending it on their links to this node. The node asks them to *release* the flow once the backlog is at
//! the threshold or below. Therefore no packet is lost and flows do not block each other. If a flow has several paths, its packets take the
//! paths whose links are free.
//!
//! Nodes cannot wait for each other in a cycle if each hop of a packet leads closer to the packet's destination.
//!
//! A driver calls [`Node::handle_packet`] for each packet that arrives, [`Node::handle_supply`] for packets that start at this node, and
//! [`Node::handle_hold`] and [`Node::handle_release`] when a neighbour asks to hold or release a flow. After each of these events, the
//! driver calls [`Node::poll`] for each idle link. A link may stay idle only if its last poll returned `None` and no event was handled
//! since then.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// A set of links of a node, one bit each.
pub type Ports = u8;

/// A packet at a node that is neither the source nor the destination of the packet's flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransitPacket<P> {
    pub packet: P,
    /// Length on the wire, in bytes.
    pub bytes: u32,
    /// Port to the neighbour that sent the packet to this node.
    pub from: u8,
}

/// Decision of a node about a packet that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketFate {
    /// The packet is not queued. The node should send it at once by one of these idle links.
    Passes(Ports),
    /// The packet is queued behind `ahead` bytes of its flow. If `hold` is true, the node should ask the neighbour that sent the packet to
    /// hold the flow.
    Waits { ahead: u64, hold: bool },
}

/// Packet that a link is to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextPacket<P> {
    /// The next packet of a flow whose source is this node.
    Own { flow: u32 },
    /// A queued packet of another node. The node should also ask the neighbours on the links in `release` to release the packet's flow.
    Passing { flow: u32, packet: P, release: Ports },
}

/// A node and the flows that pass through it.
#[derive(Debug, Clone)]
pub struct Node<P> {
    queues: Vec<Queue<P>>,
    free: Vec<u32>,
    by_flow: HashMap<u32, u32, BuildHasherDefault<FibonacciHasher>>,
    /// For each link, the queues of the flows that wait for the link, in the order in which it serves them. The link skips a queue that can
    /// no longer use it.
    turns: Vec<VecDeque<u32>>,
    threshold: u64,
}

#[derive(Debug, Clone)]
struct Queue<P> {
    flow: u32,
    /// Links by which packets of the flow can leave.
    ways: Ports,
    /// Subset of `ways`: the links whose neighbour has asked this node to hold the flow.
    held: Ports,
    /// Links to the neighbours that this node has asked to hold the flow.
    told: Ports,
    /// Links for which the queue waits in `Node::turns`.
    waits: Ports,
    /// Number of waiting packets of the flow if this node is the flow's source.
    own: u64,
    bytes: u64,
    passing: VecDeque<TransitPacket<P>>,
}

impl<P> Queue<P> {
    fn is_empty(&self) -> bool {
        self.own == 0 && self.passing.is_empty()
    }

    /// Returns whether the queue has the same state as a new queue, so that the node can drop it.
    fn is_forgotten(&self) -> bool {
        self.is_empty() && self.held | self.told | self.waits == 0
    }
}

impl<P: Copy> Node<P> {
    /// Creates a node without flows. If the backlog of a flow exceeds `threshold` bytes, the node asks neighbours to hold the flow.
    ///
    /// # Panics
    /// If the node has more links than [`Ports`] has bits.
    pub fn new(links: u32, threshold: u64) -> Node<P> {
        assert!(links <= Ports::BITS, "a node has 8 links at most");
        Node {
            queues: Vec::new(),
            free: Vec::new(),
            by_flow: HashMap::default(),
            turns: (0..links).map(|_| VecDeque::new()).collect(),
            threshold,
        }
    }

    /// Handles the arrival of a packet. `ways` returns the links that lead closer to the packet's destination; it is called only if no
    /// packet of the flow is queued. `idle` is the set of links that have nothing to send. Returns whether the packet should leave at once
    /// or was queued.
    pub fn handle_packet(
        &mut self,
        flow: u32,
        passing: TransitPacket<P>,
        ways: impl FnOnce() -> Ports,
        idle: Ports,
    ) -> PacketFate {
        let known = self.by_flow.get(&flow).copied();
        let queue = match known.filter(|place| !self.queues[*place as usize].is_empty()) {
            Some(place) => place,
            None => {
                let ways = ways();
                let held = known.map_or(0, |place| self.queues[place as usize].held);
                let open = ways & idle & !held;
                if open != 0 {
                    return PacketFate::Passes(open);
                }
                self.queue(flow, ways)
            }
        };
        let place = &mut self.queues[queue as usize];
        let (ahead, from) = (place.bytes, 1 << passing.from);
        place.bytes += u64::from(passing.bytes);
        place.passing.push_back(passing);
        let hold = place.bytes > self.threshold && place.told & from == 0;
        if hold {
            place.told |= from;
        }
        self.wait(queue);
        PacketFate::Waits { ahead, hold }
    }

    /// Adds `packets` packets to a flow whose source is this node.
    pub fn handle_supply(&mut self, flow: u32, ways: Ports, packets: u64) {
        let queue = self.queue(flow, ways);
        self.queues[queue as usize].own += packets;
        self.wait(queue);
    }

    /// Records that the neighbour at the far end of the link `port` asks this node to hold a flow.
    pub fn handle_hold(&mut self, flow: u32, port: u8) {
        let queue = match self.by_flow.get(&flow) {
            Some(queue) => *queue,
            None => self.queue(flow, 0),
        };
        self.queues[queue as usize].held |= 1 << port;
    }

    /// Records that the neighbour at the far end of the link `port` asks this node to release a flow. Returns whether packets of the flow
    /// wait for this link.
    pub fn handle_release(&mut self, flow: u32, port: u8) -> bool {
        let queue = *self.by_flow.get(&flow).expect("what is held is not forgotten");
        let place = &mut self.queues[queue as usize];
        place.held &= !(1 << port);
        if place.is_empty() {
            self.forget(queue);
            return false;
        }
        self.wait(queue);
        self.queues[queue as usize].waits >> port & 1 == 1
    }

    /// Returns the packet that an idle link should send now, or `None` if no packet can use the link.
    pub fn poll(&mut self, port: u8) -> Option<NextPacket<P>> {
        let bit = 1 << port;
        while let Some(queue) = self.turns[usize::from(port)].pop_front() {
            let place = &mut self.queues[queue as usize];
            place.waits &= !bit;
            if place.is_empty() || place.ways & !place.held & bit == 0 {
                self.forget(queue);
                continue;
            }
            let flow = place.flow;
            let next = match place.passing.pop_front() {
                None => {
                    place.own -= 1;
                    NextPacket::Own { flow }
                }
                Some(TransitPacket { packet, bytes, .. }) => {
                    place.bytes -= u64::from(bytes);
                    let enough = place.bytes > self.threshold;
                    let release = if enough { 0 } else { std::mem::take(&mut place.told) };
                    NextPacket::Passing { flow, packet, release }
                }
            };
            match place.is_empty() {
                true => self.forget(queue),
                false => self.wait(queue),
            }
            return Some(next);
        }
        None
    }

    /// Returns whether any queue may have a packet for this link.
    pub fn is_asked(&self, port: u8) -> bool {
        !self.turns[usize::from(port)].is_empty()
    }

    /// Returns whether this node holds a flow on all links that the flow can use.
    pub fn is_held(&self, flow: u32) -> bool {
        let queue = self.by_flow.get(&flow).map(|place| &self.queues[*place as usize]);
        queue.is_some_and(|queue| queue.ways & !queue.held == 0)
    }

    /// Returns the number of bytes of a flow that are queued at this node, not counting packets whose source is this node.
    pub fn backlog(&self, flow: u32) -> u64 {
        self.by_flow.get(&flow).map_or(0, |place| self.queues[*place as usize].bytes)
    }

    /// Returns the number of flows for which the node has state.
    pub fn flows(&self) -> usize {
        self.by_flow.len()
    }

    /// Returns the queue of a flow that has no waiting packets, and sets the links that the flow can use. Creates the queue if the flow has
    /// none.
    fn queue(&mut self, flow: u32, ways: Ports) -> u32 {
        if let Some(queue) = self.by_flow.get(&flow) {
            self.queues[*queue as usize].ways = ways;
            return *queue;
        }
        let queue = self.free.pop().unwrap_or_else(|| {
            let passing = VecDeque::new();
            self.queues.push(Queue { flow, ways, held: 0, told: 0, waits: 0, own: 0, bytes: 0, passing });
            u32::try_from(self.queues.len() - 1).expect("fewer than 2^32 flows")
        });
        let place = &mut self.queues[queue as usize];
        (place.flow, place.ways) = (flow, ways);
        self.by_flow.insert(flow, queue);
        queue
    }

    /// Adds a queue to the waiting lists of all links that the flow can use and on which it is not held.
    fn wait(&mut self, queue: u32) {
        let place = &mut self.queues[queue as usize];
        let mut new = place.ways & !place.held & !place.waits;
        place.waits |= new;
        while new != 0 {
            self.turns[new.trailing_zeros() as usize].push_back(queue);
            new &= new - 1;
        }
    }

    fn forget(&mut self, queue: u32) {
        let place = &self.queues[queue as usize];
        if place.is_forgotten() {
            self.by_flow.remove(&place.flow);
            self.free.push(queue);
        }
    }
}

/// Hasher of flow numbers, by Fibonacci hashing. It need not resist collisions by intent, because no adversary chooses the numbers.
#[derive(Debug, Clone, Copy, Default)]
struct FibonacciHasher(u64);

impl Hasher for FibonacciHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }
    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn passing(packet: u32, from: u8) -> TransitPacket<u32> {
        TransitPacket { packet, bytes: 100, from }
    }

    #[test]
    fn a_packet_passes_where_nothing_is_in_its_way() {
        let mut node = Node::new(3, 250);
        assert_eq!(node.handle_packet(7, passing(1, 0), || 0b110, 0b010), PacketFate::Passes(0b010));
        assert_eq!(
            node.handle_packet(7, passing(2, 0), || 0b110, 0),
            PacketFate::Waits { ahead: 0, hold: false }
        );
        // The packet may not overtake the one that waits.
        assert_eq!(
            node.handle_packet(7, passing(3, 0), || 0b110, 0b100),
            PacketFate::Waits { ahead: 100, hold: false }
        );
        let next = |packet| Some(NextPacket::Passing { flow: 7, packet, release: 0 });
        assert_eq!([node.poll(1), node.poll(2), node.poll(1)], [next(2), next(3), None]);
        assert_eq!(node.poll(2), None);
        assert_eq!(node.flows(), 0);
    }

    #[test]
    fn flows_take_turns() {
        let mut node = Node::<u32>::new(2, 250);
        node.handle_supply(1, 0b10, 4);
        node.handle_supply(2, 0b10, 2);
        for packet in 0..2 {
            node.handle_packet(3, passing(packet, 0), || 0b10, 0);
        }
        let order: Vec<u32> = std::iter::from_fn(|| node.poll(1))
            .map(|next| match next {
                NextPacket::Own { flow } | NextPacket::Passing { flow, .. } => flow,
            })
            .collect();
        assert_eq!(order, [1, 2, 3, 1, 2, 3, 1, 1]);
    }

    #[test]
    fn neighbours_hold_what_is_too_much_until_it_no_longer_is() {
        let mut node = Node::new(3, 250);
        let fates = [0, 0, 0, 1, 1].map(|from| node.handle_packet(7, passing(9, from), || 0b100, 0));
        let holds = fates.map(|fate| matches!(fate, PacketFate::Waits { hold: true, .. }));
        assert_eq!(holds, [false, false, true, true, false], "once each");
        let released = |node: &mut Node<u32>| match node.poll(2) {
            Some(NextPacket::Passing { release, .. }) => release,
            _ => panic!("packets wait"),
        };
        assert_eq!([0; 5].map(|_| released(&mut node)), [0, 0, 0b011, 0, 0]);
    }

    #[test]
    fn what_is_held_goes_another_way_or_waits() {
        let mut node = Node::<u32>::new(2, 250);
        node.handle_supply(1, 0b11, 3);
        node.handle_hold(1, 0);
        assert_eq!((node.poll(0), node.poll(1)), (None, Some(NextPacket::Own { flow: 1 })));
        assert!(!node.is_held(1));
        node.handle_hold(1, 1);
        assert_eq!((node.poll(1), node.is_held(1)), (None, true));
        assert!(node.handle_release(1, 0));
        assert_eq!(
            [node.poll(0), node.poll(0), node.poll(0)],
            [Some(NextPacket::Own { flow: 1 }), Some(NextPacket::Own { flow: 1 }), None]
        );
        // The queue is empty, but still held.
        assert_eq!(node.flows(), 1);
        assert!(!node.handle_release(1, 1));
        assert_eq!(node.flows(), 0);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Packet(u32, u8),
        Supply(u32, u64),
        Hold(u32, u8),
        Poll(u8),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (0..4u32, 0..2u8).prop_map(|(flow, from)| Step::Packet(flow, from)),
            (4..6u32, 1..4u64).prop_map(|(flow, packets)| Step::Supply(flow, packets)),
            (0..6u32, 2..4u8).prop_map(|(flow, port)| Step::Hold(flow, port)),
            (2..4u8).prop_map(Step::Poll),
        ];
        prop::collection::vec(step, 0..200)
    }

    proptest! {
        /// Compares a node with a model of plain queues. Every packet leaves exactly once, in the order of its flow, and never on a link on
        /// which the flow is held. The requests to one neighbour to hold and to release a flow alternate. If a poll of a link returns
        /// `None`, no packet can use the link. In the end no packet is left.
        #[test]
        fn nothing_is_lost_or_stuck(steps in steps()) {
            let mut node = Node::new(4, 250);
            let (mut waiting, mut own) = (vec![VecDeque::new(); 6], [0u64; 6]);
            let (mut held, mut told) = ([0u8; 6], [0u8; 6]);
            // Some flows have one path, others two.
            let ways = |flow: u32| [0b0100, 0b1100, 0b1000][flow as usize % 3];
            let mut numbers = 0;
            let ends = [2, 3].repeat(1_000).into_iter().map(Step::Poll);
            let mut releases: Vec<(u32, u8)> = Vec::new();
            for (n, step) in steps.iter().cloned().chain(ends).enumerate() {
                if n == steps.len() {
                    for (flow, port) in releases.drain(..) {
                        node.handle_release(flow, port);
                    }
                    held = [0; 6];
                }
                match step {
                    Step::Packet(flow, from) => {
                        numbers += 1;
                        let fate = node.handle_packet(flow, passing(numbers, from), || ways(flow), 0);
                        let at = flow as usize;
                        let ahead = waiting[at].len() as u64 * 100;
                        let hold = ahead + 100 > 250 && told[at] >> from & 1 == 0;
                        prop_assert_eq!(fate, PacketFate::Waits { ahead, hold });
                        told[at] |= u8::from(hold) << from;
                        waiting[at].push_back(numbers);
                    }
                    Step::Supply(flow, packets) => {
                        node.handle_supply(flow, ways(flow), packets);
                        own[flow as usize] += packets;
                    }
                    Step::Hold(flow, port) if held[flow as usize] >> port & 1 == 0 => {
                        node.handle_hold(flow, port);
                        held[flow as usize] |= 1 << port;
                        releases.push((flow, port));
                    }
                    Step::Hold(flow, port) => {
                        node.handle_release(flow, port);
                        held[flow as usize] &= !(1 << port);
                        releases.retain(|release| *release != (flow, port));
                    }
                    Step::Poll(port) => {
                        let can = |flow: u32| ways(flow) & !held[flow as usize] & 1 << port != 0;
                        match node.poll(port) {
                            None => {
                                let left = |flow: &u32| own[*flow as usize] > 0 || !waiting[*flow as usize].is_empty();
                                prop_assert!(!(0..6).filter(left).any(can));
                            }
                            Some(NextPacket::Own { flow }) => {
                                prop_assert!(can(flow) && own[flow as usize] > 0);
                                own[flow as usize] -= 1;
                            }
                            Some(NextPacket::Passing { flow, packet, release }) => {
                                prop_assert!(can(flow));
                                let at = flow as usize;
                                prop_assert_eq!(waiting[at].pop_front(), Some(packet));
                                let enough = waiting[at].len() as u64 * 100 > 250;
                                prop_assert_eq!(release, if enough { 0 } else { std::mem::take(&mut told[at]) });
                            }
                        }
                    }
                }
                for flow in 0..6 {
                    prop_assert_eq!(node.backlog(flow), waiting[flow as usize].len() as u64 * 100);
                }
            }
            prop_assert_eq!(node.flows(), 0);
        }
    }
}
