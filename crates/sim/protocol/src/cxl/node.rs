//! CXL node that is both a host and a memory device.

use super::{AnswerOrder, ClassSet, Line, MessageClass, Params};
use std::collections::VecDeque;
use unrack_units::Time;

/// Node that sends requests for cache lines, and answers the requests of other nodes. A window limits the number of
/// lines that the node has requested but not received.
///
/// A node requests the lines of several transfers in turn, one line or run of each ([`Params::transfers`]). By default
/// these are as many as it has cores: each core requests the lines of one transfer, and begins the next transfer when it
/// has requested all lines of that one. Interleaved transfers are allowed, because CXL.mem orders only messages for the
/// same address (CXL 3.x §3.4). If a node sent its transfers one after the other, nodes that have the same sequence of
/// destinations would all wait for the same memory node. Reads and writes have separate queues. A request occupies a receive buffer of the memory node until its answer leaves. Therefore a memory node that
/// cannot send answers stops accepting requests. Answers occupy no buffer, because the requesting node accepts them at
/// once.
///
/// | calls | functions |
/// |---|---|
/// | report an event | [`submit`](Node::submit), [`handle_line`](Node::handle_line) |
/// | ask for the next action | [`take`](Node::take) |
/// | query the state | [`waiting`](Node::waiting), [`held`](Node::held) |
#[derive(Debug, Clone)]
pub struct Node {
    id: u16,
    /// Transfers that have lines which this node has not requested yet. `reads` has the transfers whose requests carry
    /// no data (`Req`), and `writes` those whose requests carry data (`RwD`).
    reads: VecDeque<Burst>,
    writes: VecDeque<Burst>,
    /// Requests that this node has accepted but not answered. It will answer those in `to_acknowledge` without data
    /// (`Ndr`), and those in `to_fetch` with data (`Drs`).
    to_acknowledge: VecDeque<Line>,
    to_fetch: VecDeque<Line>,
    /// Number of further lines that this node may request before an answer arrives.
    window: u32,
    /// Number of lines that this node requests together as one run. A run is shorter if fewer lines of the transfer are
    /// left.
    run: u32,
    /// Number of transfers of a queue whose lines are requested in turn.
    transfers: usize,
    answers: AnswerOrder,
    /// Transfer to which the last answer with data belongs.
    answering: Option<u32>,
    next_class: usize,
}

/// A transfer of one or more cache lines that a node requests from another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    pub message: u32,
    pub dst: u16,
    pub lines: u32,
    /// Class of the requests: either `Req` or `RwD`.
    pub class: MessageClass,
    /// Whether the requests carry data and are answered with data.
    pub fetches: bool,
}

/// A message or run that leaves a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DepartedMessage {
    pub line: Line,
    /// If the message is an answer, the class of the request that it answers, because the receive buffer of that
    /// request is now free. `None` for a request.
    pub frees: Option<MessageClass>,
}

impl Node {
    /// Creates a node, which requests up to `run` lines together as one run.
    pub fn new(id: u16, params: &Params, run: u32) -> Node {
        Node {
            id,
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            to_acknowledge: VecDeque::new(),
            to_fetch: VecDeque::new(),
            window: params.outstanding,
            run,
            transfers: params.transfers as usize,
            answers: params.answers,
            answering: None,
            next_class: 0,
        }
    }

    /// Queues a transfer. Its requests leave when their turn comes and the window allows it.
    pub fn submit(&mut self, burst: Burst) {
        debug_assert!(burst.lines > 0 && matches!(burst.class, MessageClass::Req | MessageClass::RwD));
        if burst.class == MessageClass::Req { &mut self.reads } else { &mut self.writes }.push_back(burst);
    }

    /// Handles the arrival of a message or run. Returns whether its receive buffer is free at once. This is the case
    /// for answers, while a request occupies its buffer until its answer leaves.
    pub fn handle_line(&mut self, line: Line) -> bool {
        match (line.class, line.fetches) {
            (MessageClass::Req, _) | (MessageClass::RwD, true) => self.to_fetch.push_back(line),
            (MessageClass::RwD, false) => self.to_acknowledge.push_back(line),
            (MessageClass::Ndr | MessageClass::Drs, _) => {
                self.window += u32::from(line.count);
                return true;
            }
        }
        false
    }

