//! Numbers in readable form: three significant digits, separators between thousands, and a non-breaking space before the unit.

/// Formats a number to three significant digits, never with an exponent: `0.0123`, `1.23`, `12.3`, `1,230`.
pub(crate) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    let magnitude = value.abs();
    if magnitude >= 999.5 {
        return match value.is_sign_negative() {
            true => format!("-{}", count(magnitude.round() as u64)),
            false => count(magnitude.round() as u64),
        };
    }
    if magnitude < 1e-9 {
        return "0".into();
    }
    let first_digit = magnitude.log10().floor() as i32;
    format!("{value:.*}", (2 - first_digit).max(0) as usize)
}

/// Formats like [`number`], but without trailing zeros. It is for axis ticks and round settings.
pub(crate) fn short(value: f64) -> String {
    let text = number(value);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').into(),
        false => text,
    }
}

/// Formats a count: `1,234,567`.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a slowdown with three decimals, because small losses matter.
pub(crate) fn ratio(value: f64) -> String {
    if value >= 100.0 { number(value) } else { format!("{value:.3}") }
}

/// Formats `0.05` as `5 %`.
pub(crate) fn percent(fraction: f64) -> String {
    format!("{}\u{a0}%", short(fraction * 100.0))
}

/// Formats a local share in the given form: `25%` as `25 %`, `64MiB` unchanged.
pub(crate) fn share(local: &str) -> String {
    match local.strip_suffix('%') {
        Some(number) => format!("{}\u{a0}%", number.trim_end()),
        None => local.into(),
    }
}

/// Formats a wall time: `850 ms`, `1.23 s`, `2 min 5 s`.
pub(crate) fn seconds(s: f64) -> String {
    match s {
        s if s < 0.0 => format!("-{}", seconds(-s)),
        s if s >= 119.5 => format!("{}\u{a0}min {}\u{a0}s", (s.round() as u64) / 60, (s.round() as u64) % 60),
        s if s >= 1.0 || s == 0.0 => format!("{}\u{a0}s", number(s)),
        s if s >= 1e-3 => format!("{}\u{a0}ms", number(s * 1e3)),
        s => format!("{}\u{a0}µs", number(s * 1e6)),
    }
}

/// Formats a delay in nanoseconds: `300 ns`, `3.2 µs`, `1.5 ms`.
pub(crate) fn nanoseconds(ns: f64) -> String {
    match ns {
        ns if ns >= 1e6 => format!("{}\u{a0}ms", short(ns / 1e6)),
        ns if ns >= 1e3 => format!("{}\u{a0}µs", short(ns / 1e3)),
        ns => format!("{}\u{a0}ns", short(ns)),
    }
}

/// Formats bytes: `256 MiB`.
pub(crate) fn bytes(value: u64) -> String {
    let scaled = |power: u32| short(value as f64 / 1024f64.powi(power as i32));
    match value {
        v if v >= 1 << 30 => format!("{}\u{a0}GiB", scaled(3)),
        v if v >= 1 << 20 => format!("{}\u{a0}MiB", scaled(2)),
        v if v >= 1 << 10 => format!("{}\u{a0}KiB", scaled(1)),
        v => format!("{v}\u{a0}B"),
    }
}

/// Formats a rate: `100 Gb/s`.
pub(crate) fn rate(bps: u64) -> String {
    match bps {
        b if b >= 1_000_000_000 => format!("{}\u{a0}Gb/s", short(b as f64 / 1e9)),
        b => format!("{}\u{a0}Mb/s", short(b as f64 / 1e6)),
    }
}

/// Returns the command as typed, for headings. Arguments with blanks are quoted.
pub(crate) fn command_line(command: &[String]) -> String {
    let quoted = |word: &String| match word.is_empty() || word.contains(char::is_whitespace) {
        true => format!("'{word}'"),
        false => word.clone(),
    };
    command.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Interpreters. Their first argument is a script, which is the program that people mean.
const INTERPRETERS: [&str; 9] = ["python", "sh", "bash", "dash", "perl", "ruby", "node", "julia", "Rscript"];

/// Returns the file name of the program without its folders. If the program is an interpreter, returns the file name of the script.
pub(crate) fn program(command: &[String]) -> &str {
    let name = |word: &'_ String| -> usize { word.rfind('/').map_or(0, |slash| slash + 1) };
    let Some(first) = command.first() else { return "the program" };
    let interpreter = first[name(first)..].trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let script = command.get(1).filter(|word| INTERPRETERS.contains(&interpreter) && !word.starts_with('-'));
    let word = script.unwrap_or(first);
    &word[name(word)..]
}

/// Returns at most `limit` characters; an ellipsis replaces the rest.
pub(crate) fn shortened(text: &str, limit: usize) -> String {
    match text.chars().count() > limit {
        true => text.chars().take(limit.saturating_sub(1)).chain(['…']).collect(),
        false => text.into(),
    }
}

/// Joins items: `edm`, `edm and cxl`, `edm, cxl and dctcp`.
pub(crate) fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        let cases = [(0.0, "0"), (0.01234, "0.0123"), (1.2345, "1.23"), (99.96, "100.0"), (123.4, "123")];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        assert_eq!(number(1234567.0), "1,234,567");
        assert_eq!(number(-2500.0), "-2,500");
        assert_eq!(number(f64::NAN), "–");
        assert_eq!(short(5.0), "5");
        assert_eq!(short(2.5), "2.5");
    }

    #[test]
    fn quantities_choose_their_unit() {
        assert_eq!(seconds(0.0123), "12.3\u{a0}ms");
        assert_eq!(seconds(125.0), "2\u{a0}min 5\u{a0}s");
        assert_eq!(seconds(-2.5), "-2.50\u{a0}s", "where a line meets the axis");
        assert_eq!(nanoseconds(3200.0), "3.2\u{a0}µs");
        assert_eq!(bytes(64 << 20), "64\u{a0}MiB");
        assert_eq!(rate(40_000_000_000), "40\u{a0}Gb/s");
        assert_eq!(percent(0.05), "5\u{a0}%");
        assert_eq!(count(1_000), "1,000");
    }

    #[test]
    fn text_is_listed_and_shortened() {
        assert_eq!(listed(&["a".into(), "b".into(), "c".into()]), "a, b and c");
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(command_line(&["sort".into(), "my file".into()]), "sort 'my file'");
        let program_of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).into()).collect();
            program(&words).to_string()
        };
        assert_eq!(program_of(&["/usr/bin/sort", "a.txt"]), "sort");
        assert_eq!(program_of(&["python3.11", "examples/job.py", "9"]), "job.py");
        assert_eq!(program_of(&["sh", "-c", "sort a.txt"]), "sh");
        assert_eq!(program_of(&["python3"]), "python3");
        assert_eq!(program_of(&[]), "the program");
    }
}
