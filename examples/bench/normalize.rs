//! What the normalizers of agents' streams cost, over recorded streams, beside `serde_json` reading
//! the same lines to `Value`s.

use std::time::Instant;

use provost::normalizers::{acp, claude, codex};
use provost_actors::executor::Normalizer;
use serde_json::Value;

use crate::table::{Budget, Row, Unit};
use crate::transcripts::streams;
use crate::{Result, Size};

type Make = fn(&Value) -> Box<dyn Normalizer>;

pub fn measure(size: Size) -> Result<Vec<Row>> {
    let readers: [(&str, Make); 3] = [("claude", claude), ("codex", codex), ("acp_claude", acp)];
    let mut rows = Vec::new();
    for (name, make) in readers {
        let streams = streams(name)?;
        let mut rounds = Vec::new();
        for _ in 0..size.rounds(200) {
            let given = streams.clone();
            let begun = Instant::now();
            for stream in given {
                let (mut normalizer, mut out) = (make(&Value::Null), Vec::new());
                for entry in stream {
                    normalizer.raw(entry, &mut out);
                }
                normalizer.end(&mut out);
                std::hint::black_box(out);
            }
            let ours = begun.elapsed().as_secs_f64() * 1e6;
            let begun = Instant::now();
            for entry in streams.iter().flatten() {
                std::hint::black_box(serde_json::from_str::<Value>(&entry.text).ok());
            }
            rounds.push([ours, begun.elapsed().as_secs_f64() * 1e6]);
        }
        let path = format!("normalizing recorded streams, {name}");
        let budget = Budget::RatioAtMost(2.0);
        let floor = "serde_json to Value";
        rows.push(Row::beside(&path, floor, Unit::Microseconds, &rounds, budget));
    }
    Ok(rows)
}
