//! Open streams: the state of each stream, the number of references to it, and when it is freed.

use super::StreamPlan;
use super::kind::{Kind, RestingOf, SignalOf, SubflowsOf};
use super::names::transfer_name;
use super::packet::Parcel;
use crate::fabric::parts::NetworkPart;
use crate::fabric::pool::Pool;
use crate::fabric::slab::Slab;
use crate::fabric::timers::TransferSide;
use std::ops::{Index, IndexMut};
use unrack_hosts::StreamReading;
use unrack_protocol::tcp::{SendingEnd, SubflowSet};
use unrack_units::Time;
use unrack_workload::{Endpoints, MessageId, NodeId};

pub(in crate::fabric) struct Stream<K: Kind> {
    pub(in crate::fabric) id: MessageId,
    pub(super) src: NodeId,
    pub(super) dst: NodeId,
    pub(super) role: StreamRole,
    pub(super) bytes: u64,
    pub(super) segments: u32,
    /// Name by which both ends know the stream.
    pub(super) name: u32,
    /// Hash of the first subflow, which selects one of several equal-cost paths. The other subflows have the hashes that follow.
    pub(super) hash: u32,
    /// Number of data packets sent so far, if packets take equal-cost paths in turn.
    pub(super) sprayed: u32,
    /// Serial number that distinguishes the stream from others with the same index.
    pub(super) serial: u32,
    /// Number of packets in flight, plus one if the answer to this request is open.
    pub(super) references: i32,
    /// Subflows that wait for their turn at the sender's links.
    pub(in crate::fabric) waiting: SubflowsOf<K>,
    /// Whether the sender has finished.
    pub(super) closed: bool,
    /// Time of the earliest timer that is set, by subflow.
    pub(super) alarms: K::Alarms,
    /// Request that this stream answers. The request is kept as long as the stream.
    pub(super) answers: Option<u32>,
    pub(in crate::fabric) sender: K::Sender,
    pub(super) receiver: K::Receiver,
    pub(super) reading: StreamReading,
}

/// Connection that no stream uses at present.
struct IdleConnection<K: Kind> {
    hash: u32,
    sprayed: u32,
    sender: RestingOf<K>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamRole {
    /// Carries the data of a message. The message is complete when the stream has arrived.
    Data,
    /// Carries a request. The answer is opened when the request has arrived.
    Request,
    /// Carries an answer to the request with this index. The first packet of the answer that arrives acknowledges the request.
    Answer(u32),
}

impl<K: Kind> Stream<K> {
    /// Returns the hash that selects one of several equal-cost paths for the next data packet of a subflow.
    pub(super) fn hash(&self, subflow: u32) -> u32 {
        self.hash_unsprayed(subflow).wrapping_add(self.sprayed)
    }

    /// Returns the hash that selects the path of a subflow whose packets all take the same path.
    pub(super) fn hash_unsprayed(&self, subflow: u32) -> u32 {
        self.hash.wrapping_add(subflow)
    }
}

/// Returns the number of a subflow among the subflows of all streams.
pub(super) fn flow<K: Kind>(stream: u32, subflow: u32) -> u32 {
    stream * SubflowsOf::<K>::MOST + subflow
}

/// Returns the stream and the subflow for a number that [`flow`] returned.
pub(super) fn stream_of<K: Kind>(flow: u32) -> (u32, u32) {
    (flow / SubflowsOf::<K>::MOST, flow % SubflowsOf::<K>::MOST)
}

/// All open streams of a network, by index.
pub(in crate::fabric) struct OpenStreams<K: Kind> {
    pub(super) kind: K,
    places: Slab<Stream<K>>,
    /// Number of streams opened so far, from which serial numbers are derived.
    opened: u32,
    /// Idle connections, if connections are kept.
    idle: Option<Pool<IdleConnection<K>>>,
    /// State of this part, in a split run.
    pub(super) part: Option<Box<NetworkPart<Parcel<SignalOf<K>>>>>,
}

impl<K: Kind> Index<u32> for OpenStreams<K> {
    type Output = Stream<K>;
    #[inline]
    fn index(&self, stream: u32) -> &Stream<K> {
        &self.places[stream]
    }
}

impl<K: Kind> IndexMut<u32> for OpenStreams<K> {
    #[inline]
    fn index_mut(&mut self, stream: u32) -> &mut Stream<K> {
        &mut self.places[stream]
    }
}

impl<K: Kind> OpenStreams<K> {
    /// Creates the state of a network without open streams. `kept`: whether connections are kept between streams.
    pub(super) fn new(kind: K, kept: bool) -> OpenStreams<K> {
        OpenStreams { kind, places: Slab::new(), opened: 0, idle: kept.then(Pool::new), part: None }
    }

