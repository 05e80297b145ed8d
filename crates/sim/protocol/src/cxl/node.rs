//! Node that is both a host and a memory device.

use super::{ClassSet, Line, MessageClass};
use std::collections::VecDeque;
use unrack_units::Time;

/// Sends requests as its window of outstanding lines allows, and answers the requests of other nodes.
///
/// A node has [`CORES`] cores, each with one transfer. A core whose transfer has ended begins the next one, so that
/// the lines of that many transfers leave in turn, separately for reads and writes. A request keeps its receive buffer
/// until its answer leaves; therefore a memory node that cannot answer stops accepting requests. Answers are accepted
/// at once.
///
/// | calls | functions |
/// |---|---|
/// | report an event | [`submit`](Node::submit), [`handle_line`](Node::handle_line) |
/// | ask for the next action | [`take`](Node::take) |
/// | query the state | [`waiting`](Node::waiting), [`held`](Node::held) |
#[derive(Debug, Clone)]
pub struct Node {
    id: u16,
    /// Transfers that are not fully requested yet: those without data, and those with data.
    reads: VecDeque<Burst>,
    writes: VecDeque<Burst>,
    /// Requests that were accepted but not answered, by the class of the answer.
    to_acknowledge: VecDeque<Line>,
    to_fetch: VecDeque<Line>,
    /// Number of lines that may still be requested before an answer arrives.
    window: u32,
    /// Number of lines that are requested together, if a transfer has that many.
    run: u32,
    next_class: usize,
}

/// Number of cores that request lines at the same time. The default window counts the fill buffers of these cores
/// ([`Params::outstanding`](super::Params)). CXL.mem orders only messages for the same address (CXL 3.x §3.4). If
/// transfers left one after the other, all nodes with the same order of destinations would wait for the same one.
const CORES: usize = 16;

/// A transfer of one or more lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    pub message: u32,
    pub dst: u16,
    pub lines: u32,
    /// Either `Req` or `RwD`.
    pub class: MessageClass,
    /// Whether the requests carry data and are answered with data.
    pub fetches: bool,
}

/// A message that leaves a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DepartedMessage {
    pub line: Line,
    /// Class of the request that the message answers, because its buffer is now free.
    pub frees: Option<MessageClass>,
}

impl Node {
    /// Creates a node with a window of `outstanding` lines, which requests `run` lines together.
    pub fn new(id: u16, outstanding: u32, run: u32) -> Node {
        Node {
            id,
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            to_acknowledge: VecDeque::new(),
            to_fetch: VecDeque::new(),
            window: outstanding,
            run,
            next_class: 0,
        }
    }

    /// Queues a transfer; its requests leave as the window allows.
    pub fn submit(&mut self, burst: Burst) {
        debug_assert!(burst.lines > 0 && matches!(burst.class, MessageClass::Req | MessageClass::RwD));
        if burst.class == MessageClass::Req { &mut self.reads } else { &mut self.writes }.push_back(burst);
    }

    /// Handles the arrival of a message. Returns whether its buffer is free at once.
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

    /// Handles the loss of a message for this node. The request that it would have answered counts as answered.
    pub fn handle_loss(&mut self) {
        self.window += 1;
    }

    /// Returns the classes of which a message could be sent.
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

    /// Returns the next message of a class in `allowed`, or a run of at most as many messages as the class has
    /// `credits` for. Classes are served in turn.
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

    /// Returns how many messages of a waiting class leave together as the next run.
    fn next_run(&self, class: MessageClass) -> u32 {
        let burst = |queue: &VecDeque<Burst>| queue.front().map(|burst| burst.lines.min(self.run));
        let answer = |queue: &VecDeque<Line>| queue.front().map(|line| u32::from(line.count));
        let run = match class {
            MessageClass::Req => burst(&self.reads),
            MessageClass::RwD => burst(&self.writes),
            MessageClass::Ndr => answer(&self.to_acknowledge),
            MessageClass::Drs => answer(&self.to_fetch),
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
        let (rest, next_turn) = (*burst, queue.len().min(CORES) - 1);
        queue.pop_front();
        if rest.lines > 0 {
            queue.insert(next_turn, rest);
        }
        Line { message, src: self.id, dst, class, fetches, count: count as u8, last: Time::ZERO }
    }

    fn answer(&mut self, class: MessageClass) -> DepartedMessage {
        let queue = if class == MessageClass::Ndr { &mut self.to_acknowledge } else { &mut self.to_fetch };
        let request = queue.pop_front().expect("a request waits");
        let line = Line { src: self.id, dst: request.src, class, ..request };
        DepartedMessage { line, frees: Some(request.class) }
    }

    /// Returns the number of requests of `class` that hold a receive buffer.
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
