//! Retransmission timers.

use super::{Event, Streams};
use crate::engine::{Core, Observer};
use crate::fabric::timers::{Alarm, Needs, Side};
use unrack_protocol::tcp::Control;
use unrack_units::Time;

impl<C: Control + Clone> Streams<C> {
    pub(super) fn set_timer<O: Observer>(&mut self, core: &mut Core<Event, O>, stream: u32) {
        let place = &mut self.streams[stream];
        let Some(at) = place.sender.poll_timeout().filter(|at| *at < place.alarm) else { return };
        place.alarm = at;
        let alarm = Alarm { owner: stream, serial: place.serial, side: Side::Sender };
        let switch = self.plan.network.topology.switch_of(place.src);
        match self.timers[switch as usize].set(at, alarm) {
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
            let stream = &streams[alarm.owner];
            stream.serial == alarm.serial && !stream.sender.is_done()
        };
        if let Some(at) = timers.next(is_live) {
            core.schedule(at, Event::Timers(switch));
        }
    }

    pub(super) fn expire<O: Observer>(&mut self, core: &mut Core<Event, O>, alarm: Alarm) {
        let stream = &mut self.streams[alarm.owner];
        if stream.serial != alarm.serial || core.now() < stream.alarm {
            return;
        }
        stream.alarm = Time::MAX;
        stream.sender.handle_timeout(core.now());
        if stream.sender.has_given_up() {
            return self.give_up(core, alarm.owner);
        }
        self.send(core, alarm.owner);
        self.set_timer(core, alarm.owner);
    }
}
