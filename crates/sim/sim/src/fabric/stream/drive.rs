//! Decisions that a kind of connection takes over all streams of a network: when a stream sends, and by which subflow.

use super::Streams;
use super::event::Event;
use super::kind::{Kind, SubflowsOf};
use unrack_engine::events::{Core, Observer};

/// A kind of connection that says when its streams send.
pub(in crate::fabric) trait Drive: Kind {
    /// Sends what a stream may send now. Of its subflows, only `which` may have something to send, and those that wait
    /// for their turn already; which wait for it afterwards if there is more.
    fn send<O: Observer>(
        streams: &mut Streams<Self>,
        core: &mut Core<Event, O>,
        stream: u32,
        which: SubflowsOf<Self>,
    );

    /// Gives a subflow that waited its turn.
    fn turn<O: Observer>(streams: &mut Streams<Self>, core: &mut Core<Event, O>, stream: u32, subflow: u32);
}
