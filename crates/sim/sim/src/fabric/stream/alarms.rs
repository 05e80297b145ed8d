//! Retransmission timers.

use super::kind::{Kind, SubflowsOf};
use super::turns::{flow, stream_of};
use super::{Event, Streams};
use crate::fabric::timers::{Alarm, Needs, Side};
use unrack_engine::events::{Core, Observer};
use unrack_protocol::tcp::{SendingEnd, SubflowSet};
use unrack_units::Time;

impl<K: Kind> Streams<K> {
    /// Sets the timers of these subflows.
    pub(in crate::fabric) fn set_timers<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        stream: u32,
        which: SubflowsOf<K>,
    ) {
        for subflow in which {
            self.set_timer(core, stream, subflow);
        }
    }

    fn set_timer<O: Observer>(&mut self, core: &mut Core<Event, O>, stream: u32, subflow: u32) {
        let place = &mut self.streams[stream];
        let earliest = &mut place.alarms.as_mut()[subflow as usize];
        let Some(at) = place.sender.poll_timeout(subflow).filter(|at| *at < *earliest) else { return };
        *earliest = at;
        let alarm = Alarm { owner: flow::<K>(stream, subflow), serial: place.serial, side: Side::Sender };
        let switch = self.plan.network.topology.switch_of(place.src);
        let needs = match K::SPLITS {
            true => self.timers[switch as usize].set(at, alarm),
            false => Needs::OwnEvent,
        };
        match needs {
            Needs::Nothing => {}
            Needs::QueueEvent => core.schedule(at, Event::Timers(switch)),
            Needs::OwnEvent => core.schedule(at, Event::Timer(alarm)),
        }
    }

    pub(super) fn expire_due<O: Observer>(&mut self, core: &mut Core<Event, O>, switch: u32) {
        while let Some(alarm) = self.timers[switch as usize].pop_due(core.now()) {
            self.expire(core, alarm);
        }
        let streams = &self.streams;
        let timers = &mut self.timers[switch as usize];
        // The place of a stream whose sender is done may still be kept.
        let is_live = |alarm: Alarm| {
            let stream = &streams[stream_of::<K>(alarm.owner).0];
            stream.serial == alarm.serial && !stream.sender.is_done()
        };
        if let Some(at) = timers.next(is_live) {
            core.schedule(at, Event::Timers(switch));
        }
    }

    pub(super) fn expire<O: Observer>(&mut self, core: &mut Core<Event, O>, alarm: Alarm) {
        let (stream, subflow) = stream_of::<K>(alarm.owner);
        let place = &mut self.streams[stream];
        // The place of a finished request may be kept for its answer.
        if place.serial != alarm.serial || place.sender.is_done() {
            return;
        }
        let earliest = &mut place.alarms.as_mut()[subflow as usize];
        if core.now() < *earliest {
            return;
        }
        *earliest = Time::MAX;
        place.sender.handle_timeout(core.now(), subflow);
        if place.sender.has_given_up() {
            return self.give_up(core, stream);
        }
        let all = place.sender.subflows();
        K::send(self, core, stream, all);
        self.set_timers(core, stream, SubflowsOf::<K>::only(subflow));
    }
}
