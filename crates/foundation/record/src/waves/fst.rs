//! Fast signal traces (GTKWave's `fstapi`). A file is built and compressed in memory, and written at the end.

use super::{Declared, Signal, SignalId, TEXT, Waves, word};
use crate::{AtomicFile, RecordError};
use fst_writer::{
    FstBodyWriter, FstFileType, FstHeaderWriter, FstInfo, FstScopeType, FstSignalId, FstSignalType,
    FstVarDirection, FstVarType, FstWriteError,
};
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

/// Trace that is being written. The writer library does not support strings, so words are stored as vectors of their ASCII codes, starting
/// from the left. Viewers can display such vectors as text.
pub struct Fst {
    file: AtomicFile,
    period_ps: u64,
    steps: u64,
    declared: Declared,
    /// Signals that change in the current step.
    changes: Vec<SignalId>,
    body: Option<Body>,
}

/// Part of the file after the declarations, and the library's numbers of the signals.
struct Body {
    writer: FstBodyWriter<Cursor<Vec<u8>>>,
    ids: Vec<FstSignalId>,
}

/// Time unit, as a power of ten of a second.
const PICOSECONDS: i8 = -12;

impl Fst {
    /// Starts a trace in the file `path`, with steps of `period_ps`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(path: impl AsRef<Path>, period_ps: u64) -> Result<Fst, RecordError> {
        let file = AtomicFile::create(path)?;
        let (declared, changes) = (Declared::default(), Vec::new());
        Ok(Fst { file, period_ps, steps: 0, declared, changes, body: None })
    }

    fn set(&mut self, signal: SignalId, digits: &str) {
        if self.declared.set(signal, digits.as_bytes()) {
            self.changes.push(signal);
        }
    }

    fn header(&self) -> Result<Body, FstWriteError> {
        let mut header = FstHeaderWriter::write_to_mem(&FstInfo {
            start_time: 0,
            timescale_exponent: PICOSECONDS,
            version: format!("unrack {}", env!("CARGO_PKG_VERSION")),
            date: String::new(), // so that equal traces give equal files
            file_type: FstFileType::Verilog,
        })?;
        let mut ids = Vec::new();
        for (_, (scope, name, signal), is_first, is_last) in self.declared.in_scopes() {
            if is_first {
                header.scope(scope, "", FstScopeType::Module)?;
            }
            let kind = FstSignalType::bit_vec(width(*signal));
            ids.push(header.var(name, kind, FstVarType::Wire, FstVarDirection::Implicit, None)?);
            if is_last {
                header.up_scope()?;
            }
        }
        Ok(Body { writer: header.finish()?, ids })
    }

    /// Starts a step, and writes its changes.
    fn changed(&mut self) -> Result<(), FstWriteError> {
        let Body { writer, ids } = self.body.as_mut().expect("steps come after declarations");
        writer.time_change(self.steps * self.period_ps)?;
        for signal in self.changes.drain(..) {
            writer.signal_change(ids[signal.0], &self.declared.values[signal.0])?;
        }
        Ok(())
    }

    fn refused(&self) -> impl Fn(FstWriteError) -> RecordError + use<> {
        let path: PathBuf = self.file.path().into();
        move |why| RecordError::io("write", &path)(std::io::Error::other(why))
    }
}

fn width(signal: Signal) -> u32 {
    match signal {
        Signal::Bits(width) => width,
        Signal::Text => 8 * TEXT as u32,
    }
}

impl Waves for Fst {
    fn signal(&mut self, scope: &str, name: &str, signal: Signal) -> SignalId {
        self.declared.add(scope, name, signal)
    }

    fn begin(&mut self) -> Result<(), RecordError> {
        self.body = Some(self.header().map_err(self.refused())?);
        Ok(())
    }

    fn bits(&mut self, signal: SignalId, value: u64) {
        let width = width(self.declared.signals[signal.0].2) as usize;
        self.set(signal, &format!("{value:0width$b}"));
    }

    fn text(&mut self, signal: SignalId, value: &str) {
        let value = word(value);
        let digits = value.bytes().map(|byte| format!("{byte:08b}")).collect::<String>();
        self.set(signal, &format!("{digits:0<0$}", 8 * TEXT));
    }

    fn step(&mut self) -> Result<(), RecordError> {
        if !self.changes.is_empty() {
            let refused = self.refused();
            self.changed().map_err(refused)?;
        }
        self.steps += 1;
        Ok(())
    }

    fn finish(mut self) -> Result<(), RecordError> {
        let refused = self.refused();
        self.changed().map_err(&refused)?;
        let body = self.body.take().expect("it has begun");
        let bytes = body.writer.finish().map_err(&refused)?.into_inner();
        self.file.write_all(&bytes).map_err(RecordError::io("write", self.file.path()))?;
        self.file.commit()
    }
}
