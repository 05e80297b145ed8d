//! Builds the agent, which the `unrack` command embeds. The agent has no standard library. It is not part of the workspace, because there
//! its dependencies would get features that other crates enable.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let variable = |name: &str| std::env::var_os(name).expect("cargo sets it");
    let out = PathBuf::from(variable("OUT_DIR"));
    let group = Path::new(&variable("CARGO_MANIFEST_DIR")).join("..");
    for part in [
        "agent",
        "pager/src",
        "pager/Cargo.toml",
        "pager/bytes.s",
        "wire/src",
        "wire/Cargo.toml",
        "../foundation/basis/src",
        "../foundation/basis/Cargo.toml",
    ] {
        println!("cargo::rerun-if-changed={}", group.join(part).display());
    }
    if std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() != Ok("x86_64") {
        return;
    }
    let target = std::env::var("TARGET").expect("cargo sets it");
    let checks = std::env::var_os("CARGO_CFG_DEBUG_ASSERTIONS").is_some();
    let mut cargo = Command::new(variable("CARGO"));
    cargo.args(["build", "--quiet", "--release", "--locked", "--target", &target]);
    cargo.arg("--manifest-path").arg(group.join("agent/Cargo.toml"));
    cargo.arg("--target-dir").arg(out.join("agent"));
    for check in ["debug-assertions", "overflow-checks"] {
        cargo.arg("--config").arg(format!("profile.release.{check}={checks}"));
    }
    // Cargo sets these for the crate that is being built; the agent must not inherit them.
    for name in [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "CARGO_BUILD_TARGET",
    ] {
        cargo.env_remove(name);
    }
    let status = cargo.status().expect("cargo runs");
    assert!(status.success(), "the agent cannot be built");
    println!(
        "cargo::rustc-env=UNRACK_AGENT={}",
        out.join("agent").join(target).join("release/libunrack_agent.so").display()
    );
}
