//! Clock cycles of each step in the host and in the switch: the breakdown of figure 5, summed as in table 1.
//!
//! Unloaded, at 25 Gb/s (cycle 2.56 ns), 10 ns per link and 19 ns per PMA+PMD+transceiver:
//!
//! | | compute | switch | memory | 4 links | total |
//! |---|---|---|---|---|---|
//! | read | 2 + 3 | 6 + 5 | 3 + 4 + 3 | 4 x 58.24 | 299.52 ns |
//! | write | 2 + 2 + 4 + 3 | 6 + 5 | 3 | 4 x 58.24 | 296.96 ns |
//!
//! (In cycles. A link is PCS 5.12 + PMA 19 + 10 + PMA 19 + PCS 5.12.) The totals of the table contain no transmission
//! time; `unrack_sim::fabric::edm` describes how it is counted here.

use unrack_units::Time;

/// One period of the PCS clock: one 66-bit block at 25 Gb/s (figure 5).
pub const PCS_CYCLE: Time = Time::from_ps(2_560);
/// Latency of PMA, PMD and transceiver, per crossing (table 1).
pub const PMA: Time = Time::from_ns(19);
/// Cycles of the standard PCS with EDM's block multiplexer, per crossing (table 1: 5.12 ns).
pub const PCS_CYCLES: u64 = 2;

/// Cycles to make a notification (§3.2.1): 1 for the message queue, 1 to build the block and write the state table.
pub const MAKE_NOTIFICATION: u64 = 2;
/// Cycles to parse a grant (§3.2.1): 1 to parse it, 1 to add it to the grant queue.
pub const PARSE_GRANT: u64 = 2;
/// Cycles to receive a request (§3.2.1): 1 to parse it, 1 for the queue, 1 to pass it to the memory controller.
pub const RECEIVE_REQUEST: u64 = 3;
/// Cycles to read the grant queue, which crosses clock domains (§3.2.1).
pub const READ_GRANT_QUEUE: u64 = 4;
/// Cycles to make data blocks (§3.2.1): 1 for the state table, 1 for the data buffer, 1 to build the block.
pub const MAKE_DATA: u64 = 3;
/// Cycles to receive data (§3.2.1): 1 to parse it, 1 for the memory address, 1 to pass it to the application or memory
/// controller.
pub const RECEIVE_DATA: u64 = 3;
/// Cycles to determine the block type (§3.2.2).
pub const CLASSIFY: u64 = 1;
/// Cycles from the receive to the transmit clock domain (§3.2.2).
pub const FORWARD: u64 = 4;
/// Cycles to build the grant block, or to forward the buffered request (§3.2.2).
pub const MAKE_GRANT: u64 = 1;
/// Cycles of scheduling. Table 1 gives the switch 11 cycles in all: 5 to classify and forward the data, 1 to classify
/// the notification, 1 to make the grant, and 4 between the last two. §3.1.2 accounts for these 4: 1 to reach the head
/// of the ordered list, and 3 for one matching iteration.
pub const SCHEDULE: u64 = 4;

/// Latencies of one installation of EDM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdmLatencies {
    /// Period of the PCS clock.
    pub cycle: Time,
    /// Latency of PMA, PMD and transceiver, per crossing.
    pub pma: Time,
}

impl Default for EdmLatencies {
    /// Returns the latencies of the paper's testbed, which the paper's simulations keep at any link rate (§4.3).
    fn default() -> Self {
        EdmLatencies { cycle: PCS_CYCLE, pma: PMA }
    }
}

impl EdmLatencies {
    /// Returns the time of `n` cycles.
    pub fn cycles(&self, n: u64) -> Time {
        self.cycle * n
    }

    /// Returns the time from a block's entry into the PCS of the sender to its exit from the receiver's PCS.
    pub fn link(&self, propagation: Time) -> Time {
        (self.cycles(PCS_CYCLES) + self.pma) * 2 + propagation
    }

    /// Returns the time from a grant block leaving the PCS to the first data block entering it.
    pub fn grant_to_data(&self) -> Time {
        self.cycles(PARSE_GRANT + READ_GRANT_QUEUE + MAKE_DATA)
    }

    /// Returns the time from a request leaving the PCS of the memory node to the first data block entering it.
    pub fn request_to_data(&self) -> Time {
        self.cycles(RECEIVE_REQUEST + READ_GRANT_QUEUE + MAKE_DATA)
    }

    /// Returns the time that a block of data takes from the receive to the transmit side of the switch.
    pub fn switch_data(&self) -> Time {
        self.cycles(CLASSIFY + FORWARD)
    }

    /// Returns the time from a notification to its grant in an idle switch.
    pub fn switch_grant(&self) -> Time {
        self.cycles(CLASSIFY + SCHEDULE + MAKE_GRANT)
    }

    /// Returns the latency of an unloaded read through one switch (table 1).
    pub fn unloaded_read(&self, propagation: Time) -> Time {
        self.cycles(MAKE_NOTIFICATION)
            + self.switch_grant()
            + self.request_to_data()
            + self.switch_data()
            + self.cycles(RECEIVE_DATA)
            + self.link(propagation) * 4
    }

    /// Returns the latency of an unloaded write through one switch (table 1).
    pub fn unloaded_write(&self, propagation: Time) -> Time {
        self.cycles(MAKE_NOTIFICATION)
            + self.switch_grant()
            + self.grant_to_data()
            + self.switch_data()
            + self.cycles(RECEIVE_DATA)
            + self.link(propagation) * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_add_up_to_table_1() {
        let steps = EdmLatencies::default();
        assert_eq!(steps.unloaded_read(Time::from_ns(10)).as_ps(), 299_520);
        assert_eq!(steps.unloaded_write(Time::from_ns(10)).as_ps(), 296_960);
    }

    #[test]
    fn each_box_of_table_1() {
        let steps = EdmLatencies::default();
        let ps = |n| steps.cycles(n).as_ps();
        assert_eq!(ps(MAKE_NOTIFICATION + RECEIVE_DATA), 12_800, "compute, read");
        assert_eq!(steps.request_to_data().as_ps(), 25_600, "memory, read");
        assert_eq!((steps.switch_grant() + steps.switch_data()).as_ps(), 28_160, "switch");
        assert_eq!(ps(MAKE_NOTIFICATION) + steps.grant_to_data().as_ps(), 28_160, "compute, write");
        assert_eq!(ps(RECEIVE_DATA), 7_680, "memory, write");
    }
}
