//! Waveform files, which are written one step (of one period) at a time.
//!
//! | format | read by |
//! |---|---|
//! | [`Vcd`]: value change dump (IEEE 1364 §18), text | all viewers |
//! | [`Fst`]: fast signal trace, compressed | GTKWave, Surfer |

mod fst;
mod vcd;

use crate::RecordError;

pub use fst::Fst;
pub use vcd::Vcd;

/// Type of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Vector of at most 64 bits.
    Bits(u32),
    /// Word of at most [`TEXT`] characters.
    Text,
}

/// Length of the longest word of a [`Signal::Text`], in bytes.
pub const TEXT: usize = 8;

/// Number of a signal, in the order of declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalId(usize);

/// Waveform file that is being written: first the declarations, then [`begin`](Waves::begin), then the steps. The file appears only when
/// [`finish`](Waves::finish) is called.
pub trait Waves {
    /// Declares a signal. All signals of one scope must be declared consecutively.
    fn signal(&mut self, scope: &str, name: &str, signal: Signal) -> SignalId;

    /// Ends the declarations.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn begin(&mut self) -> Result<(), RecordError>;

    /// Sets the value of a vector, from the current step on.
    fn bits(&mut self, signal: SignalId, value: u64);

    /// Sets the value of a word, from the current step on. Spaces would end a word, so they are replaced by underscores.
    fn text(&mut self, signal: SignalId, value: &str);

    /// Ends the current step.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn step(&mut self) -> Result<(), RecordError>;

    /// Completes the file and gives it its final name.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn finish(self) -> Result<(), RecordError>;
}

/// Declarations and current values, which all formats need.
#[derive(Debug, Default)]
struct Declared {
    /// Scope, name and type of each signal.
    signals: Vec<(String, String, Signal)>,
    /// Current value of each signal, in the representation of the file format.
    values: Vec<Vec<u8>>,
}

impl Declared {
    fn add(&mut self, scope: &str, name: &str, signal: Signal) -> SignalId {
        self.signals.push((scope.into(), name.into(), signal));
        self.values.push(Vec::new());
        SignalId(self.signals.len() - 1)
    }

    /// Sets a value. Returns whether it differs from the previous value.
    fn set(&mut self, id: SignalId, value: &[u8]) -> bool {
        let known = &mut self.values[id.0];
        let is_new = known != value;
        if is_new {
            known.clear();
            known.extend(value);
        }
        is_new
    }

    /// Returns the signals with their numbers, and for each whether it is the first and whether it is the last of its scope.
    fn in_scopes(&self) -> impl Iterator<Item = (SignalId, &(String, String, Signal), bool, bool)> {
        let is_of = |at: usize, scope: &str| self.signals.get(at).is_some_and(|other| other.0 == scope);
        self.signals.iter().enumerate().map(move |(at, signal)| {
            let is_first = at == 0 || !is_of(at - 1, &signal.0);
            (SignalId(at), signal, is_first, !is_of(at + 1, &signal.0))
        })
    }
}

/// Returns a word in the form in which files contain it.
fn word(value: &str) -> String {
    debug_assert!(value.len() <= TEXT, "{value} is longer than a word of a waveform");
    value.replace(' ', "_")
}
