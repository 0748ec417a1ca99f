//! The table: what was injected, what was checked after it, and what failed.

use std::fmt;

use crate::faults::FAULTS;

#[derive(Clone, Copy, Default)]
struct Row {
    injected: u32,
    /// Died where it was to, and not only about then.
    reached: u32,
    checks: u64,
    failures: u32,
}

pub struct Table {
    rows: Vec<Row>,
}

impl Table {
    pub fn new() -> Self {
        Self { rows: vec![Row::default(); FAULTS.len()] }
    }

    pub fn injected(&mut self, fault: usize, is_reached: bool) {
        self.rows[fault].injected += 1;
        self.rows[fault].reached += u32::from(is_reached);
    }

    pub fn checked(&mut self, fault: usize, checks: u64, failures: u32) {
        self.rows[fault].checks += checks;
        self.rows[fault].failures += failures;
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| who is killed | times | on the spot | checks | failures |")?;
        writeln!(f, "|---|--:|--:|--:|--:|")?;
        let mut sum = Row::default();
        for (fault, row) in FAULTS.iter().zip(&self.rows) {
            let Row { injected, reached, checks, failures } = *row;
            writeln!(f, "| {} | {injected} | {reached} | {checks} | {failures} |", fault.name)?;
            sum.injected += injected;
            sum.reached += reached;
            sum.checks += checks;
            sum.failures += failures;
        }
        let Row { injected, reached, checks, failures } = sum;
        write!(f, "| **all** | {injected} | {reached} | {checks} | {failures} |")
    }
}
