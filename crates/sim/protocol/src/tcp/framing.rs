//! Framing of TCP: how a message is divided into segments, and how many bytes a segment takes on the wire.

use unrack_units::Bytes;

/// Division of messages into segments, and number of header bytes that each segment takes on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framing {
    /// Bytes of payload in a full segment.
    mss: u64,
    /// Bytes that a packet takes on the wire in addition to its payload.
    overhead: u64,
    /// Bytes of the smallest packet on the wire.
    minimum: u64,
}

impl Framing {
    /// Bytes of IPv4 (20 B) and TCP (20 B) headers with the timestamp option (RFC 7323, padded to 12 B).
    const IP_TCP: u64 = 20 + 20 + 12;
    /// Bytes of Ethernet: preamble and start delimiter 8 B, header 14 B, frame check 4 B, gap 12 B (IEEE 802.3).
    const ETHERNET: u64 = 8 + 14 + 4 + 12;
    /// Bytes of the shortest Ethernet frame, 64 B, with preamble and gap.
    const ETHERNET_MINIMUM: u64 = 64 + 8 + 12;

    /// Returns the framing of TCP over IPv4 over Ethernet with packets of at most `mtu` bytes, including the IP
    /// header. Returns `None` if no payload fits.
    pub fn ethernet(mtu: Bytes) -> Option<Framing> {
        let mss = mtu.get().checked_sub(Framing::IP_TCP).filter(|mss| *mss > 0)?;
        let overhead = Framing::IP_TCP + Framing::ETHERNET;
        Some(Framing { mss, overhead, minimum: Framing::ETHERNET_MINIMUM })
    }

    /// Returns a framing without headers, for comparison with simulators that do not count header bytes. A packet carries at most `mtu`
    /// bytes of payload. A packet without payload takes 8 B. Returns `None` if `mtu` is 0.
    pub fn bare(mtu: Bytes) -> Option<Framing> {
        let mss = Some(mtu.get()).filter(|mss| *mss > 0)?;
        Some(Framing { mss, overhead: 0, minimum: 8 })
    }

    /// Returns the payload of a full segment.
    pub fn mss(&self) -> Bytes {
        Bytes::new(self.mss)
    }

    /// Returns the number of segments of a message of `bytes` bytes. An empty message takes one segment too.
    pub fn segments(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(self.mss).max(1)).expect("a message of less than 2^32 segments")
    }

    /// Returns the bytes of payload in segment `number` of a message of `bytes` bytes.
    pub fn payload(&self, bytes: u64, number: u32) -> u64 {
        let before = u64::from(number) * self.mss;
        (bytes - before).min(self.mss)
    }

    /// Returns the bytes that a packet with `payload` bytes of payload takes on the wire.
    pub fn wire(&self, payload: u64) -> Bytes {
        Bytes::new((self.overhead + payload).max(self.minimum))
    }

    /// Returns the bytes that an acknowledgement with `blocks` SACK blocks takes on the wire. The SACK option takes 2 B, plus 8 B for each
    /// block, padded to a multiple of 4 B (RFC 2018 §3).
    pub fn ack_wire(&self, blocks: usize) -> Bytes {
        self.wire(if blocks == 0 { 0 } else { 4 + 8 * blocks as u64 })
    }

    /// Returns the bytes that all segments of a message take on the wire.
    pub fn message_wire(&self, bytes: u64) -> u64 {
        let last = self.segments(bytes) - 1;
        u64::from(last) * self.wire(self.mss).get() + self.wire(self.payload(bytes, last)).get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_in_one_segment() {
        let framing = Framing::ethernet(Bytes::new(1500)).unwrap();
        assert_eq!(framing.mss(), Bytes::new(1448));
        for bytes in [0, 1, 1447, 1448, 1449, 4096, 65_536] {
            let n = framing.segments(bytes);
            assert_eq!((0..n).map(|i| framing.payload(bytes, i)).sum::<u64>(), bytes);
        }
    }

    #[test]
    fn a_full_packet_is_1538_bytes_on_the_wire() {
        let framing = Framing::ethernet(Bytes::new(1500)).unwrap();
        assert_eq!(framing.wire(1448), Bytes::new(1538));
        assert_eq!(framing.ack_wire(0), Bytes::new(90));
        assert_eq!(framing.ack_wire(3), Bytes::new(118));
        assert_eq!(framing.message_wire(4096), 2 * 1538 + 90 + 1200);
    }

    #[test]
    fn headers_must_fit() {
        assert!(Framing::ethernet(Bytes::new(52)).is_none());
    }
}
