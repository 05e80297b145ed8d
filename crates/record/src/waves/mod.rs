//! Waveforms, written a step of one period at a time.
//!
//! | format | read by |
//! |---|---|
//! | [`Vcd`]: value change dump (IEEE 1364 §18), text | everything |
//! | [`Fst`]: fast signal trace, compressed | GTKWave, Surfer |

mod fst;
mod vcd;

use crate::RecordError;

pub use fst::Fst;
pub use vcd::Vcd;

/// What a signal holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// A vector of at most 64 bits.
    Bits(u32),
    /// A word of at most [`TEXT`] characters.
    Text,
}

/// The longest word of a [`Signal::Text`], in bytes.
pub const TEXT: usize = 8;

/// A signal, by the number of its declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalId(usize);

/// A file of waveforms being written: declarations, [`begin`](Waves::begin), then steps. It appears on
/// [`finish`](Waves::finish) and not before.
pub trait Waves {
    /// Declares a signal. All of one scope are declared one after the other.
    fn signal(&mut self, scope: &str, name: &str, signal: Signal) -> SignalId;

    /// Ends the declarations.
    fn begin(&mut self) -> Result<(), RecordError>;

    /// From this step on.
    fn bits(&mut self, signal: SignalId, value: u64);

    /// From this step on. Spaces, which would end a word, become underscores.
    fn text(&mut self, signal: SignalId, value: &str);

    /// The next step.
    fn step(&mut self) -> Result<(), RecordError>;

    /// Gives the file its name.
    fn finish(self) -> Result<(), RecordError>;
}

/// Declarations and current values, which all formats keep.
#[derive(Debug, Default)]
struct Declared {
    /// Scope, name and kind of each.
    signals: Vec<(String, String, Signal)>,
    /// What each holds, in the file's own form.
    values: Vec<Vec<u8>>,
}

impl Declared {
    fn add(&mut self, scope: &str, name: &str, signal: Signal) -> SignalId {
        self.signals.push((scope.into(), name.into(), signal));
        self.values.push(Vec::new());
        SignalId(self.signals.len() - 1)
    }

    /// Whether that is another value than before.
    fn set(&mut self, id: SignalId, value: &[u8]) -> bool {
        let known = &mut self.values[id.0];
        let is_new = known != value;
        if is_new {
            known.clear();
            known.extend(value);
        }
        is_new
    }

    /// Signals with their numbers, and whether each is the first and the last of its scope.
    fn in_scopes(&self) -> impl Iterator<Item = (SignalId, &(String, String, Signal), bool, bool)> {
        let is_of = |at: usize, scope: &str| self.signals.get(at).is_some_and(|other| other.0 == scope);
        self.signals.iter().enumerate().map(move |(at, signal)| {
            let is_first = at == 0 || !is_of(at - 1, &signal.0);
            (SignalId(at), signal, is_first, !is_of(at + 1, &signal.0))
        })
    }
}

/// A word as it stands in a file.
fn word(value: &str) -> String {
    debug_assert!(value.len() <= TEXT, "{value} is longer than a word of a waveform");
    value.replace(' ', "_")
}
