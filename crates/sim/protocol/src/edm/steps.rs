//! Number of clock cycles that each step of EDM takes in a host and in the switch. The steps are those of figure 5, and
//! their sums those of table 1.
//!
//! The table gives the latency of a read and of a write in an unloaded network at 25 Gb/s, where one cycle takes 2.56
//! ns. A link has a propagation time of 10 ns, and each PMA with PMD and transceiver takes 19 ns. The columns of the
//! compute node, the switch and the memory node are in cycles, and the columns of the links and the total are in ns:
//!
//! | | compute | switch | memory | 4 links | total |
//! |---|---|---|---|---|---|
//! | read | 2 + 3 | 6 + 5 | 3 + 4 + 3 | 4 x 58.24 | 299.52 ns |
//! | write | 2 + 2 + 4 + 3 | 6 + 5 | 3 | 4 x 58.24 | 296.96 ns |
//!
//! One crossing of a link takes 58.24 ns: PCS 5.12 + PMA 19 + propagation 10 + PMA 19 + PCS 5.12. The totals do not
//! include the time to transmit the bits of a message; `unrack_sim::fabric::edm` describes how the simulation counts
//! that time.

use unrack_units::Time;

/// Period of the PCS clock: the time of one 66-bit block at 25 Gb/s (figure 5).
pub const PCS_CYCLE: Time = Time::from_ps(2_560);
/// Latency of PMA, PMD and transceiver together, each time that data crosses them (table 1).
pub const PMA: Time = Time::from_ns(19);
/// Cycles of the standard PCS with EDM's block multiplexer, each time that data crosses the PCS (table 1: 5.12 ns).
pub const PCS_CYCLES: u64 = 2;

/// Cycles of a host to make a notification (§3.2.1): 1 for the message queue, 1 to build the block and write the state
/// table.
pub const MAKE_NOTIFICATION: u64 = 2;
/// Cycles of a host to parse a grant (§3.2.1): 1 to parse it, 1 to add it to the grant queue.
pub const PARSE_GRANT: u64 = 2;
/// Cycles of a memory node to receive a request (§3.2.1): 1 to parse it, 1 for the queue, 1 to pass it to the memory
/// controller.
pub const RECEIVE_REQUEST: u64 = 3;
/// Cycles of a host to read its grant queue, which connects two clock domains (§3.2.1).
pub const READ_GRANT_QUEUE: u64 = 4;
/// Cycles of a host to make data blocks (§3.2.1): 1 for the state table, 1 for the data buffer, 1 to build the block.
pub const MAKE_DATA: u64 = 3;
/// Cycles of a host to receive data (§3.2.1): 1 to parse it, 1 for the memory address, 1 to pass it to the application
/// or memory controller.
pub const RECEIVE_DATA: u64 = 3;
/// Cycles of the switch to determine the type of a block (§3.2.2).
pub const CLASSIFY: u64 = 1;
/// Cycles of the switch to pass a block from the receive clock domain to the transmit clock domain (§3.2.2).
pub const FORWARD: u64 = 4;
/// Cycles of the switch to build a grant block, or to forward a buffered request (§3.2.2).
pub const MAKE_GRANT: u64 = 1;
/// Cycles of the switch to schedule a message. Table 1 gives the switch 11 cycles in all: 5 to classify and forward the
/// data, 1 to classify the notification, 4 to schedule, and 1 to make the grant. §3.1.2 explains the 4 cycles of
/// scheduling: 1 for the notification to reach the head of the ordered list, and 3 for one matching iteration.
pub const SCHEDULE: u64 = 4;

/// Latencies of the hardware of one EDM network, from which the latencies of its steps follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdmLatencies {
    /// Period of the PCS clock.
    pub cycle: Time,
    /// Latency of PMA, PMD and transceiver together, each time that data crosses them.
    pub pma: Time,
}

impl Default for EdmLatencies {
    /// Returns the latencies of the paper's testbed. The paper's simulations use the same latencies at every link rate
    /// (§4.3).
    fn default() -> Self {
        EdmLatencies { cycle: PCS_CYCLE, pma: PMA }
    }
}

impl EdmLatencies {
    /// Returns the time of `n` cycles of the PCS clock.
    pub fn cycles(&self, n: u64) -> Time {
        self.cycle * n
    }

    /// Returns the time from the entry of a block into the sender's PCS to its exit from the receiver's PCS, over a
    /// link with this propagation time.
    pub fn link(&self, propagation: Time) -> Time {
        (self.cycles(PCS_CYCLES) + self.pma) * 2 + propagation
    }

    /// Returns the time from the exit of a grant block from a host's PCS to the entry of the first data block into that
    /// PCS.
    pub fn grant_to_data(&self) -> Time {
        self.cycles(PARSE_GRANT + READ_GRANT_QUEUE + MAKE_DATA)
    }

    /// Returns the time from the exit of a request from the memory node's PCS to the entry of the first data block of
    /// the answer into that PCS.
    pub fn request_to_data(&self) -> Time {
        self.cycles(RECEIVE_REQUEST + READ_GRANT_QUEUE + MAKE_DATA)
    }

    /// Returns the time that a data block takes from the receive side to the transmit side of the switch.
    pub fn switch_data(&self) -> Time {
        self.cycles(CLASSIFY + FORWARD)
    }

    /// Returns the time from the arrival of a notification at an idle switch to its grant.
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
