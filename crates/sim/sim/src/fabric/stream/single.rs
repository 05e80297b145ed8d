//! Streams with one subflow: TCP with one congestion control.

use super::drive::Drive;
use super::kind::Kind;
use super::{Event, StreamPlan, Streams};
use crate::fabric::single_message::MOST_SIMULATED;
use unrack_engine::events::{Core, Observer, WaitReason};
use unrack_engine::network::Network;
use unrack_protocol::tcp::{CongestionControl, OneSubflow, Receiver, Resting, Sender, SubflowSet, Timeouts};
use unrack_units::Time;
use unrack_workload::{Endpoints, Message};

/// Connections with one subflow.
#[derive(Clone)]
pub(in crate::fabric) struct Single<C> {
    /// Initial state of the congestion control of a new connection.
    pub fresh: C,
    pub timeouts: Timeouts,
}

impl<C: CongestionControl + Clone> Kind for Single<C> {
    type Sender = Sender<C>;
    type Receiver = Receiver;
    type Alarms = [Time; 1];

    const SPLITS: bool = true;

    fn subflows(&self, _: &Network, _: Endpoints) -> u32 {
        1
    }
    fn sender(&self, _: u32, segments: u32, salt: u32) -> Sender<C> {
        Sender::new(self.fresh.clone(), self.timeouts.with_salt(salt), segments)
    }
    fn resume(&self, resting: Resting<C>, now: Time, segments: u32) -> Sender<C> {
        resting.resume(now, segments)
    }
    fn receiver(_: u32) -> Receiver {
        Receiver::new(1, Time::ZERO)
    }
    fn alarms(_: u32) -> [Time; 1] {
        [Time::MAX]
    }
}

impl<C: CongestionControl + Clone> Drive for Single<C> {
    fn send<O: Observer>(streams: &mut Streams<Self>, core: &mut Core<Event, O>, stream: u32, _: OneSubflow) {
        let place = &mut streams.open[stream];
        if !place.waiting.is_empty() || !place.sender.is_ready() {
            return;
        }
        // After its turn, a stream may send again at once in two cases: with hosts, as long as the host queue has room; and with spraying,
        // because the next packet takes another path and may use another link.
        let goes_on = streams.hosts.is_some() || streams.plan.spraying;
        loop {
            let nic = streams.nic_of(core.now(), stream, 0);
            let open = streams.is_open(core.now(), stream, nic);
            if open && !take_quantum(streams, core, stream) {
                return;
            }
            if !open || !goes_on {
                return streams.wait(core, stream, 0, nic);
            }
        }
    }

    fn turn<O: Observer>(streams: &mut Streams<Self>, core: &mut Core<Event, O>, stream: u32, _: u32) {
        streams.open[stream].waiting = OneSubflow::default();
        if !take_quantum(streams, core, stream) {
            return streams.open.free_if_over(stream);
        }
        if streams.hosts.is_some() {
            Self::send(streams, core, stream, OneSubflow::only(0));
            return streams.open.free_if_over(stream);
        }
        let nic = streams.nic_of(core.now(), stream, 0);
        streams.wait(core, stream, 0, nic);
    }
}

/// Sends up to one quantum. Returns whether there is more to send.
fn take_quantum<C: CongestionControl + Clone, O: Observer>(
    streams: &mut Streams<Single<C>>,
    core: &mut Core<Event, O>,
    stream: u32,
) -> bool {
    let more = streams.send_quantum(core, stream, 0);
    let in_host = streams.hosts.is_some();
    core.waits(streams.open[stream].id, || if in_host { WaitReason::Nothing } else { WaitReason::Window });
    more
}

/// Returns the completion time of a message that is alone, in closed form if there is one.
pub(in crate::fabric) fn unloaded<C: CongestionControl + Clone>(
    streams: &Streams<Single<C>>,
    message: &Message,
) -> Time {
    // The time depends on earlier messages, so a bound that holds for all of them is returned.
    if streams.plan.kept {
        return streams.plan.network.ideal(message);
    }
    if streams.plan.spraying || streams.hosts.is_some() || queues_alone(&streams.plan, message) {
        return streams.carried_alone(message);
    }
    let alone = streams.plan.alone(message.src, message.dst);
    let request =
        if message.kind.is_answered() { alone.stream(u64::from(message.request)) } else { Time::ZERO };
    // If nodes forward for each other and the message is too long to be simulated, the result is only a bound.
    (request + alone.stream(message.bytes)).max(streams.plan.network.ideal(message))
}

/// Returns whether packets of a message that is alone may queue behind each other, and so be marked or dropped. This happens where nodes
/// forward for each other, because a node sends at the rate of all its links, but a path has the rate of one link. (Returns false for a
/// very long message.)
fn queues_alone(plan: &StreamPlan, message: &Message) -> bool {
    let (topology, segments) = (&plan.network.topology, plan.framing.segments(message.bytes));
    (topology.is_uneven() || topology.graph().is_some() && segments > 1) && segments <= MOST_SIMULATED
}

/// Implements `Fabric` and `Split` for a struct whose field `streams` has streams with one subflow.
macro_rules! fabric_of_streams {
    ($fabric:ident) => {
        impl $crate::Fabric for $fabric {
            type Event = $crate::fabric::stream::Event;

            fn submit<O: $crate::Observer>(
                &mut self,
                core: &mut $crate::Core<Self::Event, O>,
                id: unrack_workload::MessageId,
            ) {
                self.streams.submit(core, id);
            }
            fn handle<O: $crate::Observer>(
                &mut self,
                core: &mut $crate::Core<Self::Event, O>,
                event: Self::Event,
            ) {
                self.streams.handle(core, event);
            }
            fn compute<O: $crate::Observer>(
                &mut self,
                core: &mut $crate::Core<Self::Event, O>,
                computing: unrack_workload::Computing,
            ) {
                self.streams.compute(core, computing);
            }
            fn pause<O: $crate::Observer>(
                &mut self,
                core: &mut $crate::Core<Self::Event, O>,
                node: unrack_workload::NodeId,
                is_paused: bool,
            ) {
                self.streams.pause(core, node, is_paused);
            }
            fn unloaded(&self, message: &unrack_workload::Message) -> unrack_units::Time {
                $crate::fabric::stream::single::unloaded(&self.streams, message)
            }
            fn draws_routes(&self) -> bool {
                self.streams.plan.network.topology.is_uneven()
            }
            fn largest(&self) -> Option<unrack_engine::Largest> {
                Some(self.streams.largest())
            }
            fn hosts(&self) -> Option<unrack_engine::HostCounts> {
                self.streams.host_counts()
            }
            fn lookahead(&self) -> unrack_units::Time {
                self.streams.lookahead()
            }
        }

        $crate::fabric::split_by_switch!(
            $fabric,
            streams,
            $crate::fabric::stream::Event,
            $crate::fabric::stream::Parcel
        );
    };
}
pub(in crate::fabric) use fabric_of_streams;
