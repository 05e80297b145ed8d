//! Tables read back as they were written, and other files are refused.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use unrack_record::{completions, messages, ports, trace};
use unrack_testing::TestFolder;

/// File of one test, removed afterwards.
struct Scratch {
    _folder: TestFolder,
    path: PathBuf,
}

impl Scratch {
    fn new(name: &str) -> Scratch {
        let folder = TestFolder::new(name);
        let path = folder.join("some.parquet");
        Scratch { _folder: folder, path }
    }
}

fn trace_meta() -> trace::Meta {
    trace::Meta {
        program: "sort \"big\"\n".into(),
        command_line: vec!["sort".into(), "big file".into()],
        page_size: 4096,
        local_bytes: 64 << 20,
        footprint_bytes: 256 << 20,
        run_ns: 1_000_000_007,
        native_ns: None,
    }
}

fn trace_row() -> impl Strategy<Value = trace::Row> {
    (any::<[u64; 4]>(), any::<[u32; 2]>(), any::<bool>()).prop_map(
        |([t_ns, page, wait, overhead_ns], [thread, bytes], fetch)| {
            let (kind, wait_ns) =
                if fetch { (trace::Kind::Fetch, wait) } else { (trace::Kind::WriteBack, 0) };
            trace::Row { t_ns, thread, page, kind, bytes, wait_ns, overhead_ns }
        },
    )
}

fn message_row() -> impl Strategy<Value = messages::Row> {
    let kind = prop::sample::select(messages::Kind::ALL);
    (any::<[u64; 5]>(), any::<[u32; 5]>(), kind, any::<Option<u64>>(), any::<f64>()).prop_map(
        |(times, numbers, kind, took, slowdown)| {
            let [id, bytes, submitted_ps, unloaded_ps, ideal_ps] = times;
            let [src, dst, retransmissions, drops, trims] = numbers;
            let completed_ps = took.map(|took| submitted_ps.saturating_add(took));
            messages::Row {
                id,
                src,
                dst,
                kind,
                bytes,
                submitted_ps,
                completed_ps,
                unloaded_ps,
                ideal_ps,
                slowdown,
                retransmissions,
                drops,
                trims,
            }
        },
    )
}

fn write_trace(path: &Path, rows: &[trace::Row]) {
    let mut writer = trace::Writer::create(path).unwrap();
    rows.iter().for_each(|row| writer.push(*row).unwrap());
    writer.finish(&trace_meta()).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn traces_come_back(mut rows in prop::collection::vec(trace_row(), 0..300)) {
        rows.sort_by_key(|row| row.t_ns);
        let file = Scratch::new("trace");
        write_trace(&file.path, &rows);
        prop_assert_eq!(trace::read(&file.path).unwrap(), (trace_meta(), rows));
    }

    #[test]
    fn messages_come_back_bit_for_bit(rows in prop::collection::vec(message_row(), 0..300)) {
        let file = Scratch::new("messages");
        let meta = messages::Meta { fabric: "edm".into() };
        let mut writer = messages::Writer::create(&file.path).unwrap();
        rows.iter().for_each(|row| writer.push(*row).unwrap());
        writer.finish(&meta).unwrap();
        let (read_meta, read) = messages::read(&file.path).unwrap();
        prop_assert_eq!(read_meta, meta);
        prop_assert_eq!(read.len(), rows.len());
        for (a, b) in read.iter().zip(&rows) {
            prop_assert_eq!(a.slowdown.to_bits(), b.slowdown.to_bits());
            prop_assert_eq!(messages::Row { slowdown: 0.0, ..*a }, messages::Row { slowdown: 0.0, ..*b });
        }
    }
}

