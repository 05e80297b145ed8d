//! The CXL of the authors' simulator (`netsimu/src/cxl.c`), in slots of one block of 8 B.
//!
//! A link takes one slot. The switch puts a block into the queue of its output as soon as it has come, so that no block waits for one to
//! another output. Credits (131,072 blocks for each link) are left out, because no node of such a trace receives enough to use them up. A
//! node sends its messages one after the other, each to its end, in the order in which they came; only a request may go before, and
//! what it interrupts goes to the end.

use super::trace::Row;
use std::collections::VecDeque;

/// Rules and ways to count that can be switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CxlRules {
    /// A node sends the messages that it has in turn, one cache line of each, instead of one after the other.
    pub(super) in_turn: bool,
    /// Slowdowns are over the authors' ideal, which has twice the time of the data for answers.
    pub(super) roomy_ideal: bool,
    /// A read counts twice: as a request, and as an answer.
    pub(super) halves: bool,
    /// The run stops when 1,500 flows have finished, or all have started.
    pub(super) stops: bool,
}

impl CxlRules {
    pub(super) const AUTHORS: CxlRules =
        CxlRules { in_turn: false, roomy_ideal: true, halves: true, stops: true };
}

/// Finished flows after which the authors stop.
const ENOUGH: usize = 1_500;
/// Blocks of a cache line.
const LINE: u64 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Request,
    Answer,
    Write,
}

#[derive(Debug, Clone)]
struct Flow {
    kind: Kind,
    src: usize,
    dst: usize,
    /// Blocks to send, and that were sent and received.
    blocks: u64,
    sent: u64,
    received: u64,
    /// Bytes of the write, or of the answer.
    bytes: u64,
    start: u64,
    finished: Option<u64>,
    request: Option<usize>,
}

#[derive(Default)]
struct Node {
    active: VecDeque<usize>,
    current: Option<usize>,
    /// Blocks in the switch for this node.
    queue: VecDeque<usize>,
    /// Block that is on the link to the switch, that has come to the switch, and that is on the link from it.
    up: Option<usize>,
    at_switch: Option<usize>,
    down: Option<usize>,
}

/// Returns the mean slowdown of a trace.
pub(super) fn mean(rows: &[Row], rules: CxlRules) -> Option<f64> {
    let flows = run(rows, rules);
    let slowdown = |flow: &Flow| {
        let finished = flow.finished?;
        let request = flow.request.map(|request| &flows[request]);
        let start = match (rules.halves, flow.kind, request) {
            (false, Kind::Request, _) => return None,
            (false, Kind::Answer, Some(request)) => request.start,
            _ => flow.start,
        };
        let ideal = if rules.roomy_ideal { ideal(flow) } else { alone(flow, rules.halves) };
        Some(((finished - start) as f64 / ideal as f64).max(1.0))
    };
    let slowdowns: Vec<f64> = flows.iter().filter_map(slowdown).collect();
    (!slowdowns.is_empty()).then(|| slowdowns.iter().sum::<f64>() / slowdowns.len() as f64)
}

/// Returns the slots that the authors expect a flow to take.
fn ideal(flow: &Flow) -> u64 {
    let (blocks, is_long) = (flow.bytes / 8, flow.bytes > 256);
    let request = 2 + 4 + if is_long { blocks } else { 0 };
    match flow.kind {
        Kind::Request => request,
        Kind::Answer if is_long => (flow.bytes / 256 + 1) * 32 + 4 + request,
        Kind::Answer => blocks + request,
        Kind::Write => blocks + 4 + if is_long { 128 } else { 2 },
    }
}

/// Returns the slots that a flow, or a whole read, takes without other traffic: its blocks, two links, and the steps of the switch.
fn alone(flow: &Flow, halves: bool) -> u64 {
    const WAY: u64 = 2;
    match flow.kind {
        Kind::Answer if !halves => (2 + WAY) + 1 + flow.blocks + WAY,
        _ => flow.blocks + WAY,
    }
}

