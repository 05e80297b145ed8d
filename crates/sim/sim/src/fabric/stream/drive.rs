//! Decisions of a kind of connection that concern all streams of a network: when a stream sends, and by which subflow.

use super::Streams;
use super::event::Event;
use super::kind::{Kind, SubflowsOf};
use unrack_engine::events::{Core, Observer};

/// A kind of connection that decides when its streams send.
pub(in crate::fabric) trait Drive: Kind {
    /// Sends the packets that a stream may send now. Only the subflows in `which`, and those that already wait for their turn, may have
    /// something to send. Subflows in `which` that have more to send afterwards wait for their turn.
    fn send<O: Observer>(
        streams: &mut Streams<Self>,
        core: &mut Core<Event, O>,
        stream: u32,
        which: SubflowsOf<Self>,
    );

    /// Gives a turn to a subflow that waited for it.
    fn turn<O: Observer>(streams: &mut Streams<Self>, core: &mut Core<Event, O>, stream: u32, subflow: u32);
}
