//! A log of JSON lines.

use super::event::{Event, Observer, ObserverError};
use super::history::History;
use crate::checkpoint::{CheckpointError, write_whole};
use serde_json::{Map, Value, json};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use web_time::Instant;

/// Writes each event as a line of JSON, at once. What is no number (`NaN`, infinities) is `null`.
///
/// Lines have `event` (`step`, `validation`, `saved`, `end`), `step`, `epoch`, and what else the event has:
/// `{"event":"step","step":12,"epoch":0,"loss":0.5,"rate":0.003,"gradient_norm":1.2,"per_second":9000.0,"seconds":0.8}`.
/// `seconds` counts from the making of the log.
#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
    file: File,
    start: Instant,
}

impl EventLog {
    /// A new log; a file of that name is replaced.
    ///
    /// # Errors
    /// [`CheckpointError::Io`].
    pub fn create(path: impl Into<PathBuf>) -> Result<EventLog, CheckpointError> {
        let path = path.into();
        write_whole(&path, b"")?;
        EventLog::append(path)
    }

    /// Goes on with a log after `step` steps: events beyond them, which happen again, and what a crash left of a line are
    /// taken out. Without a file of that name a new log.
    ///
    /// # Errors
    /// [`CheckpointError::Io`].
    pub fn resume(path: impl Into<PathBuf>, step: u64) -> Result<(EventLog, History), CheckpointError> {
        let path = path.into();
        let text = match std::fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(source) => return Err(CheckpointError::Io { path, action: "read", source }),
        };
        let mut history = History::default();
        let mut kept = String::new();
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let Ok(Value::Object(event)) = serde_json::from_str(line) else { continue };
            let at = event.get("step").and_then(Value::as_u64);
            // That a training ended is no longer so.
            if at.is_some_and(|at| at <= step) && event.get("event") != Some(&json!("end")) {
                kept.push_str(line);
                record(&mut history, &event);
            }
        }
        write_whole(&path, kept.as_bytes())?;
        Ok((EventLog::append(path)?, history))
    }

    fn append(path: PathBuf) -> Result<EventLog, CheckpointError> {
        let opened = OpenOptions::new().append(true).create(true).open(&path);
        let file = opened.map_err(|source| CheckpointError::Io { path: path.clone(), action: "open", source })?;
        Ok(EventLog { path, file, start: Instant::now() })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Observer for EventLog {
    fn observe(&mut self, event: &Event) -> Result<(), ObserverError> {
        let Some(mut line) = to_json(event) else { return Ok(()) };
        line.insert("seconds".to_owned(), json!(self.start.elapsed().as_secs_f64()));
        // One call, so that no other writer's line gets between.
        let text = format!("{}\n", Value::Object(line));
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.flush());
        written.map_err(|error| format!("{}: cannot be written: {error}", self.path.display()).into())
    }
}

/// The line of an event; nothing for the beginning of an epoch.
fn to_json(event: &Event) -> Option<Map<String, Value>> {
    let value = match event {
        Event::Epoch(_) => return None,
        Event::Step(report) => json!({
            "event": "step", "step": report.step, "epoch": report.epoch, "loss": report.loss, "rate": report.rate,
            "gradient_norm": report.gradient_norm, "per_second": report.per_second, "unit": report.unit,
        }),
        Event::Validation { step, epoch, training_loss, values } => {
            let metrics: Map<String, Value> = values.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
            json!({ "event": "validation", "step": step, "epoch": epoch, "training_loss": training_loss, "metrics": metrics })
        }
        Event::Saved { step, epoch, path } => {
            json!({ "event": "saved", "step": step, "epoch": epoch, "path": path.to_string_lossy() })
        }
        Event::End { step, epoch, ended } => {
            json!({ "event": "end", "step": step, "epoch": epoch, "ended": ended.name() })
        }
    };
    match value {
        Value::Object(line) => Some(line),
        _ => None,
    }
}

/// Puts what a line says into a history.
fn record(history: &mut History, line: &Map<String, Value>) {
    let step = line.get("step").and_then(Value::as_u64).unwrap_or(0);
    // `null` is what was no number.
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    match line.get("event").and_then(Value::as_str) {
        Some("step") => {
            for name in History::OF_STEPS {
                line.get(name).into_iter().for_each(|value| history.record(name, false, step, number(value)));
            }
        }
        Some("validation") => {
            let metrics = line.get("metrics").and_then(Value::as_object).into_iter().flatten();
            metrics.for_each(|(name, value)| history.record(name, true, step, number(value)));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::{Ended, StepReport};
    use super::*;

    fn step(step: u64, loss: f64) -> Event {
        let (epoch, in_epoch, unit) = (0, step, "samples".to_owned());
        Event::Step(StepReport {
            step,
            epoch,
            in_epoch,
            loss,
            rate: 0.1,
            gradient_norm: Some(2.0),
            per_second: 5.0,
            unit,
        })
    }

    #[test]
    fn every_line_is_json_and_nan_is_null() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        std::fs::write(&path, "of an earlier run").unwrap();
        let mut log = EventLog::create(&path).unwrap();
        let values = vec![("loss".to_owned(), f64::INFINITY), ("a \"quoted\"\nname".to_owned(), 0.5)];
        let validation = Event::Validation { step: 2, epoch: 0, training_loss: 1.0, values };
        let end = Event::End { step: 2, epoch: 0, ended: Ended::Finished };
        for event in [step(1, f64::NAN), step(2, 0.1), validation, end] {
            log.observe(&event).unwrap();
            // Each line is there before the next.
            assert!(std::fs::read_to_string(&path).unwrap().ends_with("}\n"));
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 4);
        assert_eq!((&lines[0]["loss"], &lines[0]["rate"]), (&Value::Null, &json!(0.1)));
        assert_eq!(lines[2]["metrics"], json!({ "loss": null, "a \"quoted\"\nname": 0.5 }));
        assert_eq!(lines[3]["ended"], "finished");
    }

    #[test]
    fn a_resumed_log_forgets_what_happens_again_and_torn_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let mut log = EventLog::create(&path).unwrap();
        (1..=4).for_each(|at| log.observe(&step(at, at as f64)).unwrap());
        let values = vec![("accuracy".to_owned(), 0.5)];
        log.observe(&Event::Validation { step: 2, epoch: 0, training_loss: 1.0, values }).unwrap();
        log.observe(&Event::End { step: 2, epoch: 0, ended: Ended::Interrupted }).unwrap();
        log.file.write_all(br#"{"event":"step","st"#).unwrap();
        let (mut log, history) = EventLog::resume(&path, 2).unwrap();
        log.observe(&step(3, 9.0)).unwrap();
        assert_eq!(history.series("loss", false), [(1, 1.0), (2, 2.0)]);
        assert_eq!(history.series("accuracy", true), [(2, 0.5)]);
        let text = std::fs::read_to_string(&path).unwrap();
        let steps: Vec<u64> =
            text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["step"].as_u64().unwrap()).collect();
        assert_eq!(steps, [1, 2, 2, 3]);
        let (_, none) = EventLog::resume(folder.path().join("new.jsonl"), 5).unwrap();
        assert_eq!(none, History::default());
    }
}
