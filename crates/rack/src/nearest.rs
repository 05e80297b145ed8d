//! "Did you mean": the known word nearest to what was written.

/// `; did you mean `x`?`, or else what there is.
pub(crate) fn hint(word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => format!("; use {}", one_of(known)),
    }
}

/// `a`, `b` or `c`.
pub(crate) fn one_of(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => "nothing".into(),
    }
}

/// The nearest of `known`, if it takes no more than one edit per three characters, or contains
/// the word, or is contained in it.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let word = word.to_lowercase();
    if word.chars().count() > 64 {
        return None;
    }
    let (distance, near) = known.iter().map(|&k| (distance(&word, k), k)).min()?;
    let allowed = (word.chars().count() / 3).max(1);
    let within = |k: &&&str| word.len() >= 3 && (k.contains(&word) || word.contains(**k));
    if distance <= allowed { Some(near) } else { known.iter().find(within).copied() }
}

/// Optimal string alignment: insertions, deletions, substitutions, swaps of neighbours.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let substitution = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = substitution.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (a, b, edits) in [("rate", "rate", 0), ("ratee", "rate", 1), ("arte", "rate", 1), ("", "mtu", 3)]
        {
            assert_eq!((distance(a, b), distance(b, a)), (edits, edits), "{a} {b}");
        }
    }

    #[test]
    fn only_near_words_are_proposed() {
        let known = ["rate", "propagation", "protocol"];
        assert_eq!(nearest("Ratee", &known), Some("rate"));
        assert_eq!(nearest("propogaton", &known), Some("propagation"));
        assert_eq!(nearest("link_rate", &known), Some("rate"));
        assert_eq!(nearest("latency", &known), None);
        assert_eq!(nearest("", &known), None);
    }

    #[test]
    fn words_are_listed() {
        assert_eq!(hint("x", &["alpha"]), "; use `alpha`");
        assert_eq!(hint("x", &["alpha", "beta", "gamma"]), "; use `alpha`, `beta` or `gamma`");
    }
}
