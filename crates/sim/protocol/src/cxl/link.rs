//! Sending end of a CXL link: it packs messages into flits and counts credits.

use super::{CLASSES, ClassSet, FlitSlots, Line, MessageClass};
use std::collections::VecDeque;
use unrack_units::Time;

/// Source of the messages that a [`FlitTransmitter`] sends: a node, or an output of a switch.
pub trait Feed {
    /// Whether a message stays in the queue of the feed until the transmitter has placed its last slot in a flit. If
    /// so, the transmitter calls [`complete`](Feed::complete) at that time, so that the feed can remove the message.
    const KEEPS_PLACES: bool;

    /// Returns the next message or run to send. Its class is in `allowed`, and a run has no more messages than
    /// `credits` returns for that class. If [`KEEPS_PLACES`](Feed::KEEPS_PLACES) is `true`, the transmitter calls
    /// [`complete`](Feed::complete) when it has placed the last slot of the message or run.
    fn take(&mut self, allowed: ClassSet, credits: impl Fn(MessageClass) -> u32) -> Option<Line>;
    /// Notifies the feed that `run`, which has several messages and was the last one taken, begins in the flit that is
    /// being filled. `slots` gives the flits that the messages of the run take. `late` is how long the last message of
    /// the run is delayed because its credit has not come back yet.
    fn begin(&mut self, run: Line, slots: FlitSlots, late: Time);
    /// Notifies the feed that the last slot of `line`, the message or run taken last, is in the flit that is being
    /// filled.
    fn complete(&mut self, line: Line);
}

/// Sending end of a link, which fills flits with messages as far as the credits of their classes allow.
///
/// The transmitter chooses the contents of a flit when the transmission of the flit starts. If not all slots of a
/// message fit, the next flit begins with the remaining slots of that message (CXL 3.x §4.2: data follows its header).
/// Messages that arrive while a flit is being sent wait for the next flit. If a run is so long that it fills several
/// flits alone, the transmitter fills all these flits at once. For such a run, the transmitter may also spend credits
/// that will come back before the messages need them.
///
/// | calls | functions |
/// |---|---|
/// | report an event | [`handle_credits`](FlitTransmitter::handle_credits) |
/// | ask for the next action | [`fill`](FlitTransmitter::fill), at the start of a flit |
/// | query the state | [`midway`](Self::midway), [`next_credit`](Self::next_credit), [`credits`](Self::credits) |
#[derive(Debug, Clone)]
pub struct FlitTransmitter {
    slots: u32,
    /// Transmission time of a flit on this link, and then on the slowest link of the network.
    flit: Time,
    slowest: Time,
    initial: [u32; CLASSES],
    run: u32,
    credits: [u32; CLASSES],
    /// For each class, the number of credits that the transmitter has spent before they came back.
    owed: [u32; CLASSES],
    /// Message classes for which the transmitter has at least one credit.
    available: ClassSet,
    /// Credits that are on their way back from the receiver, ordered by time of arrival.
    returning: VecDeque<Returning>,
    /// Message or run that continues in the next flit to fill, and the number of its slots in that flit, in which it
    /// also ends.
    midway: Option<(Line, u32)>,
}

#[derive(Debug, Clone, Copy)]
struct Returning {
    at: Time,
    class: MessageClass,
    count: u32,
}

impl FlitTransmitter {
    /// Creates a transmitter of flits with `slots` slots. The transmission of a flit takes the time `flit` on this
    /// link, and the time `slowest` on the slowest link of the network. The transmitter has these `credits` for each
    /// class, and sends runs of at most `run` messages.
    pub fn new(
        (slots, flit, slowest): (u32, Time, Time),
        credits: [u32; CLASSES],
        run: u32,
    ) -> FlitTransmitter {
        FlitTransmitter {
            slots,
            flit,
            slowest,
            initial: credits,
            run,
            credits,
            owed: [0; CLASSES],
            available: ClassSet::of(|class| credits[class.index()] > 0),
            returning: VecDeque::new(),
            midway: None,
        }
    }

    /// Records that the receiver has freed `count` buffers of `class`. The credits for these buffers reach the
    /// transmitter at time `at`.
    pub fn handle_credits(&mut self, at: Time, class: MessageClass, count: u32) {
        let later = self.returning.iter().rev().take_while(|other| other.at > at).count();
        let place = self.returning.len() - later;
        match place.checked_sub(1).map(|before| &mut self.returning[before]) {
            Some(before) if before.at == at && before.class == class => before.count += count,
            _ => self.returning.insert(place, Returning { at, class, count }),
        }
    }

    /// Fills the flit that starts now. If a message or run does not fit into the flit, this also fills the following
    /// flits that contain only the rest of that message or run. Returns the start time of the next flit to fill, or
    /// `None` if there was no message to send.
    pub fn fill<F: Feed>(&mut self, now: Time, feed: &mut F) -> Option<Time> {
        self.learn_credits(now);
        let mut room = self.slots;
        if let Some((line, slots)) = self.midway.take() {
            room -= slots;
            feed.complete(line);
        }
        while room > 0 {
            let taken = self.slots - room;
            let Some(line) = feed.take(self.available, |class| self.affords(class, now)) else { break };
            let slots = line.class.slots() * u32::from(line.count);
            if line.count > 1 {
                let slots = FlitSlots::new(self.slots, taken, line.class);
                let credit = self.last_credit(&line);
                feed.begin(
                    line,
                    slots,
                    credit.saturating_sub(now + self.flit * slots.begins(u32::from(line.count) - 1)),
                );
            }
            self.spend(&line);
            if slots > room {
                return Some(now + self.flit * self.run_over(line, slots - room, F::KEEPS_PLACES));
            }
            room -= slots;
            feed.complete(line);
        }
        (room < self.slots).then(|| now + self.flit)
    }

