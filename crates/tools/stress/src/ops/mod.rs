//! Table of all operations, by name. After each operation, memory and model agree.

mod access;
mod fork;
mod maps;
mod messages;
mod programs;
mod signals;
mod syscalls;
mod threads;

pub(crate) use programs::mirror;
pub(crate) use signals::install_handlers;

use crate::worker::{Op, Worker};

const fn op(name: &'static str, weight: usize, run: fn(&mut Worker)) -> Op {
    Op { name, weight, usual: true, run }
}

/// All operations.
pub(crate) const OPS: &[Op] = &[
    op("visit", 20, access::visit),
    op("write", 16, access::write),
    op("scan", 4, access::scan),
    op("shared", 10, access::shared),
    op("heap", 16, access::heap),
    op("map", 10, maps::map),
    op("unmap", 6, maps::unmap),
    op("hole", 3, maps::hole),
    op("replace", 3, maps::replace),
    op("reserve", 3, maps::reserve),
    op("remap", 8, maps::remap),
    op("protect", 6, maps::protect),
    op("dontneed", 5, maps::dontneed),
    op("free", 4, maps::free),
    op("advise", 6, maps::advise),
    op("large", 2, maps::large),
    op("lock", 2, maps::lock),
    op("file", 3, maps::file),
    op("fork", 2, fork::fork),
    op("family", 2, fork::family),
    op("vfork", 1, fork::vfork),
    op("pipe", 4, syscalls::pipe),
    op("vector", 4, syscalls::vector),
    op("disk", 3, syscalls::disk),
    op("results", 4, syscalls::results),
    op("refused", 2, syscalls::refused),
    op("futex", 3, syscalls::futex),
    op("message", 4, messages::message),
    op("poll", 3, messages::poll),
    op("stack", 3, threads::stack),
    op("churn", 3, threads::churn),
    op("ownstack", 2, threads::own_stack),
    op("raise", 3, signals::raise),
    op("altstack", 3, signals::alternate),
    op("timer", 3, signals::timer),
    op("guard", 3, signals::guard),
    op("dlopen", 1, programs::dlopen),
    op("spawn", 1, programs::spawn),
    Op { name: "corrupt", weight: 1, usual: false, run: access::corrupt },
    Op { name: "rawfork", weight: 2, usual: false, run: fork::raw },
];
