//! An input-buffered switch.

use super::{CLASSES, Class, ClassSet, Line};
use std::collections::VecDeque;

/// Switch with one first-in-first-out queue for each input and class. Each output serves the queues whose first message
/// goes to it: classes in turn, and within a class inputs in turn. A message keeps its place at the head until it has
/// been sent.
///
/// | what happened | [`handle_line`](Switch::handle_line), [`finish`](Switch::finish) |
/// |---|---|
/// | what to do | [`poll_output`](Switch::poll_output): an output that may have a message to take; [`take`](Switch::take) |
/// | what is known | [`waiting`](Switch::waiting), [`queued`](Switch::queued) |
#[derive(Debug, Clone)]
pub struct Switch {
    /// Messages, each with its output.
    queues: Vec<[VecDeque<(Line, u16)>; CLASSES]>,
    outputs: Vec<Output>,
    /// Outputs that a queue's new first message goes to.
    turned: Vec<u16>,
    buffer: usize,
}

#[derive(Debug, Clone)]
struct Output {
    next_class: usize,
    /// Queue whose first message is being sent.
    serving: Option<(u16, Class)>,
    /// Classes with candidates.
    waiting: ClassSet,
    classes: [Candidates; CLASSES],
}

/// Inputs whose first message of one class goes to this output.
#[derive(Debug, Clone)]
struct Candidates {
    words: Box<[u64]>,
    count: u32,
    /// Input after the one served last.
    next: usize,
}

impl Switch {
    /// Creates a switch with room for `buffer` messages in each queue.
    pub fn new(ports: u16, buffer: u32) -> Switch {
        let words = usize::from(ports).div_ceil(64);
        let candidates = Candidates { words: vec![0; words].into(), count: 0, next: 0 };
        let classes = [const { 0 }; CLASSES].map(|_| candidates.clone());
        let output = Output { next_class: 0, serving: None, waiting: ClassSet::NONE, classes };
        Switch {
            queues: (0..ports).map(|_| [const { VecDeque::new() }; CLASSES]).collect(),
            outputs: vec![output; usize::from(ports)],
            turned: Vec::new(),
            buffer: buffer as usize,
        }
    }

    /// Queues a message that is ready to leave `input` for `output`.
    pub fn handle_line(&mut self, input: u16, output: u16, line: Line) {
        let queue = &mut self.queues[usize::from(input)][line.class.index()];
        assert!(queue.len() < self.buffer, "a message came without a credit");
        queue.push_back((line, output));
        if queue.len() == 1 {
            self.turn(input, output, line.class);
        }
    }

    /// Starts to send the next message for `output` of a class in `allowed`.
    pub fn take(&mut self, output: u16, allowed: ClassSet) -> Option<Line> {
        let out = &mut self.outputs[usize::from(output)];
        debug_assert!(out.serving.is_none(), "an output sends one message at a time");
        let class = out.waiting.and(allowed).next_from(out.next_class)?;
        out.next_class = class.index() + 1;
        let candidates = &mut out.classes[class.index()];
        let input = candidates.take();
        if candidates.count == 0 {
            out.waiting.remove(class);
        }
        out.serving = Some((input, class));
        let first = self.queues[usize::from(input)][class.index()].front();
        Some(first.expect("a candidate has a first message").0)
    }

    /// Removes the message that `output` has finished sending. Returns the input and class whose queue has one more
    /// place.
    pub fn finish(&mut self, output: u16) -> (u16, Class) {
        let serving = self.outputs[usize::from(output)].serving.take();
        let (input, class) = serving.expect("an output finishes what it took");
        let queue = &mut self.queues[usize::from(input)][class.index()];
        queue.pop_front();
        if let Some(&(next, output)) = queue.front() {
            self.turn(input, output, next.class);
        }
        (input, class)
    }

    /// Enters a queue whose first message now goes to `output` among the candidates of that output.
    fn turn(&mut self, input: u16, output: u16, class: Class) {
        let out = &mut self.outputs[usize::from(output)];
        out.classes[class.index()].insert(input);
        out.waiting.insert(class);
        self.turned.push(output);
    }

    /// Returns an output that may have a message to take.
    pub fn poll_output(&mut self) -> Option<u16> {
        self.turned.pop()
    }

    /// Returns the classes of which a message waits for `output`.
    pub fn waiting(&self, output: u16) -> ClassSet {
        self.outputs[usize::from(output)].waiting
    }

    /// Returns the number of messages of `class` in the queue of `input`.
    pub fn queued(&self, input: u16, class: Class) -> u32 {
        self.queues[usize::from(input)][class.index()].len() as u32
    }
}

impl Candidates {
    fn insert(&mut self, input: u16) {
        let (word, bit) = (usize::from(input) / 64, input % 64);
        debug_assert_eq!(self.words[word] >> bit & 1, 0, "a queue has one first message");
        self.words[word] |= 1 << bit;
        self.count += 1;
    }

    /// Takes the first candidate at or after `next`, wrapping around. There must be one.
    fn take(&mut self) -> u16 {
        let (word, bit) = (self.next / 64, self.next % 64);
        let input = match self.words[word] >> bit << bit {
            0 => self.first_after(word),
            later => word * 64 + later.trailing_zeros() as usize,
        };
        self.words[input / 64] &= !(1 << (input % 64));
        self.count -= 1;
        self.next = (input + 1) % (self.words.len() * 64);
        input as u16
    }

    /// Returns the first candidate in the words after `word`, wrapping around to `word` itself.
    fn first_after(&self, word: usize) -> usize {
        let words = self.words.len();
        let found = (word + 1..=word + words).map(|w| w % words).find(|w| self.words[*w] != 0);
        let found = found.expect("there is a candidate");
        found * 64 + self.words[found].trailing_zeros() as usize
    }
}
