//! DCTCP: Data Center TCP (Alizadeh et al., SIGCOMM 2010; RFC 8257).
//!
//! A switch marks a packet if the packet finds more than K bytes in the queue. The receiver ([`tcp::Receiver`]) reports
//! the marks in its acknowledgements. The sender estimates the share of segments that are marked, and cuts its
//! congestion window in proportion to that share. [`WindowControl`] is this congestion control, for use in a
//! [`tcp::Sender`].

mod params;
#[cfg(test)]
mod tests;

pub use params::{Params, marking_guideline};

use crate::tcp::{self, Acked, IdlePeriod, Outstanding};

/// Congestion control of one DCTCP stream. The congestion window is in segments. The names of the fields are those of
/// RFC 8257 §3.3 and RFC 5681 §3.1.
#[derive(Debug, Clone)]
pub struct WindowControl {
    cwnd: f64,
    /// Slow-start threshold, in segments.
    ssthresh: f64,
    /// Estimated share of the stream's segments that are marked, in 0..=1 (DCTCP.Alpha).
    alpha: f64,
    /// Weight of a new observation in `alpha`.
    g: f64,
    /// Number of segments delivered in the current window of observation, and number of marked segments among them.
    /// They correspond to DCTCP.BytesAcked and DCTCP.BytesMarked of the RFC, which count bytes.
    delivered: u32,
    marked: u32,
    /// Segment whose acknowledgement ends the window of observation (DCTCP.WindowEnd).
    window_end: u32,
    /// Number of the segment up to which all segments must be acknowledged before the window may be cut again.
    cut_until: u32,
}

impl WindowControl {
    /// Creates the congestion control of a new stream.
    pub fn new(params: &Params) -> WindowControl {
        WindowControl {
            cwnd: f64::from(params.initial_window.max(1)),
            ssthresh: f64::INFINITY,
            alpha: params.initial_alpha.get(),
            g: params.gain.get(),
            delivered: 0,
            marked: 0,
            window_end: 0,
            cut_until: 0,
        }
    }

    /// Returns the estimated share of the stream's segments that are marked, in 0..=1 (DCTCP.Alpha of RFC 8257).
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Updates the estimate of the share of marked segments: RFC 8257 §3.3, steps 1 to 8.
    // Departure: the estimate of the RFC ignores selective acknowledgements. We count a segment when the sender first
    // learns that the segment has arrived, so that no segment counts twice or late.
    fn observe(&mut self, ack: &Acked) {
        self.delivered += ack.delivered;
        if ack.marked {
            self.marked += ack.delivered;
        }
        if ack.una <= self.window_end {
            return;
        }
        // DCTCP §3.1 eq. 1: alpha <- (1 - g) alpha + g F
        let f = f64::from(self.marked) / f64::from(self.delivered);
        self.alpha = (1.0 - self.g) * self.alpha + self.g * f;
        self.window_end = ack.next;
        (self.delivered, self.marked) = (0, 0);
    }

    /// Cuts the window, at most once per window of data. DCTCP §3.1 eq. 2: cwnd <- cwnd (1 - alpha / 2).
    fn cut(&mut self, ack: &Acked) {
        if ack.una <= self.cut_until && self.cut_until > 0 {
            return;
        }
        self.cwnd = (self.cwnd * (1.0 - self.alpha / 2.0)).max(MIN_WINDOW);
        self.ssthresh = self.cwnd;
        self.cut_until = ack.next;
    }

    /// Grows the window as in RFC 5681 §3.1: by one segment per delivered segment in slow start, and by one segment per
    /// window of data in congestion avoidance.
    fn grow(&mut self, ack: &Acked) {
        let delivered = f64::from(ack.delivered);
        // RFC 3465 §2.1: the growth depends on the number of acknowledged segments, not on the number of
        // acknowledgements.
        self.cwnd += if self.cwnd < self.ssthresh { delivered } else { delivered / self.cwnd };
    }

    /// Sets ssthresh to half of the number of segments in flight (RFC 5681 §3.1 eq. 4). Does nothing if the window was
    /// already cut for the current window of data (RFC 8257 §3.5). Returns whether it has set ssthresh.
    fn halve_ssthresh(&mut self, lost: Outstanding) -> bool {
        let again = lost.una < self.cut_until;
        if !again {
            self.ssthresh = (f64::from(lost.flight()) / 2.0).max(MIN_WINDOW);
            self.cut_until = lost.next;
        }
        !again
    }
}

impl tcp::CongestionControl for WindowControl {
    fn cwnd(&self) -> u32 {
        self.cwnd as u32
    }

    fn handle_ack(&mut self, ack: &Acked) {
        self.observe(ack);
        if ack.marked {
            // RFC 3168 §6.1.2: the window never grows on an echoed mark.
            self.cut(ack);
        } else if ack.may_grow {
            self.grow(ack);
        }
    }

    fn handle_loss(&mut self, lost: Outstanding) {
        if self.halve_ssthresh(lost) {
            self.cwnd = self.ssthresh;
        }
    }

    fn handle_timeout(&mut self, lost: Outstanding) {
        self.halve_ssthresh(lost);
        // RFC 5681 §3.1: the loss window is one segment.
        self.cwnd = 1.0;
    }

    fn resume(&mut self, pause: &IdlePeriod) {
        (self.window_end, self.cut_until) = (0, 0);
        pause.shrink(&mut self.cwnd, &mut self.ssthresh);
    }
}

/// Minimum congestion window after a cut, in segments (RFC 5681 §3.1 eq. 4).
const MIN_WINDOW: f64 = 2.0;
