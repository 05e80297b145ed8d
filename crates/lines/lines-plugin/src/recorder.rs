//! Recorder of a process. It appends the sampled windows of the threads to the recording file, and keeps the file below
//! its size limit.

use crate::code::Code;
use crate::sampling::ThreadSamples;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use unrack_lines::instruction::CodeBlock;
use unrack_lines::recording::{Header, Reader, RecordingError, RecordingWriter};
use unrack_lines::window::RecordedWindow;

/// Maximum number of sampled windows in a recording. With half this number, the confidence intervals of estimates from
/// the recording are about 2 % wide.
const WINDOWS: u64 = 1000;

/// Recorder of one process.
pub(crate) struct Recorder {
    /// Path of the recording file, which is shared with the open recording.
    path: Arc<Mutex<PathBuf>>,
    header: Header,
    limit: u64,
    /// Open recording; `None` before the first window and after an error.
    file: Option<RecordingWriter<Appended>>,
    /// Code number of each block in the file, in the order of the file.
    order: Vec<u32>,
    /// Whether a block is in the file, indexed by its code number.
    is_written: Vec<bool>,
    /// Number of windows in the file.
    windows: u64,
    /// First error of the recorder. After an error, the recorder appends no more windows.
    error: Option<String>,
}

/// Recording file that is opened anew for each write. A file that stays open would occupy a descriptor, which the
/// program could close or pass on to another process.
struct Appended(Arc<Mutex<PathBuf>>);

impl Write for Appended {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let path = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        OpenOptions::new().append(true).open(&*path)?.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Recorder {
    /// Creates a recorder. Its file at `path` holds at most `limit` bytes and at most [`WINDOWS`] windows.
    pub(crate) fn new(path: PathBuf, header: Header, limit: u64) -> Recorder {
        Recorder {
            path: Arc::new(Mutex::new(path)),
            header,
            limit,
            file: None,
            order: Vec::new(),
            is_written: Vec::new(),
            windows: 0,
            error: None,
        }
    }

    /// Returns the number of windows in the recording.
    pub(crate) fn windows(&self) -> u64 {
        self.windows
    }

    /// Returns the error that prevented the recording of further windows, or `None` if no window is missing.
    pub(crate) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Appends a window to the recording. If the file then exceeds its limits, the recorder thins the samples of the
    /// threads that have the most windows, and removes the dropped windows from the file.
    pub(crate) fn append(
        &mut self,
        window: &RecordedWindow,
        codes: &[&'static Code],
        samples: &mut ThreadSamples,
    ) {
        if self.error.is_some() {
            return;
        }
        let appended = self.try_append(window, codes, samples).and_then(|()| {
            while self.is_too_large() && self.windows > 1 {
                samples.thin();
                self.thin(codes, samples)?;
            }
            Ok(())
        });
        self.error = appended.err().map(|why| format!("{}: {why}", self.path().display()));
    }

    fn is_too_large(&self) -> bool {
        let bytes = self.file.as_ref().map_or(0, |file| file.bytes());
        bytes > self.limit || self.windows > WINDOWS
    }

    fn try_append(
        &mut self,
        window: &RecordedWindow,
        codes: &[&'static Code],
        samples: &mut ThreadSamples,
    ) -> Result<(), RecordingError> {
        if self.file.is_none() {
            self.file = Some(self.begin()?);
        }
        let file = self.file.as_mut().expect("begun above");
        file.append(window, |number| described(codes, number))?;
        self.windows += 1;
        samples.count(window.thread);
        self.is_written.resize(codes.len(), false);
        for step in &window.steps {
            if !std::mem::replace(&mut self.is_written[step.block as usize], true) {
                self.order.push(step.block);
            }
        }
        Ok(())
    }

    /// Replaces the recording file by one that contains only the windows that still belong to the samples.
    fn thin(&mut self, codes: &[&'static Code], samples: &mut ThreadSamples) -> Result<(), RecordingError> {
        let path = self.path();
        let mut old = Reader::new(BufReader::new(File::open(&path).map_err(io)?))?;
        let aside = path.with_extension("part");
        self.path = Arc::new(Mutex::new(aside.clone()));
        let order = std::mem::take(&mut self.order);
        self.is_written.clear();
        self.windows = 0;
        self.file = Some(self.begin()?);
        while let Some(mut window) = old.next_window()? {
            if samples.has(window.thread, window.start) {
                window.steps.iter_mut().for_each(|step| step.block = order[step.block as usize]);
                self.try_append(&window, codes, samples)?;
            }
        }
        std::fs::rename(&aside, &path).map_err(io)?;
        *self.path.lock().unwrap_or_else(PoisonError::into_inner) = path;
        Ok(())
    }

    fn path(&self) -> PathBuf {
        self.path.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn begin(&self) -> Result<RecordingWriter<Appended>, RecordingError> {
        File::create(self.path()).map_err(io)?;
        RecordingWriter::new(Appended(self.path.clone()), &self.header)
    }
}

fn io(error: io::Error) -> RecordingError {
    RecordingError::Io { offset: 0, error }
}

fn described(codes: &[&'static Code], number: u32) -> (&'static CodeBlock, Option<&'static str>) {
    let code = codes[number as usize];
    (&code.block, code.function.as_deref())
}