    /// Returns whether no stream is open.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.places.used() == 0
    }

    /// Returns the streams by which a node sends.
    pub(super) fn of_sender(&self, node: NodeId) -> Vec<u32> {
        // The serial number of a free index is 0.
        let is_open = |stream: &u32| {
            let place = &self.places[*stream];
            place.serial != 0 && !place.closed && place.src == node
        };
        self.places.indices().filter(is_open).collect()
    }

    /// Opens a stream of a message, and returns its index.
    pub(super) fn create(
        &mut self,
        plan: &StreamPlan,
        id: MessageId,
        ends: Endpoints,
        bytes: u64,
        role: StreamRole,
    ) -> u32 {
        let Endpoints { src, dst } = ends;
        let segments = plan.framing.segments(bytes);
        let subflows = self.kind.subflows(&plan.network, ends);
        self.opened = self.opened.wrapping_add(1).max(1);
        let name = transfer_name(id, matches!(role, StreamRole::Answer(_)));
        let stream = self.places.insert(Stream {
            id,
            src,
            dst,
            role,
            bytes,
            segments,
            name,
            hash: K::hash(name),
            sprayed: 0,
            serial: self.opened,
            references: 0,
            waiting: SubflowsOf::<K>::default(),
            closed: false,
            alarms: K::alarms(subflows),
            answers: None,
            sender: self.kind.sender(subflows, segments, plan.salt(name, TransferSide::Sender)),
            receiver: K::receiver(subflows),
            reading: StreamReading::default(),
        });
        if let Some(part) = &mut self.part {
            part.keep(name, stream);
        }
        stream
    }

    /// Lets a new stream use the idle connection between its ends, if there is one.
    pub(super) fn resume(&mut self, stream: u32, now: Time) {
        let place = &mut self.places[stream];
        let ends = Endpoints { src: place.src, dst: place.dst };
        if let Some(kept) = self.idle.as_mut().and_then(|idle| idle.take(ends)) {
            (place.hash, place.sprayed) = (kept.hash, kept.sprayed);
            place.sender = self.kind.resume(kept.sender, now, place.segments);
        }
    }

    /// Records that a stream carries the answer to a request, so that the request is kept as long as the stream.
    pub(super) fn answers(&mut self, stream: u32, request: u32) {
        self.places[stream].answers = Some(request);
        self.places[request].references += 1;
    }

    pub(super) fn drop_reference(&mut self, stream: u32) {
        self.places[stream].references -= 1;
        self.free_if_over(stream);
    }

    /// Closes a stream whose sender has finished, and frees its index when no references are left.
    pub(in crate::fabric) fn free_if_over(&mut self, stream: u32) {
        let place = &mut self.places[stream];
        let waits = !place.waiting.is_empty();
        // Some of several subflows may wait for their links long after the other subflows have sent all segments.
        if !place.sender.is_done() || waits && SubflowsOf::<K>::MOST == 1 {
            return;
        }
        let closes = !std::mem::replace(&mut place.closed, true);
        if closes
            && let Some(idle) = &mut self.idle
            && let Some(sender) = place.sender.rest()
        {
            idle.put(
                Endpoints { src: place.src, dst: place.dst },
                IdleConnection { hash: place.hash, sprayed: place.sprayed, sender },
            );
        }
        if let Some(part) = &mut self.part {
            if closes {
                part.closed.push(place.name);
            }
        } else if place.references == 0 && !waits {
            self.release(stream);
        }
    }

    /// Frees the index of a stream for another stream.
    pub(super) fn release(&mut self, stream: u32) {
        let place = &mut self.places[stream];
        place.serial = 0;
        let answers = place.answers.take();
        self.places.release(stream);
        if let Some(request) = answers {
            self.drop_reference(request);
        }
    }
}
