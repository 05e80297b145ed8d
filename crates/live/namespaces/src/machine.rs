//! Checks whether this machine can emulate racks, by creating the parts of a rack in a temporary namespace.

use std::path::Path;
use unrack_live::Error;
use unrack_live::iproute2::run;

/// Trials: the tool, its arguments, and the feature that the machine lacks if the tool fails.
const TRIALS: [(&str, &[&str], &str); 3] = [
    (
        "ip",
        &["link", "add", "trial0", "type", "veth", "peer", "name", "trial1"],
        "virtual links (CONFIG_VETH)",
    ),
    ("ip", &["link", "add", "trial2", "type", "bridge"], "bridges (CONFIG_BRIDGE)"),
    (
        "tc",
        &[
            "qdisc", "add", "dev", "trial0", "root", "tbf", "rate", "1mbit", "burst", "15000", "limit",
            "30000",
        ],
        "token bucket shaping (CONFIG_NET_SCH_TBF)",
    ),
];

/// Checks the requirements that can be checked without changing anything.
///
/// # Errors
/// [`Error::Lacking`] names the missing requirement.
pub(crate) fn check_machine() -> Result<(), Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::Lacking("network namespaces are made by root: run this with sudo".into()));
    }
    if !Path::new("/proc/sys/net/mptcp/enabled").exists() {
        let lacks = "this kernel lacks MPTCP (CONFIG_MPTCP), by which a connection uses all NICs of a rack";
        return Err(Error::Lacking(lacks.into()));
    }
    ["ip", "tc"].into_iter().try_for_each(|tool| run(tool, &["-V"], "").map(drop))
}

/// Checks that racks can be created here, by creating the parts of a rack in a temporary namespace.
///
/// # Errors
/// [`Error::Lacking`] names the feature that is missing or does not work.
pub fn try_machine() -> Result<(), Error> {
    check_machine()?;
    try_tools(&format!("unrack-trial-{}", std::process::id()))
}

/// Tries the tools in a temporary namespace.
///
/// # Errors
/// [`Error::Lacking`] names the feature that does not work.
pub(crate) fn try_tools(prefix: &str) -> Result<(), Error> {
    let probe = format!("{prefix}-probe");
    run("ip", &["netns", "add", &probe], "").map_err(|error| match error {
        Error::Tool { said, .. } => {
            Error::Lacking(format!("network namespaces cannot be made here (CONFIG_NET_NS): {said}"))
        }
        other => other,
    })?;
    let tried = TRIALS.iter().try_for_each(|(tool, arguments, what)| {
        let arguments: Vec<&str> = ["-n", &probe].into_iter().chain(arguments.iter().copied()).collect();
        run(tool, &arguments, "").map(drop).map_err(|error| match error {
            Error::Tool { said, .. } => Error::Lacking(format!("this kernel lacks {what}: {said}")),
            other => other,
        })
    });
    let gone = run("ip", &["netns", "delete", &probe], "").map(drop);
    tried.and(gone)
}
