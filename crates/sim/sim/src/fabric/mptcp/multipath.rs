//! Streams with several subflows: which subflows send by which links.

use crate::fabric::stream::drive::Drive;
use crate::fabric::stream::kind::Kind;
use crate::fabric::stream::{Event, Streams, flow_hash};
use unrack_engine::events::{Core, Observer, WaitReason};
use unrack_engine::network::Network;
use unrack_protocol::mptcp::{Params, Receiver, Resting, Sender, Subflows};
use unrack_protocol::tcp::{SendingEnd, SubflowSet, Timeouts};
use unrack_units::Time;
use unrack_workload::Endpoints;

/// Connections with several subflows between racks, and with one subflow inside a rack.
#[derive(Clone)]
pub(in crate::fabric) struct Multipath {
    pub params: Params,
    pub timeouts: Timeouts,
    /// Number of subflows of a connection between racks.
    pub subflows: u32,
}

impl Kind for Multipath {
    type Sender = Sender;
    type Receiver = Receiver;
    type Alarms = Vec<Time>;

    const SPLITS: bool = false;

    fn subflows(&self, network: &Network, Endpoints { src, dst }: Endpoints) -> u32 {
        let between = network.topology.switch_of(src) != network.topology.switch_of(dst);
        if between { self.subflows } else { 1 }
    }
    fn sender(&self, subflows: u32, segments: u32, salt: u32) -> Sender {
        Sender::new(&self.params, subflows, self.timeouts.with_salt(salt), segments)
    }
    fn resume(&self, resting: Resting, now: Time, segments: u32) -> Sender {
        Sender::resume(&self.params, resting, now, segments)
    }
    fn receiver(subflows: u32) -> Receiver {
        Receiver::new(subflows)
    }
    fn alarms(subflows: u32) -> Vec<Time> {
        vec![Time::MAX; subflows as usize]
    }
    fn hash(name: u32) -> u32 {
        // Use half of the range, so that the hashes that follow are the next numbers without overflow.
        flow_hash(name) >> 1
    }
}

impl Drive for Multipath {
    /// Sends as many segments as the links of these subflows accept at once. Subflows with more to send wait for their turn.
    fn send<O: Observer>(
        streams: &mut Streams<Self>,
        core: &mut Core<Event, O>,
        stream: u32,
        which: Subflows,
    ) {
        let (now, mut nics, mut open) = (core.now(), [0; Subflows::MOST as usize], Subflows::NONE);
        let free = which.without(streams.open[stream].waiting);
        for k in free {
            let nic = streams.nic_of(now, stream, k);
            nics[k as usize] = nic;
            open.set(k, streams.is_open(now, stream, nic));
        }
        while let Some(sent) = streams.send_one(core, stream, open) {
            let nic = nics[sent as usize];
            for k in open.filter(|k| nics[*k as usize] == nic) {
                open.set(k, streams.is_open(now, stream, nic));
            }
        }
        let in_host = streams.hosts.is_some();
        core.waits(
            streams.open[stream].id,
            || if in_host { WaitReason::Nothing } else { WaitReason::Window },
        );
        for k in free {
            if streams.open[stream].sender.wants(k) && !streams.is_paused(stream) {
                streams.wait(core, stream, k, nics[k as usize]);
            }
        }
        streams.set_timers(core, stream, which);
    }

    fn turn<O: Observer>(streams: &mut Streams<Self>, core: &mut Core<Event, O>, stream: u32, subflow: u32) {
        streams.open[stream].waiting.set(subflow, false);
        if streams.send_quantum(core, stream, subflow) {
            let nic = streams.nic_of(core.now(), stream, subflow);
            streams.wait(core, stream, subflow, nic);
        } else {
            core.waits(streams.open[stream].id, || WaitReason::Window);
        }
        streams.open.free_if_over(stream);
    }
}
