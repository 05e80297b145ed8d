//! Environment variables of a program that runs under QEMU.
//!
//! QEMU passes its own environment on to the program. Variables of the dynamic loader (`LD_*`) would also act on QEMU
//! itself. Therefore QEMU receives these variables as options (`-E NAME=VALUE`), which it sets only for the program.

use std::ffi::CString;

/// Splits the environment of a program into the variables that are set for QEMU, and the options (`-E`) of QEMU for the
/// variables of the dynamic loader.
///
/// This function reverses the order of the variables, because QEMU reverses it again when it passes the variables to
/// the program (`envlist_setenv` inserts at the head of a list).
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

/// Returns whether a variable has to be passed as an option, because it acts on the dynamic loader. A variable that
/// contains a comma stays in the environment, because QEMU would split the option at the comma.
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
