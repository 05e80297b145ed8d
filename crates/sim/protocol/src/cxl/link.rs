//! Sending end of a link.

use super::{CLASSES, ClassSet, FlitSlots, Line, MessageClass};
use std::collections::VecDeque;
use unrack_units::Time;

/// Source of a transmitter's messages.
pub trait Feed {
    /// Whether a message keeps its place until its last slot is sent. If so, the feed has to be notified of that time.
    const KEEPS_PLACES: bool;

    /// Returns the next message of a class in `allowed`, or a run of at most as many messages as there are credits
    /// for. If the feed keeps places, [`complete`](Feed::complete) follows when the last slot is placed.
    fn take(&mut self, allowed: ClassSet, credits: impl Fn(MessageClass) -> u32) -> Option<Line>;
    /// Notifies the feed that the run taken last, of several lines, begins in the flit that is being filled. `slots`
    /// gives the flits that the run takes, and `late` is how much later the last line can begin because it has to wait
    /// for a credit.
    fn begin(&mut self, run: Line, slots: FlitSlots, late: Time);
    /// Notifies the feed that the message taken last ends in the flit that is being filled.
    fn complete(&mut self, line: Line);
}

/// Fills flits with messages, as far as credits allow.
///
/// A flit is filled when it starts. If not all slots of a message fit, the message continues in the next flit before
/// any other message (CXL 3.x §4.2: data follows its header). Messages that arrive during a flit wait for the next
/// one. If a run of lines fills several flits alone, these are filled at once, also with credits that are known to
/// come back in time.
///
/// | calls | functions |
/// |---|---|
/// | report an event | [`handle_credits`](FlitTransmitter::handle_credits) |
/// | ask for the next action | [`fill`](FlitTransmitter::fill), at the start of a flit |
/// | query the state | [`midway`](FlitTransmitter::midway), [`next_credit`](FlitTransmitter::next_credit), [`credits`](FlitTransmitter::credits) |
#[derive(Debug, Clone)]
pub struct FlitTransmitter {
    slots: u32,
    /// Transmission time of a flit on this link, and on the slowest link.
    flit: Time,
    slowest: Time,
    initial: u32,
    run: u32,
    credits: [u32; CLASSES],
    /// Credits of each class that were spent before they came back.
    owed: [u32; CLASSES],
    /// Classes with credits.
    available: ClassSet,
    /// Credits on their way back, by time of arrival.
    returning: VecDeque<Returning>,
    /// Message that is being sent, and the number of its slots in the flit in which it ends.
    midway: Option<(Line, u32)>,
}

#[derive(Debug, Clone, Copy)]
struct Returning {
    at: Time,
    class: MessageClass,
    count: u32,
}

impl FlitTransmitter {
    /// Creates a transmitter of flits with `slots` slots, each of which takes `flit` on this link and `slowest` on the
    /// slowest one. It has `credits` for each class, and sends runs of at most `run` lines.
    pub fn new((slots, flit, slowest): (u32, Time, Time), credits: u32, run: u32) -> FlitTransmitter {
        FlitTransmitter {
            slots,
            flit,
            slowest,
            initial: credits,
            run,
            credits: [credits; CLASSES],
            owed: [0; CLASSES],
            available: if credits > 0 { ClassSet::ALL } else { ClassSet::NONE },
            returning: VecDeque::new(),
            midway: None,
        }
    }

    /// Records that `count` buffers of the receiver become free, which the sender learns at time `at`.
    pub fn handle_credits(&mut self, at: Time, class: MessageClass, count: u32) {
        let later = self.returning.iter().rev().take_while(|other| other.at > at).count();
        let place = self.returning.len() - later;
        match place.checked_sub(1).map(|before| &mut self.returning[before]) {
            Some(before) if before.at == at && before.class == class => before.count += count,
            _ => self.returning.insert(place, Returning { at, class, count }),
        }
    }

    /// Fills the flit that starts now, and the following flits that contain only lines of one run. Returns the start
    /// of the next flit to fill, or `None` if there was nothing to send.
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

    /// Continues a message that has `slots` left in the next flits. Returns how many flits it is until the next one to
    /// fill, which is the one in which the message ends.
    fn run_over(&mut self, line: Line, slots: u32, keeps_places: bool) -> u64 {
        let full = (slots - 1) / self.slots;
        let rest = slots - full * self.slots;
        if rest == self.slots && line.count > 1 && !keeps_places {
            return u64::from(full) + 2;
        }
        self.midway = Some((line, rest));
        u64::from(full) + 1
    }

    /// Returns how many messages of a class can be sent with the credits that are here, or that come back as fast as
    /// the slowest link takes lines of data. A run can wait for such credits on its way.
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

    /// Returns the credits of a class that come back and are not spent yet, as pairs of time and number.
    fn coming(&self, class: MessageClass) -> impl Iterator<Item = (Time, u32)> {
        let mut owed = self.owed[class.index()];
        let of_class = self.returning.iter().filter(move |credit| credit.class == class);
        of_class.filter_map(move |credit| {
            let mine = credit.count.saturating_sub(owed);
            owed -= credit.count - mine;
            (mine > 0).then_some((credit.at, mine))
        })
    }

    /// Returns the time at which the last credit for a run is here, or zero if all are here now.
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
                assert!(self.credits[class.index()] <= self.initial, "a credit was created");
            }
        }
    }

    /// Returns the message that has begun but not ended.
    pub fn midway(&self) -> Option<&Line> {
        self.midway.as_ref().map(|(line, _)| line)
    }

    /// Returns when the next credit for one of `classes` comes back. For a class that has some credits, returns when
    /// there are enough of them for a run of any length.
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

    /// Returns the number of credits for `class` that are here or on their way back. All other credits belong to
    /// messages that are being sent, on the wire, or in a buffer of the receiver.
    pub fn credits(&self, class: MessageClass) -> u32 {
        let returning = self.returning.iter().filter(|credit| credit.class == class);
        let returning: u32 = returning.map(|credit| credit.count).sum();
        self.credits[class.index()] + returning - self.owed[class.index()]
    }
}
