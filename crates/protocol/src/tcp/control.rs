//! How much may be in flight: the contract between a sender and its congestion control.

use unrack_units::Time;

/// An acknowledgement, as congestion control sees it.
#[derive(Debug, Clone, Copy)]
pub struct Acked {
    /// Segments newly known to have arrived.
    pub delivered: u32,
    /// The receiver echoed a congestion mark.
    pub marked: bool,
    /// First segment not yet acknowledged.
    pub una: u32,
    /// First segment not yet sent.
    pub next: u32,
    /// The window may grow: not on selective acknowledgements alone (RFC 5681 §3.2 step 1), nor while
    /// holes are filled (RFC 6675 §5), nor when it did not hold anything back in the last round trip,
    /// because the sender's own link is the bottleneck (RFC 7661 §4.4).
    pub may_grow: bool,
    pub now: Time,
    /// Since the copy of the segment was sent that this acknowledges.
    pub rtt: Time,
}

/// What was outstanding when a loss was noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outstanding {
    /// First segment not yet acknowledged.
    pub una: u32,
    /// First segment not yet sent.
    pub next: u32,
}

impl Outstanding {
    /// RFC 5681 §2: FlightSize.
    pub fn flight(&self) -> u32 {
        self.next - self.una
    }
}

/// A time in which a connection had nothing to send.
#[derive(Debug, Clone, Copy)]
pub struct Pause {
    /// When it ends.
    pub now: Time,
    /// Since it last sent a segment.
    pub time: Time,
    /// Retransmission timeouts that passed meanwhile.
    pub timeouts: u32,
    /// Segments that the connection was allowed when it was new.
    pub initial_window: u32,
}

impl Pause {
    /// RFC 5681 §4.1 starts again with the initial window after one timeout. As Linux, and RFC 2861 before: the window is
    /// halved for each, and slow start leads back to three quarters of what it was.
    pub fn shrink(&self, window: &mut f64, threshold: &mut f64) {
        if self.timeouts == 0 {
            return;
        }
        *threshold = threshold.max(0.75 * *window);
        let least = f64::from(self.initial_window).min(*window);
        *window = (*window * 0.5f64.powi(self.timeouts.min(64) as i32)).max(least);
    }
}

/// A congestion control: owns the window, told of every acknowledgement and loss.
pub trait Control {
    /// Segments that may be in flight.
    fn window(&self) -> u32;

    fn handle_ack(&mut self, ack: &Acked);

    /// A loss was inferred from selective acknowledgements; once per recovery.
    fn handle_loss(&mut self, lost: Outstanding);

    /// The retransmission timer ran out.
    fn handle_timeout(&mut self, lost: Outstanding);

    /// All has arrived, and another stream begins on the connection: segments are numbered from 0 again.
    fn resume(&mut self, pause: &Pause);
}
