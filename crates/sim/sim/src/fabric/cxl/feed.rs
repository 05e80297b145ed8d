//! Messages that nodes and switches put into flits, and the credits that these messages return.

use super::{Cxl, Event};
use std::collections::VecDeque;
use unrack_engine::events::{Core, Observer};
use unrack_protocol::cxl::{ClassSet, Feed, FlitSlots, Line, MessageClass, Node, Switch};
use unrack_units::Time;

/// Buffers of one class that become free at the receiving end of a link.
pub(super) struct Freed {
    link: u32,
    class: MessageClass,
    count: u32,
    /// Times after now at which the buffers of a run become free, if they do not all become free at once.
    apart: Option<Apart>,
}

/// Times at which the lines of a run leave their buffers.
struct Apart {
    /// The flits of consecutive lines, the length of a flit, and whether a buffer becomes free when its line begins. Otherwise, the buffer
    /// becomes free when the line ends.
    flits: Option<(FlitSlots, Time, bool)>,
    /// Delay of the last line relative to its flit or, without flits, relative to the first line. The delays of the lines between grow in
    /// proportion.
    late: Time,
}

impl Freed {
    /// Creates the buffers that `line` frees when it arrives. Each line of a run frees its buffer when that line arrives.
    pub(super) fn arrived(link: u32, line: &Line, now: Time) -> Freed {
        let apart = (line.count > 1).then(|| Apart { flits: None, late: line.last.saturating_sub(now) });
        Freed { link, class: line.class, count: u32::from(line.count), apart }
    }
}

impl Apart {
    /// Returns the time at which line `n` of `count` leaves, relative to the flit in which the first line begins.
    fn after(&self, n: u32, count: u32) -> Time {
        let flits = self.flits.map_or(Time::ZERO, |(slots, flit, begins)| {
            flit * if begins { slots.begins(n) } else { slots.ends(n) }
        });
        flits + Time::from_ps(self.late.as_ps() * u64::from(n) / u64::from(count - 1))
    }
}

impl Cxl {
    pub(super) fn return_credits<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        while let Some(Freed { link: number, class, count, apart }) = self.freed.pop() {
            let link = &mut self.links[number as usize];
            let at = core.now() + link.flit + link.propagation;
            let mut first = at;
            match &apart {
                None => link.transmitter.handle_credits(at, class, count),
                Some(apart) => {
                    first += apart.after(0, count);
                    (0..count).for_each(|n| {
                        link.transmitter.handle_credits(at + apart.after(n, count), class, 1);
                    });
                }
            }
            let (wake_at, first) = (link.wake_at, first.max(link.free_at));
            if first < wake_at && !self.waiting(number).is_empty() {
                self.wake(core, number, first);
            }
        }
    }
}

/// The wire that a flit is sent on.
pub(super) struct Onto<'a> {
    pub wire: &'a mut VecDeque<(Time, Line)>,
    pub now: Time,
    pub flit: Time,
    /// Time from the end of a flit until its content can be used at the other end.
    pub latency: Time,
}

impl Onto<'_> {
    /// Adds a line that ends in the flit.
    fn put(&mut self, line: Line) {
        self.wire.push_back((self.now + self.flit + self.latency, line));
    }

    /// Adds a run that begins in the flit. `late`: how long the run waits for its last credit. Returns how much later the run ends than if
    /// its flits were sent back to back.
    fn put_run(&mut self, run: Line, slots: FlitSlots, late: Time) -> Time {
        let end = |n| self.now + self.flit * (slots.ends(n) + 1);
        let together = end(u32::from(run.count) - 1);
        // The last line cannot begin before it is here and has a credit.
        let last = (together + late).max(run.last + self.flit * slots.alone());
        let line = Line { last: last + self.latency, ..run };
        self.wire.push_back((end(0) + self.latency, line));
        last - together
    }
}

pub(super) struct FromNode<'a> {
    pub node: &'a mut Node,
    /// Number of the link by which requests come to the node.
    pub receives: u32,
    /// Class of the requests that the latest run from the node answers.
    pub frees: Option<MessageClass>,
    pub onto: Onto<'a>,
    pub freed: &'a mut Vec<Freed>,
}

impl Feed for FromNode<'_> {
    const KEEPS_PLACES: bool = false;

    fn take(&mut self, allowed: ClassSet, credits: impl Fn(MessageClass) -> u32) -> Option<Line> {
        let taken = self.node.take(allowed, credits)?;
        match taken.frees {
            Some(class) if taken.line.count == 1 => {
                self.freed.push(Freed { link: self.receives, class, count: 1, apart: None });
            }
            frees => self.frees = frees,
        }
        Some(taken.line)
    }

    fn begin(&mut self, run: Line, slots: FlitSlots, late: Time) {
        let late = self.onto.put_run(run, slots, late);
        if let Some(class) = self.frees.take() {
            let apart = Some(Apart { flits: Some((slots, self.onto.flit, true)), late });
            self.freed.push(Freed { link: self.receives, class, count: u32::from(run.count), apart });
        }
    }

    fn complete(&mut self, line: Line) {
        if line.count == 1 {
            self.onto.put(line);
        }
    }
}

pub(super) struct FromSwitch<'a> {
    pub switch: &'a mut Switch,
    pub output: u16,
    /// Number of the link that leads to each input of the switch.
    pub feeders: &'a [u32],
    pub onto: Onto<'a>,
    pub freed: &'a mut Vec<Freed>,
}

impl Feed for FromSwitch<'_> {
    const KEEPS_PLACES: bool = true;

    fn take(&mut self, allowed: ClassSet, credits: impl Fn(MessageClass) -> u32) -> Option<Line> {
        self.switch.take(self.output, allowed, credits)
    }

    fn begin(&mut self, run: Line, slots: FlitSlots, late: Time) {
        let late = self.onto.put_run(run, slots, late);
        let (input, class) = self.switch.vacate(self.output);
        let apart = Some(Apart { flits: Some((slots, self.onto.flit, false)), late });
        let link = self.feeders[usize::from(input)];
        self.freed.push(Freed { link, class, count: u32::from(run.count), apart });
    }

    fn complete(&mut self, line: Line) {
        if let Some((input, class)) = self.switch.finish(self.output) {
            self.freed.push(Freed { link: self.feeders[usize::from(input)], class, count: 1, apart: None });
        }
        if line.count == 1 {
            self.onto.put(line);
        }
    }
}
