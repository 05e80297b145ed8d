//! Congestion control: the interface between a sender and the algorithm that owns its window.

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
    /// Whether the window may grow. It may not grow on selective acknowledgements alone (RFC 5681 §3.2 step 1), nor
    /// while holes are filled (RFC 6675 §5), nor if the window was not the limit in the last round trip because the
    /// sender's own link is the bottleneck (RFC 7661 §4.4).
    pub may_grow: bool,
    pub now: Time,
    /// Round-trip time, counted from when the acknowledged copy of the segment was sent.
    pub rtt: Time,
}

/// Segments outstanding when a loss was noticed.
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

/// Period in which a connection had nothing to send.
#[derive(Debug, Clone, Copy)]
pub struct IdlePeriod {
    /// End of the period.
    pub now: Time,
    /// Time since the connection last sent a segment.
    pub time: Time,
    /// Number of retransmission timeouts that fit into the period.
    pub timeouts: u32,
    /// Segments that the connection could send when it was new (IW of RFC 5681 §2).
    pub initial_window: u32,
}

impl IdlePeriod {
    /// Shrinks a window after a pause. RFC 5681 §4.1 starts again with the initial window after one timeout. Here the
    /// window is halved for each timeout, as in Linux and before it in RFC 2861, and slow start then leads back to
    /// three quarters of the former window.
    pub fn shrink(&self, cwnd: &mut f64, ssthresh: &mut f64) {
        if self.timeouts == 0 {
            return;
        }
        *ssthresh = ssthresh.max(0.75 * *cwnd);
        let least = f64::from(self.initial_window).min(*cwnd);
        *cwnd = (*cwnd * 0.5f64.powi(self.timeouts.min(64) as i32)).max(least);
    }
}

/// Congestion control algorithm. It owns the window, and its sender reports every acknowledgement and loss to it.
pub trait CongestionControl {
    /// Returns the congestion window (cwnd of RFC 5681 §2) in whole segments: how many may be in flight.
    fn cwnd(&self) -> u32;

    /// Handles an acknowledgement.
    fn handle_ack(&mut self, ack: &Acked);

    /// Handles a loss inferred from selective acknowledgements; called once per recovery.
    fn handle_loss(&mut self, lost: Outstanding);

    /// Handles a retransmission timeout.
    fn handle_timeout(&mut self, lost: Outstanding);

    /// Prepares for another stream on the connection after all segments have arrived. Segments are numbered from 0
    /// again.
    fn resume(&mut self, pause: &IdlePeriod);
}
