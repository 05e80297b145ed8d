//! What nodes and switches put into flits, and the credits that come back for it.

use super::{Cxl, Event, is_data};
use std::collections::VecDeque;
use unrack_engine::events::{Core, Observer};
use unrack_protocol::cxl::{Class, ClassSet, Feed, Line, Node, Slots, Switch};
use unrack_units::Time;

/// Buffers of one class that come free at the end of a link.
pub(super) struct Freed {
    link: u32,
    class: Class,
    count: u32,
    /// Times after now at which the buffers of a run come free, if not all at once.
    apart: Option<Apart>,
}

/// Times at which the lines of a run leave their buffers.
struct Apart {
    slots: Slots,
    flit: Time,
    /// From the times of a run whose flits follow each other until the last line really goes.
    late: Time,
    /// True if a buffer is free when a line begins, false if it is when the line ends.
    begins: bool,
}

impl Freed {
    /// Creates what `line` frees at once.
    pub(super) fn now(link: u32, line: &Line) -> Freed {
        Freed { link, class: line.class, count: u32::from(line.count), apart: None }
    }
}

impl Apart {
    /// Returns the time at which line `n` of `count` leaves, after the flit in which the first begins.
    fn after(&self, n: u32, count: u32) -> Time {
        let Apart { slots, flit, late, begins } = *self;
        let flits = if begins { slots.begins(n) } else { slots.ends(n) };
        let late = late.as_ps() * u64::from(n) / u64::from(count - 1);
        flit * flits + Time::from_ps(late)
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
            if first < wake_at && self.waiting(number).contains(class) {
                self.wake(core, number, first);
            }
        }
    }
}

/// The wire that a flit is put on.
pub(super) struct Onto<'a> {
    pub wire: &'a mut VecDeque<(Time, Line)>,
    pub now: Time,
    pub flit: Time,
    /// Time from the end of a flit until its contents can be used at the other end.
    pub latency: Time,
    /// True if the link leads to a node.
    pub ends_here: bool,
}

impl Onto<'_> {
    /// Puts on a line that ends in the flit.
    fn put(&mut self, line: Line) {
        self.wire.push_back((self.now + self.flit + self.latency, line));
    }

    /// Puts on a run that begins in the flit. Returns how much later than one flit after the other it ends.
    fn put_run(&mut self, run: Line, slots: Slots) -> Time {
        let end = |n| self.now + self.flit * (slots.ends(n) + 1);
        let together = end(u32::from(run.count) - 1);
        // The last line cannot begin before it is here.
        let last = together.max(run.last + self.flit * slots.alone());
        let line = Line { last: last + self.latency, ..run };
        let whole = self.ends_here && (is_data(&run) || run.class == Class::Ndr);
        let arrival = if whole { line.last } else { end(0) + self.latency };
        self.wire.push_back((arrival, line));
        last - together
    }
}

pub(super) struct FromNode<'a> {
    pub node: &'a mut Node,
    /// Number of the link by which requests came.
    pub receives: u32,
    /// Class of the requests that the run taken last answers.
    pub frees: Option<Class>,
    pub onto: Onto<'a>,
    pub freed: &'a mut Vec<Freed>,
}

impl Feed for FromNode<'_> {
    const KEEPS_PLACES: bool = false;

    fn take(&mut self, allowed: ClassSet, most: impl FnOnce(Class) -> u32) -> Option<Line> {
        let taken = self.node.take(self.onto.now, allowed, most)?;
        match taken.frees {
            Some(class) if taken.line.count == 1 => {
                self.freed.push(Freed { link: self.receives, class, count: 1, apart: None });
            }
            frees => self.frees = frees,
        }
        Some(taken.line)
    }

    fn begin(&mut self, run: Line, slots: Slots) {
        let late = self.onto.put_run(run, slots);
        if let Some(class) = self.frees.take() {
            let apart = Some(Apart { slots, flit: self.onto.flit, late, begins: true });
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

    fn take(&mut self, allowed: ClassSet, most: impl FnOnce(Class) -> u32) -> Option<Line> {
        self.switch.take(self.onto.now, self.output, allowed, most)
    }

    fn begin(&mut self, run: Line, slots: Slots) {
        let late = self.onto.put_run(run, slots);
        let (input, class) = self.switch.vacate(self.output);
        let apart = Some(Apart { slots, flit: self.onto.flit, late, begins: false });
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
