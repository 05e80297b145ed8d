//! Waveforms: value change dumps (IEEE 1364 §18), which GTKWave and Surfer read.

use std::io::{BufWriter, Write};
use std::path::Path;

use crate::{AtomicFile, RecordError};

/// What a signal holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// A vector of at most 64 bits.
    Bits(u32),
    /// A word, which viewers show as it is.
    Text,
}

/// A dump being written, a step of one period at a time. The file appears on [`Vcd::finish`] and not before.
pub struct Vcd {
    file: BufWriter<AtomicFile>,
    period_ps: u64,
    steps: u64,
    /// (scope, declaration) of each, and what it holds now.
    signals: Vec<(String, String)>,
    values: Vec<String>,
    changes: String,
}

/// A signal, by the number of its declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalId(usize);

impl Vcd {
    pub fn create(path: impl AsRef<Path>, period_ps: u64) -> Result<Vcd, RecordError> {
        let file = BufWriter::new(AtomicFile::create(path)?);
        let (signals, values) = (Vec::new(), Vec::new());
        Ok(Vcd { file, period_ps, steps: 0, signals, values, changes: String::new() })
    }

    /// Declares a signal. All of one scope are declared one after the other, and before [`Vcd::begin`].
    pub fn signal(&mut self, scope: &str, name: &str, signal: Signal) -> SignalId {
        let id = SignalId(self.signals.len());
        let kind = match signal {
            Signal::Bits(width) => format!("wire {width}"),
            Signal::Text => "string 1".into(),
        };
        self.signals.push((scope.to_string(), format!("$var {kind} {} {name} $end", code(id))));
        self.values.push(String::new());
        id
    }

    /// Ends the declarations.
    pub fn begin(&mut self) -> Result<(), RecordError> {
        let version = env!("CARGO_PKG_VERSION");
        let mut text = format!("$version unrack {version} $end\n$timescale 1ps $end\n");
        for (at, (scope, declaration)) in self.signals.iter().enumerate() {
            if at == 0 || self.signals[at - 1].0 != *scope {
                text += &format!("$scope module {scope} $end\n");
            }
            text += &format!("{declaration}\n");
            if self.signals.get(at + 1).is_none_or(|next| next.0 != *scope) {
                text += "$upscope $end\n";
            }
        }
        text += "$enddefinitions $end\n";
        self.write(&text)
    }

    /// From this step on.
    pub fn bits(&mut self, signal: SignalId, value: u64) {
        self.set(signal, format!("b{value:b} {}\n", code(signal)));
    }

    /// From this step on. Spaces would end a word: they become underscores.
    pub fn text(&mut self, signal: SignalId, value: &str) {
        self.set(signal, format!("s{} {}\n", value.replace(' ', "_"), code(signal)));
    }

    /// The next step.
    pub fn step(&mut self) -> Result<(), RecordError> {
        let changes = std::mem::take(&mut self.changes);
        if !changes.is_empty() {
            let time = self.steps * self.period_ps;
            self.write(&format!("#{time}\n{changes}"))?;
        }
        self.steps += 1;
        Ok(())
    }

    /// Gives the file its name.
    pub fn finish(mut self) -> Result<(), RecordError> {
        let time = self.steps * self.period_ps;
        self.write(&format!("#{time}\n"))?;
        let path = self.file.get_ref().path().to_path_buf();
        let file = self.file.into_inner().map_err(|why| RecordError::io("write", &path)(why.into_error()))?;
        file.commit()
    }

    fn set(&mut self, signal: SignalId, value: String) {
        if self.values[signal.0] != value {
            self.changes += &value;
            self.values[signal.0] = value;
        }
    }

    fn write(&mut self, text: &str) -> Result<(), RecordError> {
        let written = self.file.write_all(text.as_bytes());
        written.map_err(|why| RecordError::io("write", self.file.get_ref().path())(why))
    }
}

/// Printable characters, as short as can be.
fn code(SignalId(mut number): SignalId) -> String {
    let mut code = String::new();
    loop {
        code.push(char::from(b'!' + (number % 94) as u8));
        number /= 94;
        if number == 0 {
            return code;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_are_written() {
        let path = std::env::temp_dir().join(format!("unrack-vcd-{}.vcd", std::process::id()));
        let mut vcd = Vcd::create(&path, 2_560).unwrap();
        let (bits, text) = (vcd.signal("a", "x", Signal::Bits(4)), vcd.signal("b", "y", Signal::Text));
        vcd.begin().unwrap();
        for value in [5, 5, 6] {
            vcd.bits(bits, value);
            vcd.text(text, "two words");
            vcd.step().unwrap();
        }
        vcd.finish().unwrap();
        let said = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        let (head, body) = said.split_once("$enddefinitions $end\n").unwrap();
        assert!(head.contains("$scope module a $end\n$var wire 4 ! x $end\n$upscope $end\n"), "{head}");
        assert_eq!(body, "#0\nb101 !\nstwo_words \"\n#5120\nb110 !\n#7680\n");
    }
}
