//! Program that runs one kernel, for the tests of this crate. Cargo builds it together with the tests. Usage:
//! `kernels NAME [SIZE] [--rounds N]`.

fn main() -> std::process::ExitCode {
    unrack_lines_kernels::run()
}
