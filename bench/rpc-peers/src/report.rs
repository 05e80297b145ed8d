//! Prints the results as tables and as JSON.

use crate::harness::Cell;

const OURS: &str = "unrack";

pub fn tables(cells: &[Cell], sizes: &[usize]) {
    table("round trip, p50 ns", cells, sizes, |cell| Some(cell.median(|round| round.p50_ns)));
    table("round trip, p99 ns", cells, sizes, |cell| Some(cell.median(|round| round.p99_ns)));
    table("1,000 calls/s", cells, sizes, |cell| Some(1e6 / cell.median(|round| round.p50_ns)));
    table("1,000 calls/s, window 16", cells, sizes, |cell| cell.windowed().map(|calls| calls / 1e3));
    table("p50 as a multiple of ours", cells, sizes, |cell| {
        let ours = cells.iter().find(|other| other.peer == OURS && other.size == cell.size)?;
        Some(cell.median(|round| round.p50_ns) / ours.median(|round| round.p50_ns))
    });
}

fn names(cells: &[Cell]) -> Vec<&'static str> {
    let mut names = Vec::new();
    for cell in cells {
        if !names.contains(&cell.peer) {
            names.push(cell.peer);
        }
    }
    names
}

fn table(title: &str, cells: &[Cell], sizes: &[usize], figure: impl Fn(&Cell) -> Option<f64>) {
    if cells.iter().all(|cell| figure(cell).is_none()) {
        return;
    }
    println!("\n{title:<28}{}", sizes.iter().map(|size| format!("{:>12}", bytes(*size))).collect::<String>());
    for name in names(cells) {
        let row: Vec<_> = sizes
            .iter()
            .map(|&size| cells.iter().find(|cell| cell.peer == name && cell.size == size).and_then(&figure))
            .collect();
        if row.iter().any(Option::is_some) {
            let row: String = row
                .into_iter()
                .map(|value| value.map_or(format!("{:>12}", "-"), |value| format!("{:>12}", digits(value))))
                .collect();
            println!("{name:<28}{row}");
        }
    }
}

fn bytes(size: usize) -> String {
    match size {
        size if size >= 1 << 20 => format!("{} MiB", size >> 20),
        size if size >= 1 << 10 => format!("{} KiB", size >> 10),
        size => format!("{size} B"),
    }
}

fn digits(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

pub fn json(cells: &[Cell]) -> serde_json::Value {
    let cells: Vec<_> = cells
        .iter()
        .map(|cell| {
            serde_json::json!({
                "peer": cell.peer,
                "bytes": cell.size,
                "p50_ns": cell.median(|round| round.p50_ns),
                "p99_ns": cell.median(|round| round.p99_ns),
                "window_16_calls_per_s": cell.windowed(),
            })
        })
        .collect();
    serde_json::json!({ "cells": cells })
}