fn run(rows: &[Row], rules: CxlRules) -> Vec<Flow> {
    let nodes = rows.iter().map(|row| row.src.max(row.dst) + 1).max().unwrap_or(0);
    let mut nodes: Vec<Node> = (0..nodes).map(|_| Node::default()).collect();
    let mut flows: Vec<Flow> = rows.iter().map(of_row).collect();
    let mut starting: Vec<(u64, usize)> =
        rows.iter().enumerate().map(|(n, row)| (row.slot, n)).rev().collect();
    let (mut now, mut finished, mut begun) = (rows.first().map_or(0, |row| row.slot), 0, 0);
    while finished < flows.len() && !(rules.stops && (finished >= ENOUGH || begun == flows.len())) {
        while let Some(&(at, flow)) = starting.last()
            && at <= now
        {
            starting.pop();
            nodes[flows[flow].src].active.push_back(flow);
        }
        for node in 0..nodes.len() {
            if let Some(flow) = nodes[node].at_switch.take() {
                nodes[flows[flow].dst].queue.push_back(flow);
            }
        }
        for node in &mut nodes {
            node.at_switch = node.up.take();
            node.up = send(node, &mut flows, rules.in_turn);
            begun += usize::from(node.up.is_some_and(|flow| flows[flow].sent == 1));
        }
        for node in &mut nodes {
            if let Some(flow) = std::mem::replace(&mut node.down, node.queue.pop_front()) {
                receive(flow, now, &mut flows, &mut starting, &mut finished);
            }
        }
        now += 1;
    }
    flows
}

fn of_row(row: &Row) -> Flow {
    let (kind, blocks) = match row.is_read {
        true => (Kind::Request, 2),
        false => (Kind::Write, u64::from(row.bytes).div_ceil(8)),
    };
    let (src, dst, bytes) = (row.src.into(), row.dst.into(), row.bytes.into());
    Flow {
        kind,
        src,
        dst,
        blocks,
        sent: 0,
        received: 0,
        bytes,
        start: row.slot,
        finished: None,
        request: None,
    }
}

/// Sends a block of a node, and returns its flow.
fn send(node: &mut Node, flows: &mut [Flow], in_turn: bool) -> Option<usize> {
    let is_request = |flow: &usize| flows[*flow].kind == Kind::Request;
    match node.current {
        None => node.current = node.active.pop_front(),
        Some(current) if node.active.front().is_some_and(|first| !is_request(first)) => {
            if let Some(place) = node.active.iter().position(is_request) {
                let request = node.active.remove(place);
                node.active.push_back(current);
                node.current = request;
            }
        }
        Some(_) => {}
    }
    let id = node.current?;
    let flow = &mut flows[id];
    flow.sent += 1;
    if flow.sent == flow.blocks {
        node.current = None;
    } else if in_turn && flow.sent.is_multiple_of(LINE) {
        node.current = None;
        node.active.push_back(id);
    }
    Some(id)
}

fn receive(
    id: usize,
    now: u64,
    flows: &mut Vec<Flow>,
    starting: &mut Vec<(u64, usize)>,
    finished: &mut usize,
) {
    flows[id].received += 1;
    if flows[id].received < flows[id].blocks {
        return;
    }
    flows[id].finished = Some(now);
    *finished += 1;
    if flows[id].kind == Kind::Request {
        let Flow { src, dst, bytes, .. } = flows[id];
        let (blocks, start) = (bytes.div_ceil(8), now + 1);
        starting.push((start, flows.len()));
        let answer = Flow {
            kind: Kind::Answer,
            src: dst,
            dst: src,
            blocks,
            sent: 0,
            received: 0,
            start,
            ..flows[id].clone()
        };
        flows.push(Flow { finished: None, request: Some(id), ..answer });
    }
}

#[cfg(test)]
mod tests {
    use super::super::trace::{Sizes, TraceDraw};
    use super::*;

    /// Messages alone take their blocks and two links; everything arrives once by either order.
    #[test]
    fn messages_alone_and_together() {
        for is_read in [false, true] {
            let row = Row { slot: 5, src: 0, dst: 1, bytes: 5_840, is_read };
            let rules = CxlRules { roomy_ideal: false, halves: false, stops: false, in_turn: false };
            assert_eq!(mean(&[row], rules), Some(1.0));
            let took = run(&[row], rules).last().unwrap().finished.unwrap() - 5;
            assert!((730 + 2..=730 + 8).contains(&took), "{took}");
        }
        let traffic = TraceDraw { sizes: Sizes::Application("spark"), load: 0.4, writes: 0.5, rows: 100 };
        let rows = traffic.draw(7);
        for in_turn in [false, true] {
            let flows = run(&rows, CxlRules { in_turn, stops: false, ..CxlRules::AUTHORS });
            assert_eq!(flows.len(), rows.len() + rows.iter().filter(|row| row.is_read).count());
            assert!(flows.iter().all(|flow| flow.received == flow.blocks && flow.sent == flow.blocks));
        }
    }
}
