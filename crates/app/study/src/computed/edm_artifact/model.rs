//! Nodes around a switch, in slots of one block of 8 B. A block takes 16 slots over a link, and no step takes time besides.
//!
//! Every message has a notification at once (there is no X). The switch keeps all notifications in one list. A grant allows at most 256 B.
//! A receiver may be granted more once at most 256 B (a round trip of blocks) are granted and have not left for it, and a sender once no
//! receiver is reserved for it.

use super::trace::{NODES, Row};
use std::collections::VecDeque;

/// Slots of propagation: 10 ns, rounded.
pub(super) const LINK: u64 = 16;
/// Bytes of a grant.
pub(super) const CHUNK: u64 = 256;
/// Bytes granted to a receiver below which it may be granted more.
const BACKLOG: u64 = 2 * 8 * LINK;
/// Slots of an iteration of the matching at 3 GHz, which is 1 ns, rounded up.
const ITERATION: u64 = 2;
/// Bytes of a request.
const REQUEST: u64 = 16;

/// Rules of the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rules {
    /// All notifications are sorted by remaining bytes, also those of one pair of nodes. Otherwise a pair's messages go in order
    /// (§3.1.1 (5)).
    pub(super) by_remaining: bool,
    /// A maximal matching is made in every slot. Otherwise one iteration takes [`ITERATION`] slots.
    pub(super) instant: bool,
    /// Nodes send whole blocks of 8 B only. If the bytes of a message are not a multiple of 8, its last bytes are granted, but never sent:
    /// the message never arrives, and its receiver has these bytes granted forever. Otherwise the last block is filled up.
    pub(super) whole_blocks: bool,
    /// A message is granted its next chunk when the last block of its chunk has left the switch. Otherwise l/B after the grant (§3.1.1 (7)).
    pub(super) stepwise: bool,
}

impl Rules {
    pub(super) const PAPER: Rules =
        Rules { by_remaining: false, instant: false, whole_blocks: false, stepwise: false };
    pub(super) const AUTHORS: Rules =
        Rules { by_remaining: true, instant: true, whole_blocks: true, stepwise: true };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlowKind {
    Request,
    Answer,
    Write,
}

/// A write, the request of a read, or the answer to one.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    pub(super) kind: FlowKind,
    pub(super) start: u64,
    pub(super) finished: Option<u64>,
    /// Bytes of the write, or of the answer to the read.
    pub(super) message_bytes: u32,
    /// For an answer, the flow of its request.
    pub(super) request: Option<usize>,
    src: usize,
    dst: usize,
    bytes: u64,
    sent: u64,
    received: u64,
    quota: u64,
    state: State,
    has_begun: bool,
    answer: Option<usize>,
    notification: Option<usize>,
}

/// State of a flow at its sender. A flow with a lower state is sent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Granted,
    New,
    Waiting,
}

/// Result of a run.
pub(super) struct ModelRun {
    pub(super) flows: Vec<Flow>,
    /// Slot in which all flows that existed had started.
    pub(super) all_started: u64,
}

#[derive(Debug, Clone, Copy)]
enum Block {
    Notification(usize),
    Request(usize, bool),
    Grant(usize, u64),
    Data(usize),
}

/// Notification of a message: of a write, or of the answer to a request.
#[derive(Debug, Clone, Copy)]
struct Notification {
    /// Flow of the write, or of the request.
    flow: usize,
    sender: usize,
    receiver: usize,
    remaining: u64,
    /// Bytes that were granted and have not left the switch.
    under_way: u64,
    /// Slot from which on the message may be granted its next chunk.
    ready: u64,
    forwards_request: bool,
}

#[derive(Default)]
struct Node {
    active: Vec<usize>,
    current: Option<usize>,
    up: VecDeque<(u64, Block)>,
    down: VecDeque<(u64, Block)>,
    /// Blocks that wait in the switch to be sent to the node.
    queue: VecDeque<Block>,
    /// Flow of the data block that arrived from the node in the last slot.
    arrived: Option<usize>,
    /// Bytes that were granted to the node as a receiver and have not left for it.
    backlog: u64,
    /// Sender for which the node is reserved as a receiver.
    reserved: Option<usize>,
}

