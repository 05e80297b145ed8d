//! Environment of a program that QEMU runs.
//!
//! QEMU passes its own environment on. Variables of the dynamic loader would also act on QEMU itself, so it gets them as
//! options (`-E NAME=VALUE`).

use std::ffi::CString;

/// Splits an environment into the variables that QEMU gets, and its options for the others.
///
/// QEMU hands variables on in the reverse of their order (`envlist_setenv` inserts at the head): they are reversed here.
pub fn split(environment: Vec<CString>) -> (Vec<CString>, Vec<CString>) {
    let (mut kept, mut options) = (Vec::new(), Vec::new());
    for variable in environment.into_iter().rev() {
        if is_of_loader(&variable) {
            options.push(c"-E".into());
            options.push(variable);
        } else {
            kept.push(variable);
        }
    }
    (kept, options)
}

/// Tells whether a variable acts on the dynamic loader. One with a comma cannot be an option: QEMU would split it.
fn is_of_loader(variable: &CString) -> bool {
    variable.as_bytes().starts_with(b"LD_") && !variable.as_bytes().contains(&b',')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_the_loader_become_options() {
        let words =
            |words: &[&str]| words.iter().map(|word| CString::new(*word).unwrap()).collect::<Vec<_>>();
        let (kept, options) = split(words(&["A=1", "LD_PRELOAD=/x.so", "LD_X=a,b", "B=2"]));
        assert_eq!(kept, words(&["B=2", "LD_X=a,b", "A=1"]));
        assert_eq!(options, words(&["-E", "LD_PRELOAD=/x.so"]));
    }
}
