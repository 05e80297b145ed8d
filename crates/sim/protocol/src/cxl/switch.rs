//! A CXL switch with buffers at its inputs.

use super::{CLASSES, ClassSet, Line, MessageClass};
use std::collections::VecDeque;

/// Switch with one first-in-first-out queue for each pair of input and message class, or for each input, output and
/// message class. An output serves the queues whose
/// first message is for that output: it takes the classes in turn, and within a class the inputs in turn. A message
/// stays at the head of its queue until the output has sent it.
///
/// | calls | functions |
/// |---|---|
/// | report an event | [`handle_line`](Switch::handle_line), [`finish`](Switch::finish) |
/// | ask for the next action | [`poll_output`](Switch::poll_output): an output that may have a message to send; [`take`](Switch::take) |
/// | query the state | [`waiting`](Switch::waiting), [`queued`](Switch::queued) |
#[derive(Debug, Clone)]
pub struct Switch {
    /// For each input and class, the queued messages, each with the output that it goes to. Without head-of-line
    /// blocking, an input has such queues for each output; see [`Switch::slot`].
    queues: Vec<[VecDeque<(Line, u16)>; CLASSES]>,
    /// Number of occupied buffers of each queue.
    held: Vec<[u32; CLASSES]>,
    outputs: Vec<SwitchOutput>,
    /// Outputs for which a queue has a new first message. The driver polls these outputs, in order to check whether
    /// they can send.
    turned: Vec<u16>,
    /// Number of buffers of each queue, by class.
    buffers: [u32; CLASSES],
    blocking: bool,
}

#[derive(Debug, Clone)]
struct SwitchOutput {
    next_class: usize,
    /// Queue whose first message this output is sending.
    serving: Option<SwitchSending>,
    /// Message classes for which at least one queue has a first message for this output.
    waiting: ClassSet,
    classes: [Candidates; CLASSES],
}

/// A message, or a run of messages, that is being sent.
#[derive(Debug, Clone, Copy)]
struct SwitchSending {
    input: u16,
    class: MessageClass,
    /// Number of buffers of the queue that the message or run still occupies.
    holds: u32,
}

/// Inputs whose queue of one message class has a first message for one given output.
#[derive(Debug, Clone)]
struct Candidates {
    words: Box<[u64]>,
    count: u32,
    /// Input that follows the input served last.
    next: usize,
}

impl Switch {
    /// Creates a switch with `ports` ports. The buffers of an input have room for this many messages of each class. If
    /// `blocking`, a message waits for those before it in the queue of its input, whatever their outputs are.
    pub fn new(ports: u16, buffers: [u32; CLASSES], blocking: bool) -> Switch {
        let words = usize::from(ports).div_ceil(64);
        let queues = usize::from(ports) * if blocking { 1 } else { usize::from(ports) };
        let candidates = Candidates { words: vec![0; words].into(), count: 0, next: 0 };
        let classes = [const { 0 }; CLASSES].map(|_| candidates.clone());
        let output = SwitchOutput { next_class: 0, serving: None, waiting: ClassSet::NONE, classes };
        Switch {
            queues: vec![[const { VecDeque::new() }; CLASSES]; queues],
            held: vec![[0; CLASSES]; usize::from(ports)],
            outputs: vec![output; usize::from(ports)],
            turned: Vec::new(),
            buffers,
            blocking,
        }
    }

    /// Returns the number of the queues in which messages from `input` for `output` wait.
    fn slot(&self, input: u16, output: u16) -> usize {
        slot((self.blocking, self.held.len()), input, output)
    }

    /// Queues a message that is ready to leave `input` for `output`.
    pub fn handle_line(&mut self, input: u16, output: u16, line: Line) {
        let held = &mut self.held[usize::from(input)][line.class.index()];
        *held += u32::from(line.count);
        assert!(*held <= self.buffers[line.class.index()], "a message came without a credit");
        let slot = self.slot(input, output);
        let queue = &mut self.queues[slot][line.class.index()];
        queue.push_back((line, output));
        if queue.len() == 1 {
            self.turn(input, output, line.class);
        }
    }

