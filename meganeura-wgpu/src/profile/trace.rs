//! The profile as a trace for `chrome://tracing` and <https://ui.perfetto.dev>.
//!
//! Source of the format: Google, "Trace Event Format" (complete events `X`, metadata events `M`; times in microseconds).

use super::json::dispatch;
use super::{HostSpan, Profile};
use serde_json::{Value, json};
use web_time::Instant;

/// Process numbers of the two kinds of tracks.
const HOST: u32 = 1;
const DEVICE: u32 = 2;

impl Profile {
    /// Every dispatch of every timed step, and spans of the host, on one time line. A step's dispatches start where the host
    /// submitted it: the clocks of host and GPU have no common zero, so that the true start is somewhat later.
    ///
    /// `otherData` holds what [`Profile::json`] gives.
    pub fn trace(&self, host: &[HostSpan]) -> Value {
        let begins = host.iter().map(|span| span.start).chain(self.steps.iter().map(|step| step.submitted));
        let zero = begins.min().unwrap_or_else(Instant::now);
        let micros = |at: Instant| at.saturating_duration_since(zero).as_secs_f64() * 1e6;
        let mut events = vec![name("process_name", HOST, 0, "host"), name("process_name", DEVICE, 0, &self.device)];
        events.push(name("thread_name", DEVICE, 0, "dispatches"));
        events.push(name("thread_name", DEVICE, 1, "steps"));
        let mut threads: Vec<(u32, &str)> = host.iter().map(|span| (span.thread, span.thread_name.as_str())).collect();
        threads.sort_unstable();
        threads.dedup_by_key(|(thread, _)| *thread);
        events.extend(threads.into_iter().map(|(thread, text)| name("thread_name", HOST, thread, text)));
        events.extend(host.iter().map(|span| {
            let duration = micros(span.end) - micros(span.start);
            let args = json!({ "target": span.target });
            let text = [span.name.as_str(), &span.fields].join(" ");
            complete(text.trim_end(), HOST, span.thread, [micros(span.start), duration], args)
        }));
        for (number, step) in self.steps.iter().enumerate() {
            let submitted = micros(step.submitted);
            let end = step.dispatches.last().map_or(0.0, |[_, end]| end * 1e6);
            events.push(complete(&format!("step {number}"), DEVICE, 1, [submitted, end], json!({})));
            for ([start, end], profile) in step.dispatches.iter().zip(&self.dispatches) {
                let span = [submitted + start * 1e6, (end - start) * 1e6];
                events.push(complete(&profile.label, DEVICE, 0, span, dispatch(profile)));
            }
        }
        json!({ "traceEvents": events, "displayTimeUnit": "ns", "otherData": self.json() })
    }
}

/// Names a track.
fn name(what: &str, process: u32, thread: u32, text: &str) -> Value {
    json!({ "ph": "M", "name": what, "pid": process, "tid": thread, "args": { "name": text } })
}

/// Something that took from `span[0]` on `span[1]` microseconds.
fn complete(text: &str, process: u32, thread: u32, span: [f64; 2], args: Value) -> Value {
    json!({ "ph": "X", "name": text, "pid": process, "tid": thread, "ts": span[0], "dur": span[1], "args": args })
}
