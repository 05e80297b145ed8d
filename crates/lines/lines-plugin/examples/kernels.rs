//! Kernels for the tests of this crate, which cargo builds with them: `kernels NAME [SIZE] [--rounds N]`.

fn main() -> std::process::ExitCode {
    unrack_lines_kernels::run()
}