    /// Places the remaining `slots` slots of `line`, a message or run, in the next flits. Returns the number of flits
    /// from the current flit to the next flit to fill. That is normally the flit in which `line` ends. If a run ends
    /// exactly at the end of a flit and the feed does not keep places, it is the following flit.
    fn run_over(&mut self, line: Line, slots: u32, keeps_places: bool) -> u64 {
        let full = (slots - 1) / self.slots;
        let rest = slots - full * self.slots;
        if rest == self.slots && line.count > 1 && !keeps_places {
            return u64::from(full) + 2;
        }
        self.midway = Some((line, rest));
        u64::from(full) + 1
    }

    /// Returns how many messages of a class the transmitter may send as one run. The credits that it has count. A
    /// credit on its way back also counts if it arrives in time for a link that sends data messages back to back at the
    /// rate of the slowest link. A run that has begun can wait for such credits.
    fn affords(&self, class: MessageClass, now: Time) -> u32 {
        let mut count = self.credits[class.index()];
        if count < self.run {
            let data = FlitSlots::new(self.slots, 0, MessageClass::Drs);
            for (at, more) in self.coming(class) {
                if count >= self.run || at > now + self.slowest * data.begins(count) {
                    break;
                }
                count += more;
            }
        }
        count.min(self.run)
    }

    /// Returns the credits of a class that are on their way back and were not spent in advance, as pairs of arrival
    /// time and number.
    fn coming(&self, class: MessageClass) -> impl Iterator<Item = (Time, u32)> {
        let mut owed = self.owed[class.index()];
        let of_class = self.returning.iter().filter(move |credit| credit.class == class);
        of_class.filter_map(move |credit| {
            let mine = credit.count.saturating_sub(owed);
            owed -= credit.count - mine;
            (mine > 0).then_some((credit.at, mine))
        })
    }

    /// Returns the time at which the last credit that `run` needs comes back, or zero if the transmitter already has
    /// all of them.
    fn last_credit(&self, run: &Line) -> Time {
        let mut missing = u32::from(run.count).saturating_sub(self.credits[run.class.index()]);
        let mut last = Time::ZERO;
        for (at, more) in self.coming(run.class) {
            if missing == 0 {
                break;
            }
            (last, missing) = (at, missing.saturating_sub(more));
        }
        last
    }

    fn spend(&mut self, line: &Line) {
        let (class, count) = (line.class.index(), u32::from(line.count));
        let here = self.credits[class];
        assert!(here > 0, "a message was sent without a credit");
        self.owed[class] += count.saturating_sub(here);
        self.credits[class] = here.saturating_sub(count);
        if self.credits[class] == 0 {
            self.available.remove(line.class);
        }
    }

    fn learn_credits(&mut self, now: Time) {
        while let Some(&Returning { at, class, count }) = self.returning.front()
            && at <= now
        {
            self.returning.pop_front();
            let owed = &mut self.owed[class.index()];
            let mine = count.saturating_sub(*owed);
            *owed -= count - mine;
            if mine > 0 {
                self.credits[class.index()] += mine;
                self.available.insert(class);
                assert!(self.credits[class.index()] <= self.initial[class.index()], "a credit was created");
            }
        }
    }

    /// Returns the message or run that has begun in an earlier flit and continues in the next flit to fill.
    pub fn midway(&self) -> Option<&Line> {
        self.midway.as_ref().map(|(line, _)| line)
    }

    /// Returns the earliest time at which returning credits change what the transmitter may send of one of `classes`.
    /// For a class that has some credits, but fewer than the longest run needs, this is the time at which such a run
    /// may begin. For any other class, it is the arrival of the next credit.
    pub fn next_credit(&self, classes: ClassSet) -> Option<Time> {
        let classes = MessageClass::ALL.into_iter().filter(|class| classes.contains(*class));
        classes.filter_map(|class| self.next_of(class)).min()
    }

    fn next_of(&self, class: MessageClass) -> Option<Time> {
        let mut count = self.credits[class.index()];
        if count == 0 || count >= self.run {
            return self.coming(class).next().map(|(at, _)| at);
        }
        let (data, mut begin) = (FlitSlots::new(self.slots, 0, MessageClass::Drs), Time::ZERO);
        for (at, more) in self.coming(class) {
            begin = begin.max(at.saturating_sub(self.slowest * data.begins(count)));
            count += more;
            if count >= self.run {
                return Some(begin);
            }
        }
        None
    }

    /// Returns the number of credits for `class` that the transmitter has or that are on their way back to it. All
    /// other credits of the class are held by messages that are being sent, are on the wire, or are in a buffer of the
    /// receiver.
    pub fn credits(&self, class: MessageClass) -> u32 {
        let returning = self.returning.iter().filter(|credit| credit.class == class);
        let returning: u32 = returning.map(|credit| credit.count).sum();
        self.credits[class.index()] + returning - self.owed[class.index()]
    }
}