struct Model {
    rules: Rules,
    now: u64,
    flows: Vec<Flow>,
    nodes: Vec<Node>,
    /// All notifications, in the order in which they arrived.
    notifications: Vec<Notification>,
    /// Those that have bytes which were not granted.
    waiting: Vec<usize>,
    begun: usize,
    open: usize,
    /// Flows that begin at a time, the latest first.
    starting: Vec<(u64, usize)>,
    /// Slot in which the next iteration may begin.
    iteration: u64,
    /// Bit of each node that has something to do, or whose link or port has.
    awake: Vec<u64>,
    /// Number of the latest matching, by pair of sender and receiver that it has considered.
    considered: Vec<u64>,
    matchings: u64,
}

/// Returns the slots that the flows of a message take without other traffic: those of a write, or of a request and its answer. Chunks of a
/// long message follow each other in equal periods of two, so that it need not be simulated whole.
pub(super) fn alone(is_read: bool, bytes: u32, rules: Rules) -> [u64; 2] {
    const PERIOD: u32 = 2 * CHUNK as u32;
    const SHORT: u32 = 4 * PERIOD;
    let took = |bytes| {
        let flows = run(&[Row { slot: 0, src: 0, dst: 1, bytes, is_read }], rules).flows;
        let took = |flow: &Flow| flow.finished.expect("a message alone arrives") - flow.start;
        match &flows[..] {
            [request, answer] => [took(request), took(answer)],
            _ => [0, took(&flows[0])],
        }
    };
    let periods = bytes.saturating_sub(SHORT) / PERIOD;
    let [request, short] = took(bytes - periods * PERIOD);
    match periods {
        0 => [request, short],
        _ => [request, short + u64::from(periods) * (took(bytes - (periods - 1) * PERIOD)[1] - short)],
    }
}

/// Runs a trace until everything has arrived.
pub(super) fn run(rows: &[Row], rules: Rules) -> ModelRun {
    let nodes = rows.iter().map(|row| u32::from(row.src.max(row.dst)) + 1).max().unwrap_or(0).min(NODES);
    let mut model = Model {
        rules,
        now: rows.first().map_or(0, |row| row.slot),
        flows: rows.iter().map(Flow::of_row).collect(),
        nodes: (0..nodes).map(|_| Node::default()).collect(),
        notifications: Vec::new(),
        waiting: Vec::new(),
        begun: 0,
        open: rows.len(),
        starting: rows.iter().enumerate().map(|(flow, row)| (row.slot, flow)).rev().collect(),
        iteration: 0,
        awake: vec![0; nodes.div_ceil(64) as usize],
        considered: vec![0; (nodes * nodes) as usize],
        matchings: 0,
    };
    let mut all_started = None;
    while model.open > 0 {
        model.slot();
        if all_started.is_none() && model.begun == model.flows.len() {
            all_started = Some(model.now);
        }
        model.now += 1;
    }
    ModelRun { all_started: all_started.unwrap_or(model.now), flows: model.flows }
}

impl Flow {
    fn of_row(row: &Row) -> Flow {
        let (kind, bytes) = match row.is_read {
            true => (FlowKind::Request, REQUEST),
            false => (FlowKind::Write, u64::from(row.bytes)),
        };
        Flow {
            kind,
            start: row.slot,
            finished: None,
            message_bytes: row.bytes,
            request: None,
            src: row.src.into(),
            dst: row.dst.into(),
            bytes,
            sent: 0,
            received: 0,
            quota: if row.is_read { REQUEST } else { 0 },
            state: State::New,
            has_begun: false,
            answer: None,
            notification: None,
        }
    }
}

impl Model {
    fn slot(&mut self) {
        while let Some(&(at, flow)) = self.starting.last()
            && at <= self.now
        {
            self.starting.pop();
            let src = self.flows[flow].src;
            self.nodes[src].active.push(flow);
            self.wake(src);
        }
        self.grant();
        for node in nodes_in(self.awake.clone()) {
            if let Some(flow) = self.nodes[node].arrived.take() {
                let dst = self.flows[flow].dst;
                self.nodes[dst].queue.push_back(Block::Data(flow));
                self.wake(dst);
            }
        }
        for node in nodes_in(self.awake.clone()) {
            self.send(node);
            self.send_down(node);
            self.arrive_at_switch(node);
            self.arrive_at_node(node);
            if self.nodes[node].is_at_rest() {
                self.awake[node / 64] &= !(1 << (node % 64));
            }
        }
    }

    fn wake(&mut self, node: usize) {
        self.awake[node / 64] |= 1 << (node % 64);
    }

