//! Tests of the way to memory: what keeps it busy, and what waits for it.

use super::written::{Written, access, instruction, register};
use super::*;
use crate::instruction::{MemoryUse, OperationClass};
use crate::window::ServedBy;

/// Indirect loads, as of `a[b[i]]`: the second of a round is ready late, the first of the next round is not. A rate that is
/// 43 times what they ask for costs next to nothing.
#[test]
fn a_late_request_does_not_delay_those_that_are_asked_for_before_it() {
    let mut written = Written::default();
    for n in 0..400u64 {
        written.load(0, register(1), n << 20, ServedBy::Memory);
        written.load(register(1), register(2), (n << 20) + 64, ServedBy::Memory);
    }
    let cycles = run(&parameters(), &[far(300.0, 0.0), far(300.0, 1.0)], &written);
    assert!(cycles[1] < 1.1 * cycles[0], "{cycles:?}");
}

/// Non-temporal stores, eight to a line, go to two lines in turns. The recorder says of the first that memory served it,
/// notes its line as a write-back, and says of the others that the first level served them.
#[test]
fn the_line_of_a_non_temporal_store_is_sent_once() {
    let mut written = Written::default();
    let mut store = instruction(OperationClass::Vector, &[], &[]);
    store.memory = MemoryUse::NontemporalStore;
    for n in 0..16_000u64 {
        let (pair, word, side) = (n / 16, n / 2 % 8, n % 2);
        let address = pair * 128 + side * 64 + word * 8;
        let served = if word == 0 { ServedBy::Memory } else { ServedBy::L1 };
        written.push(store.clone(), &[access(address, true, served)]);
        if word == 0 {
            written.write_back(address);
        }
    }
    let parameters = parameters();
    // The last stores retire while those before them fill the store queue and the buffers.
    let sent = 2000 - parameters.store_queue / 8 - parameters.fill_buffers;
    let cycles = run(&parameters, &[far(10.0, 20.0)], &written)[0] / sent as f64;
    assert!((cycles - 20.0).abs() < 0.1, "{cycles} cycles a line");
}
