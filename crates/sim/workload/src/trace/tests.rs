//! Tests of captured traces: timelines, windows, and the replay on a rack.

use super::*;

fn fetch(t_ns: u64, thread: u32, wait_ns: u64, overhead_ns: u64) -> TraceRow {
    TraceRow { t_ns, thread, page: t_ns, write_back: false, bytes: 4096, wait_ns, overhead_ns }
}

fn write_back(t_ns: u64, thread: u32) -> TraceRow {
    TraceRow { t_ns, thread, page: t_ns, write_back: true, bytes: 4096, wait_ns: 0, overhead_ns: 0 }
}

fn afters(trace: &CapturedTrace, thread: u32) -> Vec<u64> {
    trace.steps(thread).iter().map(|step| step.after.as_ns()).collect()
}

#[test]
fn computing_is_what_remains_of_the_time_between_fetches() {
    let rows = [fetch(100, 0, 10, 20), fetch(300, 0, 50, 40), fetch(400, 0, 5, 0)];
    let trace = CapturedTrace::new(&rows, Time::from_ns(1_000)).unwrap();
    // 100 - 20; 300 - 100 - 10 - 40; 400 - 300 - 50 - 0. The run ends 595 ns after the last fetch.
    assert_eq!(afters(&trace, 0), [80, 150, 50]);
    assert_eq!(trace.tail(0), Some(Time::from_ns(595)));
    assert_eq!(trace.run_time_at(Time::ZERO), Time::from_ns(80 + 150 + 50 + 595));
    assert_eq!(trace.run_time_at(Time::from_ns(7)), Time::from_ns(80 + 150 + 50 + 595 + 3 * 7));
}

#[test]
fn a_write_back_keeps_its_place_before_the_next_fetch() {
    let rows = [fetch(0, 0, 10, 0), write_back(40, 0), write_back(90, 0), fetch(100, 0, 10, 60)];
    let trace = CapturedTrace::new(&rows, Time::from_ns(110)).unwrap();
    assert_eq!(afters(&trace, 0), [0, 30, 30, 30]);
}

#[test]
fn a_thread_that_sleeps_does_not_hide_the_one_that_waits() {
    // Thread 1 waits for thread 0 most of the time, so its 890 ns between two fetches are not computing time.
    let rows = [fetch(0, 1, 10, 0), fetch(100, 0, 300, 0), fetch(500, 0, 390, 0), fetch(900, 1, 10, 0)];
    let trace = CapturedTrace::new(&rows, Time::from_ns(1_000)).unwrap();
    assert_eq!([trace.tail(0), trace.tail(1)], [Some(Time::from_ns(110)), None]);
    assert_eq!(trace.run_time_at(Time::ZERO), Time::from_ns(1_000 - 300 - 390));
    assert_eq!(trace.run_time_at(Time::from_ns(5)), Time::from_ns(310 + 2 * 5));
}

#[test]
fn a_window_says_what_it_leaves_out() {
    let rows: Vec<TraceRow> = (0..100).map(|n| fetch(n * 1_000, 0, 100, 0)).collect();
    let trace = CapturedTrace::middle(&rows, Time::from_us(100), 10).unwrap();
    let window =
        ReplayWindow { from: Time::from_us(45), until: Time::from_us(55), rows: 10, rows_in_all: 100 };
    assert_eq!(trace.window(), window);
    assert_eq!(afters(&trace, 0), [0, 900, 900, 900, 900, 900, 900, 900, 900, 900]);
    assert_eq!(trace.run_time_at(Time::from_ns(100)), Time::from_us(10));
    assert_eq!(CapturedTrace::middle(&rows, Time::from_us(100), 100).unwrap().window().rows, 100);
}

#[test]
fn at_native_pace_the_whole_run_computes_as_long_as_natively() {
    let rows: Vec<TraceRow> = (0..100).map(|n| fetch(n * 1_000, 0, 200, 0)).collect();
    let run = Time::from_us(100);
    let whole = CapturedTrace::new(&rows, run).unwrap().at_native_pace(Time::from_us(20));
    assert_eq!(whole.run_time_at(Time::ZERO), Time::from_us(20), "80 us were computed when captured");
    let middle = CapturedTrace::middle(&rows, run, 10).unwrap().at_native_pace(Time::from_us(20));
    assert_eq!(middle.run_time_at(Time::ZERO), Time::from_us(2));
    assert_eq!(middle.run_time_at(Time::from_ns(7)), Time::from_ns(2_070));
}

#[test]
fn what_is_no_trace_is_refused() {
    let message = |rows: &[TraceRow]| CapturedTrace::new(rows, Time::ZERO).unwrap_err().to_string();
    assert!(
        message(&[fetch(5, 0, 0, 0), fetch(4, 0, 0, 0)]).contains("sorted by time, but is 4 ns after 5 ns")
    );
    assert!(message(&[TraceRow { bytes: 0, ..fetch(5, 0, 0, 0) }]).contains("at least 1 byte"));
    assert!(message(&[fetch(u64::MAX, 0, 0, 0)]).contains("60 days"));
    assert!(message(&[fetch(5, u32::MAX, 0, 0)]).contains("without gaps"));
    assert!(CapturedTrace::middle(&[fetch(5, 0, 0, 0)], Time::ZERO, 0).is_err());
}

#[test]
fn an_empty_trace_is_a_program_that_only_computes() {
    let trace = CapturedTrace::new(&[], Time::from_us(3)).unwrap();
    assert_eq!(trace.run_time_at(Time::from_ns(1)), Time::from_us(3));
}