    /// Matches senders and receivers.
    fn grant(&mut self) {
        for node in &mut self.nodes {
            if node.backlog <= BACKLOG {
                node.reserved = None;
            }
        }
        if self.waiting.is_empty() || self.now < self.iteration {
            return;
        }
        let mut was_busy = vec![false; self.nodes.len()];
        self.nodes.iter().filter_map(|node| node.reserved).for_each(|sender| was_busy[sender] = true);
        let (mut is_taken, mut has_asked) = (vec![false; self.nodes.len()], vec![false; self.nodes.len()]);
        for n in self.candidates() {
            let Notification { sender, receiver, ready, .. } = self.notifications[n];
            let is_free = self.nodes[receiver].reserved.is_none() && !has_asked[receiver];
            if ready > self.now || !is_free || was_busy[sender] {
                continue;
            }
            if is_taken[sender] {
                // §3.1.2: in one iteration a receiver asks one sender. A maximal matching lets it ask the next one.
                has_asked[receiver] = !self.rules.instant;
                continue;
            }
            is_taken[sender] = true;
            self.grant_one(n);
        }
        self.iteration = self.now + if self.rules.instant { 1 } else { ITERATION };
        let Model { waiting, notifications, .. } = self;
        waiting.retain(|n| notifications[*n].remaining > 0);
    }

    /// Returns the notifications that may be granted, in order of priority: the fewest remaining bytes first (§3.1.1 (4)).
    fn candidates(&mut self) -> Vec<usize> {
        let Model { waiting, notifications, rules, considered, matchings, nodes, .. } = self;
        *matchings += 1;
        let mut candidates = waiting.clone();
        if !rules.by_remaining {
            // Notifications wait in the order in which they came. Only the first of a pair may be granted.
            candidates.retain(|n| {
                let pair = notifications[*n].sender * nodes.len() + notifications[*n].receiver;
                std::mem::replace(&mut considered[pair], *matchings) != *matchings
            });
        }
        candidates.sort_by_key(|n| notifications[*n].remaining);
        candidates
    }

    fn grant_one(&mut self, n: usize) {
        let (now, stepwise) = (self.now, self.rules.stepwise);
        let wait = &mut self.notifications[n];
        let chunk = wait.remaining.min(CHUNK);
        wait.remaining -= chunk;
        wait.under_way += chunk;
        wait.ready = if stepwise { u64::MAX } else { now + chunk.div_ceil(8) };
        let forwards = std::mem::take(&mut wait.forwards_request);
        let (flow, sender, receiver) = (wait.flow, wait.sender, wait.receiver);
        self.nodes[receiver].reserved = Some(sender);
        self.nodes[receiver].backlog += chunk;
        if forwards {
            self.nodes[sender].queue.push_back(Block::Request(flow, false));
        }
        self.nodes[sender].queue.push_back(Block::Grant(flow, chunk));
        self.wake(sender);
    }

    /// Sends a block from a node: of granted data, otherwise a notification or request.
    fn send(&mut self, at: usize) {
        let Node { active, current, .. } = &mut self.nodes[at];
        if let Some(flow) = current.take_if(|flow| self.flows[*flow].state == State::Waiting) {
            active.push(flow);
        }
        if current.is_none() {
            let rank = |flow: &Flow| {
                (flow.state, flow.kind != FlowKind::Request, flow.bytes - flow.sent, flow.start)
            };
            let best = (0..active.len()).min_by_key(|n| rank(&self.flows[active[*n]]));
            let Some(best) = best.filter(|n| self.flows[active[*n]].state != State::Waiting) else { return };
            *current = Some(active.remove(best));
        }
        let Some(id) = *current else { return };
        let flow = &mut self.flows[id];
        let block = match (flow.kind, flow.state) {
            (FlowKind::Request, _) => Block::Request(id, flow.sent == 0),
            (_, State::New) => Block::Notification(id),
            _ => Block::Data(id),
        };
        if let Block::Notification(_) = block {
            flow.state = State::Waiting;
        } else {
            flow.state = State::Granted;
            flow.sent += 8;
            flow.quota -= flow.quota.min(8);
            self.begun += usize::from(!std::mem::replace(&mut flow.has_begun, true));
            if flow.sent >= flow.bytes {
                *current = None;
            } else if flow.quota < if self.rules.whole_blocks { 8 } else { 1 } {
                flow.state = State::Waiting;
                *current = None;
                // If its last bytes are no whole block, the message waits forever.
                if flow.sent + flow.quota < flow.bytes || flow.quota == 0 {
                    active.push(id);
                }
            }
        }
        self.nodes[at].up.push_back((self.now + LINK, block));
    }

