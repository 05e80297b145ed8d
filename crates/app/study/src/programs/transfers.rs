//! Fetches of pages from a memory node, by the way in which the client requests them, compared with the kernel's swap (DDC, section 5.1
//! and table 5).

use super::program::{Measurement, ProgramFound, StudyProgram, of};
use crate::computed::Computed;

/// Returns the rates and latencies of the memory node by the way of requesting pages, and the cost of a fault of the kernel's swap by
/// program.
pub fn values(programs: &[StudyProgram], found: &[ProgramFound]) -> Computed {
    let mut values = Computed::new();
    for one in of(programs, found, Measurement::Node) {
        let ways = one.answer.pointer("/ways").and_then(serde_json::Value::as_array);
        for way in ways.into_iter().flatten() {
            let Some(name) = way.pointer("/name").and_then(serde_json::Value::as_str) else { continue };
            let number = |path: &str| way.pointer(path).and_then(serde_json::Value::as_f64);
            values.extend(number("/bytes_per_s").map(|rate| (format!("{name}-gbs"), rate / 1e9)));
            for of in ["min", "mean", "median", "p99_5", "max"] {
                let ns = number(&format!("/latency_ns/{of}"));
                values.extend(ns.map(|ns| (format!("{name}-{of}-us"), ns / 1e3)));
            }
        }
    }
    for one in of(programs, found, Measurement::Swap) {
        let fault = one.number("/predicted/fault_ns");
        values.extend(fault.map(|ns| (format!("{}-fault-us", one.program), ns / 1e3)));
    }
    values
}

#[cfg(test)]
mod tests {
    use super::super::program::tests::program;
    use super::*;

    #[test]
    fn rates_and_latencies_are_named_by_the_way() {
        let node = StudyProgram { measure: Measurement::Node, ..program("node") };
        let latency =
            serde_json::json!({ "min": 1000, "mean": 2000.0, "median": 1500, "p99_5": 9000, "max": 10_000 });
        let answer = serde_json::json!({ "ways": [{ "name": "batched", "bytes_per_s": 2.5e9, "latency_ns": latency }] });
        let swapped = serde_json::json!({ "predicted": { "fault_ns": 3300.0 } });
        let found = [("node", answer), ("zram", swapped)]
            .map(|(program, answer)| ProgramFound { program: program.into(), answer });
        let values = values(&[node, program("zram")], &found);
        assert_eq!(values["batched-gbs"], 2.5);
        assert_eq!(values["batched-p99_5-us"], 9.0);
        assert_eq!(values["zram-fault-us"], 3.3);
    }
}
