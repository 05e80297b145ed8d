//! Suggestions ("did you mean"): the known word that is nearest to a misspelt one.

/// Returns `` ; did you mean `x`? `` if a known word is near, otherwise a list of all known words.
pub fn hint(word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => format!("; use {}", one_of(known)),
    }
}

/// Joins words in the form `a`, `b` or `c`.
pub fn one_of(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => "nothing".into(),
    }
}

/// Returns the known word that is nearest to `word`, ignoring case, if it differs by at most one edit per three characters of `word` (one
/// edit is always permitted). Otherwise returns a known word that contains `word` or is contained in it, if there is one.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let word = word.to_lowercase();
    let length = word.chars().count();
    if length > LONGEST {
        return None;
    }
    let distance = |known: &str| strsim::osa_distance(&word, &known.to_lowercase());
    // Among equally near words, one that begins with the written word is preferred.
    let rank = |known: &'a str| (distance(known), !known.to_lowercase().starts_with(&word), known);
    let (edits, _, near) = known.iter().map(|&known| rank(known)).min()?;
    let within = |known: &&&str| length >= 3 && (known.contains(&word) || word.contains(**known));
    if edits <= (length / 3).max(1) { Some(near) } else { known.iter().find(within).copied() }
}

/// Longest word that is compared, in characters. It is limited because the time grows with the square of the length.
const LONGEST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_words_are_proposed() {
        let known = ["rate", "propagation", "protocol"];
        assert_eq!(nearest("Ratee", &known), Some("rate"));
        assert_eq!(nearest("propogaton", &known), Some("propagation"));
        assert_eq!(nearest("protcol", &known), Some("protocol"));
        assert_eq!(nearest("link_rate", &known), Some("rate"));
        assert_eq!(nearest("latency", &known), None);
        assert_eq!(nearest("", &known), None);
        assert_eq!(nearest(&"rate".repeat(20), &known), None, "too long to be compared");
    }

    #[test]
    fn case_is_no_edit() {
        assert_eq!(nearest("gbps", &["Mbps", "Gbps"]), Some("Gbps"));
        assert_eq!(nearest("EDM", &["edm", "cxl"]), Some("edm"));
    }

    #[test]
    fn a_word_that_was_cut_short_goes_on() {
        assert_eq!(nearest("edm/fig8", &["edm/fig6", "edm/fig7", "edm/fig8a"]), Some("edm/fig8a"));
    }

    #[test]
    fn words_are_listed() {
        assert_eq!(hint("x", &["alpha"]), "; use `alpha`");
        assert_eq!(hint("x", &["alpha", "beta", "gamma"]), "; use `alpha`, `beta` or `gamma`");
    }
}
