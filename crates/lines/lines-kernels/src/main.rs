//! Executable of the kernels.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    unrack_lines_kernels::run()
}
