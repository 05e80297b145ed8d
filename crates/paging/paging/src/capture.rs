//! Merges the spool files of all processes of a run into one `trace.parquet`.
//!
//! The processes that write spools may be killed at any moment. Therefore invalid records are left out and counted, and a truncated file is
//! read up to its end.

use crate::PagingError;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use unrack_basis::PAGE;
use unrack_pager::spool::{FETCH, SpooledTransfer, WRITE_BACK};
use unrack_record::trace::{Kind, Meta, Row, Writer};
use unrack_record::{Warning, page_space};

const RECORD: usize = size_of::<SpooledTransfer>();
const HIGHEST_PAGE: u64 = 1 << 48;
/// Largest difference in ns between the clock of a run and the clock of its records. They differ because start and end of a program take
/// time.
const CLOCK_SLACK_NS: u64 = 10_000_000_000;

/// Contents of all spools.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct SpoolContents {
    pub rows: Vec<Row>,
    /// Number of invalid records.
    pub damaged: u64,
}

impl SpoolContents {
    /// Returns the warning that damaged records were left out, if there were any.
    pub(crate) fn warning(&self) -> Option<Warning> {
        let text = format!("{} captured records were damaged and left out", self.damaged);
        (self.damaged > 0).then(|| Warning::new("damaged-records", text))
    }
}

/// Reads all spools of `folder`. Sorts the rows by time, and numbers the threads from 0 in order of appearance.
pub(crate) fn read_spools(folder: &Path, run_ns: u64) -> Result<SpoolContents, PagingError> {
    let cannot = || PagingError::failed("read what was captured");
    let mut found = SpoolContents::default();
    for entry in std::fs::read_dir(folder).map_err(cannot())? {
        let entry = entry.map_err(cannot())?;
        if let Some(process) = process_of(&entry.file_name().to_string_lossy()) {
            let file = File::open(entry.path()).map_err(cannot())?;
            read_spool(file, process, run_ns, &mut found).map_err(cannot())?;
        }
    }
    found.rows.sort_by_key(|row| (row.t_ns, row.page, row.kind == Kind::Fetch));
    number_threads(&mut found.rows);
    Ok(found)
}

/// Writes rows and metadata to a trace file.
pub(crate) fn write_trace(path: &Path, rows: &[Row], meta: &Meta) -> Result<(), PagingError> {
    let failed = |why: unrack_record::RecordError| PagingError::Failed(why.to_string());
    let mut writer = Writer::create(path).map_err(failed)?;
    for row in rows {
        writer.push(*row).map_err(failed)?;
    }
    writer.finish(meta).map_err(failed)
}

/// Returns the process to which a spool file belongs, by its name: `spool-00000007` belongs to process 7.
fn process_of(name: &str) -> Option<u32> {
    name.strip_prefix("spool-").filter(|digits| digits.len() == 8)?.parse().ok()
}

fn read_spool(file: File, process: u32, run_ns: u64, found: &mut SpoolContents) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(RECORD << 12, file);
    let mut bytes = [0u8; RECORD];
    loop {
        match reader.read_exact(&mut bytes) {
            Ok(()) => {}
            Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(why) => return Err(why),
        }
        let transfer = decode(&bytes);
        if transfer == SpooledTransfer::default() {
            return Ok(());
        }
        match row(transfer, process, run_ns.saturating_add(CLOCK_SLACK_NS)) {
            Some(row) => found.rows.push(row),
            None => found.damaged += 1,
        }
    }
}

fn decode(bytes: &[u8; RECORD]) -> SpooledTransfer {
    let word = |n: usize| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[n * 8 + byte]));
    let half = |n: usize| u32::from_ne_bytes(std::array::from_fn(|byte| bytes[n * 4 + byte]));
    SpooledTransfer {
        t_ns: word(0),
        page: word(1),
        wait_ns: word(2),
        overhead_ns: word(3),
        thread: half(8),
        kind: half(9),
    }
}

fn row(transfer: SpooledTransfer, process: u32, latest_ns: u64) -> Option<Row> {
    let kind = match transfer.kind {
        FETCH => Kind::Fetch,
        WRITE_BACK => Kind::WriteBack,
        _ => return None,
    };
    let times = [transfer.t_ns, transfer.wait_ns, transfer.overhead_ns];
    if times.iter().any(|ns| *ns > latest_ns) || transfer.page >= HIGHEST_PAGE {
        return None;
    }
    Some(Row {
        t_ns: transfer.t_ns,
        thread: transfer.thread,
        // With more than 65,536 processes, numbers are reused.
        page: page_space::page_number(process as u16, transfer.page),
        kind,
        bytes: PAGE as u32,
        wait_ns: if kind == Kind::Fetch { transfer.wait_ns } else { 0 },
        overhead_ns: transfer.overhead_ns,
    })
}

