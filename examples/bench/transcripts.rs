//! The recorded streams of executors: what the normalizers are measured on.

use std::io;
use std::path::Path;

use provost_actors::event::{RawEntry, Stream, Timestamp};
use provost_actors::ids::ProcessId;

/// What a program wrote to stdout in each recorded scenario, in the order of their names.
pub fn streams(program: &str) -> io::Result<Vec<Vec<RawEntry>>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts").join(program);
    let scenarios: io::Result<Vec<_>> = std::fs::read_dir(folder)?.collect();
    let mut scenarios = scenarios?;
    scenarios.sort_by_key(std::fs::DirEntry::file_name);
    let process = ProcessId::new();
    let mut streams = Vec::new();
    for scenario in scenarios {
        let text = std::fs::read_to_string(scenario.path().join("stdout"))?;
        let entry = |(entry_index, line): (u64, &str)| RawEntry {
            entry_index,
            at: Timestamp::from_millis(0),
            execution_process_id: process,
            stream: Stream::Stdout,
            text: line.to_owned(),
            continued: false,
            lossy: false,
        };
        streams.push((0..).zip(text.lines()).map(entry).collect());
    }
    Ok(streams)
}