    /// Handles the loss of a request from this node, or of an answer to this node. The request counts as answered, so
    /// that the window of this node grows by one line.
    pub fn handle_loss(&mut self) {
        self.window += 1;
    }

    /// Returns the classes for which the node has a message to send. A request counts only if the window has room for
    /// its run.
    pub fn waiting(&self) -> ClassSet {
        let may_request = |queue: &VecDeque<Burst>| {
            queue.front().is_some_and(|burst| burst.lines.min(self.run) <= self.window)
        };
        let has = [
            may_request(&self.reads),
            may_request(&self.writes),
            !self.to_acknowledge.is_empty(),
            !self.to_fetch.is_empty(),
        ];
        let mut set = ClassSet::NONE;
        for class in MessageClass::ALL {
            if has[class.index()] {
                set.insert(class);
            }
        }
        set
    }

    /// Returns the next message or run to send. Its class is in `allowed`, and it has no more messages than `credits`
    /// returns for that class. The node serves the classes in turn.
    pub fn take(
        &mut self,
        mut allowed: ClassSet,
        credits: impl Fn(MessageClass) -> u32,
    ) -> Option<DepartedMessage> {
        allowed = self.waiting().and(allowed);
        let class = loop {
            let class = allowed.next_from(self.next_class)?;
            if credits(class) >= self.next_run(class) {
                break class;
            }
            allowed.remove(class);
        };
        self.next_class = class.index() + 1;
        Some(match class {
            MessageClass::Req | MessageClass::RwD => {
                DepartedMessage { line: self.request(class), frees: None }
            }
            MessageClass::Ndr | MessageClass::Drs => self.answer(class),
        })
    }

    /// Returns how many messages the next run of `class` has. The node must have a message of that class to send.
    fn next_run(&self, class: MessageClass) -> u32 {
        let burst = |queue: &VecDeque<Burst>| queue.front().map(|burst| burst.lines.min(self.run));
        let answer = |queue: &VecDeque<Line>| queue.front().map(|line| u32::from(line.count));
        let run = match class {
            MessageClass::Req => burst(&self.reads),
            MessageClass::RwD => burst(&self.writes),
            MessageClass::Ndr => answer(&self.to_acknowledge),
            MessageClass::Drs => self.to_fetch.get(self.next_fetch()).map(|line| u32::from(line.count)),
        };
        run.expect("a message waits")
    }

    fn request(&mut self, class: MessageClass) -> Line {
        let count = self.next_run(class);
        self.window -= count;
        let queue = if class == MessageClass::Req { &mut self.reads } else { &mut self.writes };
        let burst = queue.front_mut().expect("a burst waits");
        let Burst { message, dst, fetches, .. } = *burst;
        burst.lines -= count;
        let (rest, next_turn) = (*burst, queue.len().min(self.transfers) - 1);
        queue.pop_front();
        if rest.lines > 0 {
            queue.insert(next_turn, rest);
        }
        Line { message, src: self.id, dst, class, fetches, count: count as u8, last: Time::ZERO }
    }

    fn answer(&mut self, class: MessageClass) -> DepartedMessage {
        let request = match class {
            MessageClass::Ndr => self.to_acknowledge.pop_front(),
            _ => {
                let next = self.next_fetch();
                self.to_fetch.remove(next).inspect(|request| self.answering = Some(request.message))
            }
        };
        let request = request.expect("a request waits");
        let line = Line { src: self.id, dst: request.src, class, ..request };
        DepartedMessage { line, frees: Some(request.class) }
    }

    /// Returns the position in `to_fetch` of the request to answer next.
    fn next_fetch(&self) -> usize {
        let of_same = |line: &Line| Some(line.message) == self.answering;
        match self.answers {
            AnswerOrder::ByLine => 0,
            AnswerOrder::ByTransfer => self.to_fetch.iter().position(of_same).unwrap_or(0),
        }
    }

    /// Returns the number of requests of `class` that occupy a receive buffer of this node.
    pub fn held(&self, class: MessageClass) -> u32 {
        let queues = [&self.to_acknowledge, &self.to_fetch];
        queues
            .into_iter()
            .flatten()
            .filter(|line| line.class == class)
            .map(|line| u32::from(line.count))
            .sum()
    }
}
