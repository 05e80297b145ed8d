//! Kinds of connections for streams: with one subflow ([`super::single`]) or several ([`crate::fabric::mptcp`]).

use super::names::flow_hash;
use unrack_engine::network::Network;
use unrack_protocol::tcp::{ReceivingEnd, SendingEnd};
use unrack_units::Time;
use unrack_workload::Endpoints;

/// A kind of connection, with the parameters of new connections.
pub(in crate::fabric) trait Kind: Clone {
    type Sender: SendingEnd;
    type Receiver: ReceivingEnd<Signal = SignalOf<Self>>;
    /// One time for each subflow of a stream.
    type Alarms: AsMut<[Time]>;

    /// Whether a run can be split by switch. If so, events at the same instant are ordered by their ties, and each switch has a queue of
    /// timers. If not, events at the same instant are ordered as they were scheduled.
    const SPLITS: bool;

    /// Returns the number of subflows of a connection between two nodes.
    fn subflows(&self, network: &Network, ends: Endpoints) -> u32;

    /// Creates the sender of the first stream of a new connection. `salt` is the salt of its timeouts.
    fn sender(&self, subflows: u32, segments: u32, salt: u32) -> Self::Sender;

    /// Creates the sender of the next stream of a connection.
    fn resume(&self, resting: RestingOf<Self>, now: Time, segments: u32) -> Self::Sender;

    /// Creates the receiver of a stream.
    fn receiver(subflows: u32) -> Self::Receiver;

    /// Returns alarms that are all unset, for a new stream.
    fn alarms(subflows: u32) -> Self::Alarms;

    /// Returns the hash of the first subflow of a new connection. The other subflows have the hashes that follow.
    fn hash(name: u32) -> u32 {
        flow_hash(name)
    }
}

pub(in crate::fabric) type SubflowsOf<K> = <<K as Kind>::Sender as SendingEnd>::Subflows;
pub(in crate::fabric) type SignalOf<K> = <<K as Kind>::Sender as SendingEnd>::Signal;
pub(in crate::fabric) type RestingOf<K> = <<K as Kind>::Sender as SendingEnd>::Resting;
