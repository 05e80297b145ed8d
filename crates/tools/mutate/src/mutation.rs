//! Mutations: random damage to valid inputs.

use crate::draws::Draws;
use toml::{Table, Value};

/// Grammar of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grammar {
    Toml,
    /// Lines that consist of words.
    Lines,
    Bytes,
}

/// Numbers and quantities at the limits of types and beyond them.
const EXTREMES: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "255",
    "256",
    "65535",
    "65536",
    "2147483647",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "99999999999999999999999",
    "1e999",
    "5e-324",
    "nan",
    "inf",
    "-0.0",
    "0.5",
    "1e-16",
    "0ps",
    "1ps",
    "17280000s",
    "18446744073709551615ps",
    "0B",
    "1B",
    "4GiB",
    "18446744073709551615B",
    "1bps",
    "1Mbps",
    "100Tbps",
    "18446744073709551615bps",
    "0%",
    "100%",
    "1e-300%",
    "true",
    "\"\"",
    "[]",
    "{}",
    "0x7fffffffffffffff",
    "µ",
    "\u{0}",
    "\"\u{7f}\"",
];
/// Maximum number of steps of one mutation.
const MOST_STEPS: usize = 4;
/// Maximum bytes of a mutated input. It is small because size limits of readers are tested elsewhere.
const MOST_BYTES: usize = 64 << 10;

/// Returns `good` with a few changes. `other` is another valid input, `words` are the words of all valid inputs.
pub fn mutated(grammar: Grammar, good: &[u8], other: &[u8], words: &[String], draws: &mut Draws) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..1 + draws.below(MOST_STEPS) {
        bytes = match grammar {
            // Text that is not valid TOML any more is damaged by words, because it could not be changed as a tree.
            Grammar::Toml if draws.below(4) > 0 => by_tree(&bytes, other, words, draws),
            Grammar::Toml | Grammar::Lines if draws.below(8) > 0 => by_words(&bytes, words, draws),
            _ => by_bytes(bytes, other, draws),
        };
        bytes.truncate(MOST_BYTES);
    }
    bytes
}

/// Splits a text into words, and the single characters between words.
pub fn words_of(text: &str) -> Vec<String> {
    let is_word = |c: char| c.is_alphanumeric() || "_.-%".contains(c);
    let mut words: Vec<String> = Vec::new();
    let mut before = None;
    for c in text.chars() {
        match words.last_mut() {
            Some(word) if before == Some(true) && is_word(c) => word.push(c),
            _ => words.push(c.into()),
        }
        before = Some(is_word(c));
    }
    words
}

fn by_words(bytes: &[u8], known: &[String], draws: &mut Draws) -> Vec<u8> {
    let mut words = words_of(&String::from_utf8_lossy(bytes));
    let (at, to) = (draws.below(words.len()), draws.below(words.len()));
    if words.is_empty() {
        words.push(String::new());
    }
    match draws.below(6) {
        0 => words[at] = (*draws.one_of(EXTREMES).unwrap_or(&"")).into(),
        1 => words[at] = draws.one_of(known).cloned().unwrap_or_default(),
        2 => words.insert(at, draws.one_of(known).cloned().unwrap_or_default()),
        3 => drop(words.remove(at)),
        4 => words.swap(at, to),
        _ => return by_lines(&words.concat(), draws),
    }
    words.concat().into_bytes()
}

fn by_lines(text: &str, draws: &mut Draws) -> Vec<u8> {
    let mut lines: Vec<&str> = text.lines().collect();
    let (at, to) = (draws.below(lines.len()), draws.below(lines.len()));
    match draws.below(3) {
        _ if lines.is_empty() => {}
        0 => drop(lines.remove(at)),
        1 => lines.insert(to, lines[at]),
        _ => lines.swap(at, to),
    }
    lines.join("\n").into_bytes()
}

fn by_bytes(mut bytes: Vec<u8>, other: &[u8], draws: &mut Draws) -> Vec<u8> {
    // Half of the positions are near the end, because Parquet files have their metadata there.
    let near_end = bytes.len().saturating_sub(1 + draws.below(1024));
    let at = if draws.once_in(2) { near_end } else { draws.below(bytes.len()) };
    match draws.below(6) {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, draws.next() as u8),
        2 => bytes
            .splice(at.., other.get(draws.below(other.len())..).unwrap_or_default().iter().copied())
            .for_each(drop),
        3 => {
            let number = [0, 1, u64::MAX, 1 << 31, 1 << 63, draws.next()][draws.below(6)].to_le_bytes();
            let width = [1, 2, 4, 8][draws.below(4)];
            let end = bytes.len().min(at + width);
            bytes[at..end].copy_from_slice(&number[..end - at]);
        }
        _ if bytes.is_empty() => bytes.push(draws.next() as u8),
        _ => bytes[at] ^= 1 << draws.below(8),
    }
    bytes
}

fn by_tree(bytes: &[u8], other: &[u8], words: &[String], draws: &mut Draws) -> Vec<u8> {
    let parse = |bytes: &[u8]| String::from_utf8_lossy(bytes).parse::<Table>().ok();
    let Some(mut table) = parse(bytes) else { return by_words(bytes, words, draws) };
    let from = parse(other).unwrap_or_else(|| table.clone());
    let depth = draws.below(5);
    change(&mut table, &from, depth, words, draws);
    toml::to_string(&table).map_or_else(|_| by_words(bytes, words, draws), String::into_bytes)
}

/// Changes one entry of a table, at most `depth` levels down.
fn change(table: &mut Table, from: &Table, depth: usize, words: &[String], draws: &mut Draws) {
    let keys: Vec<String> = table.keys().cloned().collect();
    let Some(key) = draws.one_of(&keys).cloned() else { return };
    let other = match from.get(&key) {
        Some(Value::Table(other)) => other.clone(),
        _ => from.clone(),
    };
    match table.get_mut(&key) {
        Some(Value::Table(inner)) if depth > 0 => return change(inner, &other, depth - 1, words, draws),
        Some(Value::Array(values)) if depth > 0 && !values.is_empty() => {
            let at = draws.below(values.len());
            match &mut values[at] {
                Value::Table(inner) => return change(inner, &other, depth - 1, words, draws),
                value => *value = another(value, draws),
            }
            return;
        }
        _ => {}
    }
    match draws.below(6) {
        0 => drop(table.remove(&key)),
        1 => drop(draws.one_of(words).and_then(|name| table.insert(name.clone(), Value::Integer(1)))),
        2 => {
            let entries: Vec<(&String, &Value)> = from.iter().collect();
            if let Some((name, value)) = draws.one_of(&entries) {
                table.insert((*name).clone(), (*value).clone());
            }
        }
        _ => {
            let value = table.get(&key).map_or(Value::Integer(0), |value| another(value, draws));
            table.insert(key, value);
        }
    }
}

/// Returns another value of the same type or of another type, mostly an extreme one.
fn another(value: &Value, draws: &mut Draws) -> Value {
    let text = (*draws.one_of(EXTREMES).unwrap_or(&"0")).to_string();
    match draws.below(4) {
        0 => Value::Array(vec![value.clone(), Value::String(text)]),
        1 => Value::String(text),
        _ => match value {
            Value::Integer(_) => Value::Integer(text.parse().unwrap_or(draws.next() as i64)),
            Value::Float(_) => Value::Float(text.parse().unwrap_or(f64::NAN)),
            Value::Boolean(value) => Value::Boolean(!value),
            Value::Table(table) => Value::Array(vec![Value::Table(table.clone())]),
            _ => Value::String(text),
        },
    }
}