#[test]
fn more_rows_than_one_row_group_come_back() {
    let file = Scratch::new("groups");
    let meta = completions::Meta { fabric: "cxl".into(), link_rate_bps: 100_000_000_000 };
    let row = |i: u64| completions::Row {
        kind: completions::Kind::ALL[i as usize % 2],
        bytes: i << 32,
        completion_ps: i * i,
        ideal_ps: i,
    };
    let mut writer = completions::Writer::create(&file.path).unwrap();
    (0..300_000).for_each(|i| writer.push(row(i)).unwrap());
    writer.finish(&meta).unwrap();
    let (read_meta, rows) = completions::read(&file.path).unwrap();
    assert_eq!(read_meta, meta);
    assert!(rows.into_iter().eq((0..300_000).map(row)));
}

#[test]
fn ports_come_back() {
    let file = Scratch::new("ports");
    let row = ports::Row {
        from_ps: 1,
        kind: ports::Kind::Port,
        number: 2,
        busy_ps: 3,
        utilization: 0.75,
        packets: 5,
        wire_bytes: 6,
        payload_bytes: 7,
        queue_mean_bytes: 8.5,
        queue_max_bytes: 9,
    };
    let meta = ports::Meta { fabric: "dctcp".into(), interval_ps: 4 };
    let mut writer = ports::Writer::create(&file.path).unwrap();
    writer.push(row).unwrap();
    writer.finish(&meta).unwrap();
    assert_eq!(ports::read(&file.path).unwrap(), (meta, vec![row]));
}

fn fetch(t_ns: u64) -> trace::Row {
    let kind = trace::Kind::Fetch;
    trace::Row { t_ns, thread: 0, page: 1, kind, bytes: 4096, wait_ns: 10, overhead_ns: 0 }
}

#[test]
fn a_trace_out_of_order_is_refused_by_the_writer() {
    let file = Scratch::new("unsorted");
    let mut writer = trace::Writer::create(&file.path).unwrap();
    writer.push(fetch(5)).unwrap();
    let message = writer.push(fetch(4)).unwrap_err().to_string();
    assert!(message.ends_with("row 1: a trace is sorted by time, but `t_ns` 4 follows 5"), "{message}");
    let waited = trace::Row { kind: trace::Kind::WriteBack, ..fetch(6) };
    assert!(writer.push(waited).unwrap_err().to_string().contains("no thread waits for a write-back"));
    writer.push(fetch(6)).unwrap();
    drop(writer);
    assert!(!file.path.exists(), "an unfinished table has no name");
}

#[test]
fn a_message_does_not_complete_before_it_starts() {
    let file = Scratch::new("early");
    let mut writer = messages::Writer::create(&file.path).unwrap();
    let row = messages::Row {
        id: 9,
        src: 0,
        dst: 1,
        kind: messages::Kind::Read,
        bytes: 64,
        submitted_ps: 100,
        completed_ps: Some(99),
        unloaded_ps: 50,
        ideal_ps: 40,
        slowdown: 1.0,
        retransmissions: 0,
        drops: 0,
        trims: 0,
    };
    let message = writer.push(row).unwrap_err().to_string();
    assert!(message.ends_with("row 0: message 9 completes before it is submitted"), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// A flipped bit may go unnoticed (a page has no checksum) but never ends the program.
    #[test]
    fn a_damaged_file_is_read_or_refused(
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8u8), 1..4),
        keep in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let file = Scratch::new("damaged");
        let mut bytes = pristine().clone();
        flips.iter().for_each(|(index, bit)| *index.get_mut(&mut bytes) ^= 1 << bit);
        bytes.truncate(keep.map_or(bytes.len(), |index| index.index(bytes.len())));
        std::fs::write(&file.path, &bytes).unwrap();
        let result = trace::read(&file.path);
        prop_assert!(keep.is_none() || result.is_err(), "a file cut short was read");
    }
}

fn pristine() -> &'static Vec<u8> {
    static BYTES: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    BYTES.get_or_init(|| {
        let file = Scratch::new("pristine");
        write_trace(&file.path, &(0..200).map(|i| fetch(i * i)).collect::<Vec<_>>());
        std::fs::read(&file.path).unwrap()
    })
}
