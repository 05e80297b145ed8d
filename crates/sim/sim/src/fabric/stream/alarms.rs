//! Retransmission timers of streams.

use super::event::Event;
use super::kind::{Kind, SubflowsOf};
use super::open::{OpenStreams, flow, stream_of};
use crate::fabric::timers::{Alarm, Needs, Timers, TransferSide};
use unrack_engine::events::{Core, Observer};
use unrack_engine::topology::Topology;
use unrack_protocol::tcp::SendingEnd;
use unrack_units::Time;

/// Timers of the nodes of each switch, by switch ([`Kind::SPLITS`]).
pub(super) struct Alarms(Vec<Timers>);

impl Alarms {
    pub(super) fn new(switches: u32) -> Alarms {
        Alarms((0..switches).map(|_| Timers::default()).collect())
    }

    /// Sets the timers of these subflows to the deadlines of the sender.
    pub(super) fn set<K: Kind, O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        topology: &Topology,
        open: &mut OpenStreams<K>,
        stream: u32,
        which: SubflowsOf<K>,
    ) {
        let place = &mut open[stream];
        for subflow in which {
            let earliest = &mut place.alarms.as_mut()[subflow as usize];
            let Some(at) = place.sender.poll_timeout(subflow).filter(|at| *at < *earliest) else { continue };
            *earliest = at;
            let alarm =
                Alarm { owner: flow::<K>(stream, subflow), serial: place.serial, side: TransferSide::Sender };
            let switch = topology.switch_of(place.src);
            let needs = match K::SPLITS {
                true => self.0[switch as usize].set(at, alarm),
                false => Needs::OwnEvent,
            };
            match needs {
                Needs::Nothing => {}
                Needs::QueueEvent => core.schedule(at, Event::Timers(switch)),
                Needs::OwnEvent => core.schedule(at, Event::Timer(alarm)),
            }
        }
    }

    /// Removes and returns the next due timer of the nodes of a switch.
    pub(super) fn pop_due(&mut self, switch: u32, now: Time) -> Option<Alarm> {
        self.0[switch as usize].pop_due(now)
    }

    /// Schedules the next timer of the nodes of a switch, if there is one.
    pub(super) fn schedule_next<K: Kind, O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        open: &OpenStreams<K>,
        switch: u32,
    ) {
        // The stream may still be stored although its sender has finished.
        let is_live = |alarm: Alarm| {
            let stream = &open[stream_of::<K>(alarm.owner).0];
            stream.serial == alarm.serial && !stream.sender.is_done()
        };
        if let Some(at) = self.0[switch as usize].next(is_live) {
            core.schedule(at, Event::Timers(switch));
        }
    }
}

/// Lets the sender of a stream handle an expired timer. Returns the stream and its subflow, or `None` if the timer has been set again since
/// or the sender has finished.
pub(super) fn expire<K: Kind>(open: &mut OpenStreams<K>, alarm: Alarm, now: Time) -> Option<(u32, u32)> {
    let (stream, subflow) = stream_of::<K>(alarm.owner);
    let place = &mut open[stream];
    // A finished request may still be stored for its answer.
    if place.serial != alarm.serial || place.sender.is_done() {
        return None;
    }
    let earliest = &mut place.alarms.as_mut()[subflow as usize];
    if now < *earliest {
        return None;
    }
    *earliest = Time::MAX;
    place.sender.handle_timeout(now, subflow);
    Some((stream, subflow))
}