    /// Starts to send the next message or run through `output`, and returns it. Its class is in `allowed`, and it has
    /// no more messages than `credits` returns for that class. Returns `None` if no queue has such a message first.
    pub fn take(
        &mut self,
        output: u16,
        mut allowed: ClassSet,
        credits: impl Fn(MessageClass) -> u32,
    ) -> Option<Line> {
        let shape = (self.blocking, self.held.len());
        let out = &mut self.outputs[usize::from(output)];
        debug_assert!(out.serving.is_none(), "an output sends one message at a time");
        allowed = out.waiting.and(allowed);
        loop {
            let class = allowed.next_from(out.next_class)?;
            let candidates = &mut out.classes[class.index()];
            let input = candidates.first();
            let first = self.queues[slot(shape, input, output)][class.index()].front();
            let (line, _) = *first.expect("a candidate has a first message");
            let holds = u32::from(line.count);
            if credits(class) < holds {
                allowed.remove(class);
                continue;
            }
            candidates.remove(input);
            if candidates.count == 0 {
                out.waiting.remove(class);
            }
            out.next_class = class.index() + 1;
            out.serving = Some(SwitchSending { input, class, holds });
            return Some(line);
        }
    }

    /// Frees the buffers of the run that `output` has begun to send. Returns the input and class of the queue to which
    /// these buffers belong.
    pub fn vacate(&mut self, output: u16) -> (u16, MessageClass) {
        let serving = self.outputs[usize::from(output)].serving.as_mut().expect("an output began a run");
        let SwitchSending { input, class, .. } = *serving;
        self.held[usize::from(input)][class.index()] -= std::mem::take(&mut serving.holds);
        (input, class)
    }

    /// Removes the message or run that `output` has finished sending from its queue. Returns the input and class of
    /// that queue if this frees buffers, or `None` if [`vacate`](Switch::vacate) has freed them before.
    pub fn finish(&mut self, output: u16) -> Option<(u16, MessageClass)> {
        let serving = self.outputs[usize::from(output)].serving.take();
        let SwitchSending { input, class, holds } = serving.expect("an output finishes what it took");
        let slot = self.slot(input, output);
        let queue = &mut self.queues[slot][class.index()];
        queue.pop_front();
        if let Some(&(next, output)) = queue.front() {
            self.turn(input, output, next.class);
        }
        self.held[usize::from(input)][class.index()] -= holds;
        (holds > 0).then_some((input, class))
    }

    /// Adds the queue of `input` and `class` to the candidates of `output`, because the first message of the queue is
    /// now one for that output.
    fn turn(&mut self, input: u16, output: u16, class: MessageClass) {
        let out = &mut self.outputs[usize::from(output)];
        out.classes[class.index()].insert(input);
        out.waiting.insert(class);
        self.turned.push(output);
    }

    /// Returns an output that may have a message to send, or `None` if no output has a new candidate.
    pub fn poll_output(&mut self) -> Option<u16> {
        self.turned.pop()
    }

    /// Returns the message classes for which a queue has a first message for `output`.
    pub fn waiting(&self, output: u16) -> ClassSet {
        self.outputs[usize::from(output)].waiting
    }

    /// Returns the number of messages of `class` that occupy a buffer of `input`.
    pub fn queued(&self, input: u16, class: MessageClass) -> u32 {
        self.held[usize::from(input)][class.index()]
    }
}

/// Returns the number of the queues of an input and an output in a switch with this number of ports.
fn slot((blocking, ports): (bool, usize), input: u16, output: u16) -> usize {
    match blocking {
        true => usize::from(input),
        false => usize::from(input) * ports + usize::from(output),
    }
}

impl Candidates {
    fn insert(&mut self, input: u16) {
        let (word, bit) = (usize::from(input) / 64, input % 64);
        debug_assert_eq!(self.words[word] >> bit & 1, 0, "a queue has one first message");
        self.words[word] |= 1 << bit;
        self.count += 1;
    }

    /// Returns the first candidate input at or after `next`, wrapping around after the last input. There must be a
    /// candidate.
    fn first(&self) -> u16 {
        let (word, bit) = (self.next / 64, self.next % 64);
        let input = match self.words[word] >> bit << bit {
            0 => self.first_after(word),
            later => word * 64 + later.trailing_zeros() as usize,
        };
        input as u16
    }

    /// Removes `input` from the candidates, because the output has begun to serve it.
    fn remove(&mut self, input: u16) {
        let input = usize::from(input);
        self.words[input / 64] &= !(1 << (input % 64));
        self.count -= 1;
        self.next = (input + 1) % (self.words.len() * 64);
    }

    /// Returns the first candidate input in the bit words after word number `word`, wrapping around to `word` itself.
    fn first_after(&self, word: usize) -> usize {
        let words = self.words.len();
        let found = (word + 1..=word + words).map(|w| w % words).find(|w| self.words[*w] != 0);
        let found = found.expect("there is a candidate");
        found * 64 + self.words[found].trailing_zeros() as usize
    }
}