    fn send_down(&mut self, at: usize) {
        let Some(block) = self.nodes[at].queue.pop_front() else { return };
        self.nodes[at].down.push_back((self.now + LINK, block));
        let Block::Data(flow) = block else { return };
        let of = self.flows[flow].request.unwrap_or(flow);
        let now = self.now;
        let wait = &mut self.notifications[self.flows[of].notification.expect("granted data was announced")];
        let left = wait.under_way.min(8);
        wait.under_way -= left;
        self.nodes[at].backlog -= left;
        if wait.under_way == 0 && wait.ready == u64::MAX {
            wait.ready = now + 1;
        }
    }

    fn arrive_at_switch(&mut self, at: usize) {
        let now = self.now;
        let Some((_, block)) = self.nodes[at].up.pop_front_if_due(now) else { return };
        let (flow, is_request) = match block {
            Block::Data(flow) => {
                self.nodes[at].arrived = Some(flow);
                return;
            }
            Block::Request(flow, true) => (flow, true),
            Block::Notification(flow) => (flow, false),
            Block::Request(_, false) | Block::Grant(..) => return,
        };
        let Flow { src, dst, message_bytes, .. } = self.flows[flow];
        let (sender, receiver) = if is_request { (dst, src) } else { (src, dst) };
        let place = self.notifications.len();
        self.flows[flow].notification = Some(place);
        self.waiting.push(place);
        self.notifications.push(Notification {
            flow,
            sender,
            receiver,
            remaining: message_bytes.into(),
            under_way: 0,
            ready: 0,
            forwards_request: is_request,
        });
    }

    fn arrive_at_node(&mut self, at: usize) {
        let now = self.now;
        let Some((_, block)) = self.nodes[at].down.pop_front_if_due(now) else { return };
        match block {
            Block::Data(flow) | Block::Request(flow, _) => self.receive(flow),
            Block::Grant(flow, chunk) if self.flows[flow].kind == FlowKind::Request => {
                self.serve(flow, chunk)
            }
            Block::Grant(flow, chunk) => self.allow(flow, chunk),
            Block::Notification(_) => unreachable!("the switch notifies nobody"),
        }
    }

    fn receive(&mut self, flow: usize) {
        let flow = &mut self.flows[flow];
        flow.received += 8;
        if flow.received >= flow.bytes {
            flow.finished = Some(self.now);
            self.open -= 1;
        } else if self.rules.whole_blocks && flow.received + 8 > flow.bytes {
            self.open -= 1; // nothing more comes
        }
    }

    fn allow(&mut self, flow: usize, chunk: u64) {
        let flow = &mut self.flows[flow];
        flow.state = State::Granted;
        flow.quota += chunk;
    }

    /// Handles a grant for the answer to a request. The first one creates the answer, and is the second block of the request.
    fn serve(&mut self, request: usize, chunk: u64) {
        if let Some(answer) = self.flows[request].answer {
            return self.allow(answer, chunk);
        }
        let Flow { src, dst, message_bytes, .. } = self.flows[request];
        let answer = Flow {
            kind: FlowKind::Answer,
            start: self.now + 1,
            request: Some(request),
            src: dst,
            dst: src,
            bytes: message_bytes.into(),
            quota: chunk,
            state: State::Granted,
            ..Flow::of_row(&Row { slot: 0, src: 0, dst: 0, bytes: message_bytes, is_read: false })
        };
        let id = self.flows.len();
        self.flows[request].answer = Some(id);
        self.flows.push(answer);
        self.open += 1;
        self.starting.push((self.now + 1, id));
        self.receive(request);
    }
}

impl Node {
    fn is_at_rest(&self) -> bool {
        let nothing_moves = self.up.is_empty() && self.down.is_empty() && self.queue.is_empty();
        nothing_moves && self.active.is_empty() && self.current.is_none() && self.arrived.is_none()
    }
}

/// Returns the numbers of the bits that are set.
fn nodes_in(words: Vec<u64>) -> impl Iterator<Item = usize> {
    words.into_iter().enumerate().flat_map(|(index, word)| {
        (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index * 64 + bit)
    })
}

/// Blocks on a link, which arrive in the order in which they were sent.
trait OnLink {
    fn pop_front_if_due(&mut self, now: u64) -> Option<(u64, Block)>;
}

impl OnLink for VecDeque<(u64, Block)> {
    fn pop_front_if_due(&mut self, now: u64) -> Option<(u64, Block)> {
        let (at, _) = *self.front()?;
        if at <= now { self.pop_front() } else { None }
    }
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
