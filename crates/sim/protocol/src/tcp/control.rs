//! Interface between a TCP sender and its congestion control algorithm, which owns the congestion window.

use unrack_units::Time;

/// Acknowledgement, as congestion control sees it.
#[derive(Debug, Clone, Copy)]
pub struct Acked {
    /// Segments newly known to have arrived.
    pub delivered: u32,
    /// Whether the receiver echoed a congestion mark.
    pub marked: bool,
    /// First segment not yet acknowledged (SND.UNA of RFC 9293).
    pub una: u32,
    /// First segment not yet sent (SND.NXT of RFC 9293).
    pub next: u32,
    /// Whether the congestion window may grow. It may not grow in three cases: on selective acknowledgements alone (RFC 5681 §3.2 step 1);
    /// while the sender fills holes (RFC 6675 §5); and if the window did not limit the sender in the last round trip, because the sender's
    /// own link is the bottleneck (RFC 7661 §4.4).
    pub may_grow: bool,
    pub now: Time,
    /// Round-trip time of the acknowledged segment, from the sending of the copy that arrived to this acknowledgement.
    pub rtt: Time,
}

/// Segments that were sent but not acknowledged when the sender detected a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outstanding {
    /// First segment not yet acknowledged (SND.UNA of RFC 9293).
    pub una: u32,
    /// First segment not yet sent (SND.NXT of RFC 9293).
    pub next: u32,
}

impl Outstanding {
    /// Returns the FlightSize of RFC 5681 §2, in segments.
    pub fn flight(&self) -> u32 {
        self.next - self.una
    }
}

/// Period in which a connection sent nothing, between two streams.
#[derive(Debug, Clone, Copy)]
pub struct IdlePeriod {
    /// End of the period.
    pub now: Time,
    /// Time since the connection last sent a segment.
    pub time: Time,
    /// Number of retransmission timeouts that fit into the period.
    pub timeouts: u32,
    /// Initial window: number of segments that the connection could send when it was new (IW of RFC 5681 §2).
    pub initial_window: u32,
}

impl IdlePeriod {
    /// Shrinks the congestion window after an idle period. RFC 5681 §4.1 starts again with the initial window if the period is longer than
    /// one retransmission timeout. Here the window is halved for each timeout that fits into the period, as in Linux and RFC 2861. Slow
    /// start then leads back to three quarters of the former window.
    pub fn shrink(&self, cwnd: &mut f64, ssthresh: &mut f64) {
        if self.timeouts == 0 {
            return;
        }
        *ssthresh = ssthresh.max(0.75 * *cwnd);
        let least = f64::from(self.initial_window).min(*cwnd);
        *cwnd = (*cwnd * 0.5f64.powi(self.timeouts.min(64) as i32)).max(least);
    }
}

/// Congestion control algorithm. It owns the congestion window of a sender. The sender reports every acknowledgement and loss to the
/// algorithm.
pub trait CongestionControl {
    /// Returns the congestion window (cwnd of RFC 5681 §2): the maximum number of whole segments in flight.
    fn cwnd(&self) -> u32;

    /// Handles an acknowledgement.
    fn handle_ack(&mut self, ack: &Acked);

    /// Handles a loss that the sender has inferred from selective acknowledgements. The sender calls this once per fast recovery.
    fn handle_loss(&mut self, lost: Outstanding);

    /// Handles a retransmission timeout.
    fn handle_timeout(&mut self, lost: Outstanding);

    /// Prepares for the next stream on the same connection, after all segments of the previous stream have arrived. The segments of the
    /// next stream are numbered from 0 again.
    fn resume(&mut self, pause: &IdlePeriod);
}
