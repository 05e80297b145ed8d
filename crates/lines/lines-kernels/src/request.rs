//! Command line.

use crate::table::{AccessKernel, KERNELS};

/// Names of working-set sizes, with the sizes in bytes. `cache` exceeds the second-level cache of current processors
/// but fits into their last-level cache, and `memory` exceeds the last-level cache.
const SIZES: [(&str, usize); 2] = [("cache", 2 << 20), ("memory", 64 << 20)];
/// Minimum and maximum working set, in bytes.
const BYTES: std::ops::RangeInclusive<usize> = 64 << 10..=16 << 30;

/// Parsed command line.
pub(crate) enum Request {
    /// Print the help.
    Help,
    /// List the names of all kernels.
    List,
    /// Run a kernel.
    Run { kernel: &'static AccessKernel, bytes: usize, rounds: u64 },
}

impl Request {
    /// Parses the arguments after the program's name.
    ///
    /// # Errors
    /// A sentence that names the wrong argument and what is expected there.
    pub(crate) fn parse(words: &[String]) -> Result<Request, String> {
        let (mut plain, mut rounds) = (Vec::new(), None);
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            match word {
                "--help" | "-h" => return Ok(Request::Help),
                "--list" => return Ok(Request::List),
                "--rounds" => rounds = Some(count(words.next().unwrap_or(""))?),
                _ if word.starts_with('-') => {
                    return Err(format!("no option is called {word:?}; try --help"));
                }
                _ => plain.push(word),
            }
        }
        let (name, size) = match plain[..] {
            [] => return Err("a kernel's name is missing; --list prints them".into()),
            [name] => (name, "cache"),
            [name, size] => (name, size),
            _ => return Err(format!("{:?} is one word too many; expected NAME [SIZE]", plain[2])),
        };
        let kernel = KERNELS.iter().find(|kernel| kernel.name == name);
        let kernel =
            kernel.ok_or_else(|| format!("no kernel is called {name:?}; --list prints their names"))?;
        let bytes = bytes(size)?;
        let rounds = rounds.unwrap_or_else(|| (kernel.usual_items / (kernel.items)(bytes).max(1)).max(1));
        Ok(Request::Run { kernel, bytes, rounds })
    }
}

/// Returns the text of `--help`.
pub(crate) fn help() -> String {
    let lines = KERNELS.iter().map(|kernel| format!("  {:<16} {}\n", kernel.name, kernel.about));
    let usage = "unrack-lines-kernels NAME [SIZE] [--rounds N]\n\nSIZE is cache (2 MiB), memory (64 MiB), or bytes with \
                 K, M or G (default: cache).\n\nNAME, and what a round does:\n";
    usage.to_string() + &lines.collect::<String>()
}

fn count(text: &str) -> Result<u64, String> {
    let count = text.parse().ok().filter(|count| (1..=1_000_000_000).contains(count));
    count.ok_or_else(|| format!("--rounds takes a number from 1 to 1000000000, not {text:?}"))
}

fn bytes(text: &str) -> Result<usize, String> {
    if let Some((_, bytes)) = SIZES.iter().find(|(word, _)| *word == text) {
        return Ok(*bytes);
    }
    let shift = match text.bytes().last() {
        Some(b'K') => 10,
        Some(b'M') => 20,
        Some(b'G') => 30,
        _ => 0,
    };
    let digits = if shift == 0 { text } else { &text[..text.len() - 1] };
    let bytes = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes
        .filter(|bytes| BYTES.contains(bytes))
        .ok_or_else(|| format!("a size is cache, memory, or 64K to 16G (bytes with K, M or G), not {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(line: &str) -> Result<Request, String> {
        Request::parse(&line.split(' ').map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn sizes_and_rounds_are_read() {
        let Ok(Request::Run { kernel, bytes, rounds }) = parse("chase 2M --rounds 3") else { panic!() };
        assert_eq!((kernel.name, bytes, rounds), ("chase", 2 << 20, 3));
        let Ok(Request::Run { bytes, rounds, .. }) = parse("chase memory") else { panic!() };
        assert!(bytes == 64 << 20 && rounds >= 1);
    }

    #[test]
    fn mistakes_are_named() {
        for (line, part) in [
            ("chaise", "chaise"),
            ("chase 1K", "1K"),
            ("chase 99G", "99G"),
            ("chase 1M 2M", "2M"),
            ("chase --rounds 0", "--rounds"),
            ("chase --rounds", "--rounds"),
            ("--fast", "--fast"),
        ] {
            let message = parse(line).err().unwrap_or_default();
            assert!(message.contains(part), "{line}: {message}");
        }
    }

    proptest! {
        #[test]
        fn odd_words_end_in_a_message(words in proptest::collection::vec(".{0,8}", 0..4)) {
            let _ = Request::parse(&words);
        }
    }
}