/// Numbers the threads that fetched 0, 1, 2, …. Write-backs get number 0, because no thread waits for them.
fn number_threads(rows: &mut [Row]) {
    let mut numbers = HashMap::new();
    for row in rows {
        let next = numbers.len() as u32;
        row.thread = match row.kind {
            Kind::Fetch => *numbers.entry(row.thread).or_insert(next),
            Kind::WriteBack => 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::ScratchFolder;

    fn bytes(transfers: &[SpooledTransfer]) -> Vec<u8> {
        let words = transfers.iter().flat_map(|t| {
            let halves = t.thread as u64 | (t.kind as u64) << 32;
            [t.t_ns, t.page, t.wait_ns, t.overhead_ns, halves]
        });
        words.flat_map(u64::to_ne_bytes).collect()
    }

    fn fetch(t_ns: u64, page: u64, thread: u32) -> SpooledTransfer {
        SpooledTransfer { t_ns, page, wait_ns: 5, overhead_ns: 1, thread, kind: FETCH }
    }

    fn folder(spools: &[(&str, Vec<u8>)]) -> ScratchFolder {
        let folder = ScratchFolder::fast().unwrap();
        for (name, bytes) in spools {
            std::fs::write(folder.path(name), bytes).unwrap();
        }
        folder
    }

    #[test]
    fn spools_merge_by_time_with_processes_and_threads_numbered() {
        let mut first = bytes(&[fetch(30, 1, 9), fetch(10, 2, 9)]);
        first.extend([0; RECORD * 3]);
        let write_back = SpooledTransfer { kind: WRITE_BACK, wait_ns: 8, ..fetch(20, 3, 0) };
        let second = bytes(&[write_back, fetch(25, 4, 4)]);
        let folder =
            folder(&[("spool-00000000", first), ("spool-00000002", second), ("control", vec![1; 99])]);
        let found = read_spools(folder.whole(), 1_000).unwrap();
        let seen: Vec<_> = found.rows.iter().map(|r| (r.t_ns, r.thread, r.page, r.kind, r.wait_ns)).collect();
        let page = page_space::page_number;
        assert_eq!(
            seen,
            [
                (10, 0, page(0, 2), Kind::Fetch, 5),
                (20, 0, page(2, 3), Kind::WriteBack, 0),
                (25, 1, page(2, 4), Kind::Fetch, 5),
                (30, 0, page(0, 1), Kind::Fetch, 5),
            ]
        );
        assert_eq!(found.damaged, 0);
    }

    #[test]
    fn a_spool_cut_short_ends_there_and_garbage_is_counted() {
        let whole = bytes(&[fetch(1, 1, 0), fetch(2, 2, 0)]);
        for len in 0..=whole.len() {
            let folder = folder(&[("spool-00000000", whole[..len].to_vec())]);
            assert_eq!(read_spools(folder.whole(), 10).unwrap().rows.len(), len / RECORD, "cut at {len}");
        }
        let garbage = folder(&[("spool-00000000", vec![0xA5; RECORD * 7 + 3]), ("spool-1", vec![1; RECORD])]);
        assert_eq!(read_spools(garbage.whole(), 10).unwrap(), SpoolContents { rows: vec![], damaged: 7 });
    }

    #[test]
    fn what_was_read_can_be_written() {
        let folder = folder(&[("spool-00000001", bytes(&[fetch(3, 1, 7), fetch(2, 2, 8)]))]);
        let found = read_spools(folder.whole(), 10).unwrap();
        let meta = Meta {
            program: "x".into(),
            command_line: vec!["x".into()],
            page_size: 4096,
            local_bytes: 1 << 20,
            footprint_bytes: 2 << 20,
            run_ns: 10,
            native_ns: None,
        };
        let path = folder.path("trace.parquet");
        write_trace(&path, &found.rows, &meta).unwrap();
        assert_eq!(unrack_record::trace::read(&path).unwrap(), (meta, found.rows));
    }
}
