//! Value change dumps (IEEE 1364 §18).
//!
//! This writer does not use the crate `vcd`, because that crate formats the same declarations differently: files of this version must equal
//! those of earlier versions byte by byte.

use super::{Declared, Signal, SignalId, Waves, word};
use crate::{AtomicFile, RecordError};
use std::io::{BufWriter, Write};
use std::path::Path;

/// Dump that is being written.
pub struct Vcd {
    file: BufWriter<AtomicFile>,
    period_ps: u64,
    steps: u64,
    declared: Declared,
    changes: String,
}

impl Vcd {
    /// Starts a dump in the file `path`, with steps of `period_ps`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(path: impl AsRef<Path>, period_ps: u64) -> Result<Vcd, RecordError> {
        let file = BufWriter::new(AtomicFile::create(path)?);
        Ok(Vcd { file, period_ps, steps: 0, declared: Declared::default(), changes: String::new() })
    }

    fn set(&mut self, signal: SignalId, value: &str) {
        if self.declared.set(signal, value.as_bytes()) {
            self.changes += &format!("{value} {}\n", code(signal));
        }
    }

    fn write(&mut self, text: &str) -> Result<(), RecordError> {
        let written = self.file.write_all(text.as_bytes());
        written.map_err(|why| RecordError::io("write", self.file.get_ref().path())(why))
    }
}

impl Waves for Vcd {
    fn signal(&mut self, scope: &str, name: &str, signal: Signal) -> SignalId {
        self.declared.add(scope, name, signal)
    }

    fn begin(&mut self) -> Result<(), RecordError> {
        let version = env!("CARGO_PKG_VERSION");
        let mut text = format!("$version unrack {version} $end\n$timescale 1ps $end\n");
        for (id, (scope, name, signal), is_first, is_last) in self.declared.in_scopes() {
            if is_first {
                text += &format!("$scope module {scope} $end\n");
            }
            let kind = match signal {
                Signal::Bits(width) => format!("wire {width}"),
                Signal::Text => "string 1".into(),
            };
            text += &format!("$var {kind} {} {name} $end\n", code(id));
            if is_last {
                text += "$upscope $end\n";
            }
        }
        text += "$enddefinitions $end\n";
        self.write(&text)
    }

    fn bits(&mut self, signal: SignalId, value: u64) {
        self.set(signal, &format!("b{value:b}"));
    }

    fn text(&mut self, signal: SignalId, value: &str) {
        self.set(signal, &format!("s{}", word(value)));
    }

    fn step(&mut self) -> Result<(), RecordError> {
        let changes = std::mem::take(&mut self.changes);
        if !changes.is_empty() {
            let time = self.steps * self.period_ps;
            self.write(&format!("#{time}\n{changes}"))?;
        }
        self.steps += 1;
        Ok(())
    }

    fn finish(mut self) -> Result<(), RecordError> {
        let time = self.steps * self.period_ps;
        self.write(&format!("#{time}\n"))?;
        let path = self.file.get_ref().path().to_path_buf();
        let file = self.file.into_inner().map_err(|why| RecordError::io("write", &path)(why.into_error()))?;
        file.commit()
    }
}

/// Returns the identifier of a signal, with as few printable characters as possible.
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
        let folder = unrack_testing::TestFolder::new("vcd");
        let path = folder.join("some.vcd");
        let mut vcd = Vcd::create(&path, 2_560).unwrap();
        let (bits, text) = (vcd.signal("a", "x", Signal::Bits(4)), vcd.signal("b", "y", Signal::Text));
        vcd.begin().unwrap();
        for value in [5, 5, 6] {
            vcd.bits(bits, value);
            vcd.text(text, "2 words");
            vcd.step().unwrap();
        }
        vcd.finish().unwrap();
        let said = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        let (head, body) = said.split_once("$enddefinitions $end\n").unwrap();
        assert!(head.contains("$scope module a $end\n$var wire 4 ! x $end\n$upscope $end\n"), "{head}");
        assert_eq!(body, "#0\nb101 !\ns2_words \"\n#5120\nb110 !\n#7680\n");
    }
}
