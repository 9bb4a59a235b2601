//! What the user sees: a progress bar on a terminal, plain lines elsewhere.

use super::event::{EpochStart, Event, Observer, ObserverError, StepReport};
use std::fmt;
use std::io::{self, IsTerminal, Write};

/// Lines of an epoch where there is no terminal.
const LINES: u64 = 10;

/// Shows steps, losses, rates and speed. On a terminal a bar on the standard error moves; elsewhere a tenth of an epoch
/// is a line of plain text, without control characters. Validations and checkpoints are lines on both.
pub struct Console {
    out: Box<dyn Write + Send>,
    bar: Bar,
    epoch: EpochStart,
    validation: String,
}

impl Console {
    /// On the standard output; with a bar if it and the standard error are a terminal.
    pub fn new() -> Console {
        let terminal = io::stdout().is_terminal() && io::stderr().is_terminal();
        Console { bar: Bar::new(terminal), ..Console::plain(Box::new(io::stdout())) }
    }

    /// Plain lines, whatever `out` is.
    pub fn plain(out: Box<dyn Write + Send>) -> Console {
        let epoch = EpochStart { epoch: 0, epochs: 0, done: 0, steps: 0 };
        Console { out, bar: Bar::new(false), epoch, validation: "validation".to_owned() }
    }

    /// What validation is called: `test` where the data are those of a test.
    #[must_use]
    pub fn validation_name(self, name: impl Into<String>) -> Console {
        Console { validation: name.into(), ..self }
    }

    /// Writes a line. Unlike `println!`, a closed pipe is an error and no panic.
    ///
    /// # Errors
    /// What writing gives.
    pub fn line(&mut self, text: impl fmt::Display) -> io::Result<()> {
        let out = &mut self.out;
        self.bar.suspended(|| {
            writeln!(out, "{text}")?;
            out.flush()
        })
    }

    fn step(&mut self, report: &StepReport) -> io::Result<()> {
        let EpochStart { epoch, epochs, steps, done } = self.epoch;
        let StepReport { loss, rate, gradient_norm, per_second, unit, .. } = report;
        let norm = gradient_norm.map(|norm| format!(", gradient norm {}", short(norm))).unwrap_or_default();
        let text = format!("loss {loss:.4}, rate {}{norm}, {} {unit}/s", short(*rate), grouped(*per_second));
        // After a resumption the first report may be far into the epoch.
        let before = std::mem::replace(&mut self.epoch.done, report.in_epoch).max(done.min(report.in_epoch));
        if self.bar.set(report.in_epoch, &text) {
            return Ok(());
        }
        let tenth = |steps_done: u64| steps_done * LINES / steps.max(1);
        if tenth(report.in_epoch) > tenth(before) {
            let place = format!("epoch {}/{epochs}: step {}/{steps}", epoch + 1, report.in_epoch);
            self.line(format_args!("{place}, {text}"))?;
        }
        Ok(())
    }

    fn validation(&mut self, training_loss: f64, values: &[(String, f64)]) -> io::Result<()> {
        let name = self.validation.clone();
        let values = values.iter().map(|(metric, value)| format!("{name} {metric} {value:.4}"));
        let text = values.collect::<Vec<_>>().join(", ");
        let (epoch, epochs) = (self.epoch.epoch + 1, self.epoch.epochs);
        self.line(format_args!("epoch {epoch}/{epochs}: mean loss {training_loss:.4}, {text}"))
    }
}

impl Default for Console {
    fn default() -> Console {
        Console::new()
    }
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl Observer for Console {
    fn observe(&mut self, event: &Event) -> Result<(), ObserverError> {
        match event {
            Event::Epoch(start) => {
                self.epoch = *start;
                self.bar.begin(start);
            }
            Event::Step(report) => self.step(report)?,
            Event::Validation { training_loss, values, .. } => self.validation(*training_loss, values)?,
            Event::Saved { .. } => {}
            Event::End { step, ended, .. } => {
                self.bar.end();
                self.line(format_args!("{} after {step} steps", ended.name()))?;
            }
        }
        Ok(())
    }
}

/// Four digits, however small.
fn short(value: f64) -> String {
    let usual = value == 0.0 || (1e-3..1e6).contains(&value.abs());
    if usual || !value.is_finite() { format!("{value:.4}") } else { format!("{value:.3e}") }
}

/// A whole number with its digits in groups of three: `12,345`.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
    let grouped = String::from_utf8_lossy(&groups.join(&b','.to_owned())).into_owned();
    if value.is_finite() && value >= 0.0 { grouped } else { digits }
}

#[cfg(feature = "console")]
struct Bar(Option<indicatif::ProgressBar>);

#[cfg(feature = "console")]
impl Bar {
    fn new(terminal: bool) -> Bar {
        Bar(terminal.then(indicatif::ProgressBar::hidden))
    }

    fn begin(&mut self, start: &EpochStart) {
        let Some(bar) = &mut self.0 else { return };
        bar.finish_and_clear();
        let style = indicatif::ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} {msg}");
        let style = style.unwrap_or_else(|_| indicatif::ProgressStyle::default_bar());
        let prefix = format!("epoch {}/{}", start.epoch + 1, start.epochs);
        *bar = indicatif::ProgressBar::new(start.steps).with_prefix(prefix).with_style(style);
        bar.set_position(start.done);
    }

    /// Moves the bar, if there is one.
    fn set(&self, position: u64, text: &str) -> bool {
        let Some(bar) = &self.0 else { return false };
        bar.set_position(position);
        bar.set_message(text.to_owned());
        true
    }

    fn suspended<R>(&self, write: impl FnOnce() -> R) -> R {
        match &self.0 {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// Without the feature `console` there are lines only.
#[cfg(not(feature = "console"))]
struct Bar;

#[cfg(not(feature = "console"))]
impl Bar {
    fn new(_terminal: bool) -> Bar {
        Bar
    }

    fn begin(&self, _start: &EpochStart) {}

    fn set(&self, _position: u64, _text: &str) -> bool {
        false
    }

    fn suspended<R>(&self, write: impl FnOnce() -> R) -> R {
        write()
    }

    fn end(&self) {}
}

#[cfg(test)]
mod tests {
    use super::super::event::Ended;
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn report(in_epoch: u64) -> Event {
        Event::Step(StepReport {
            step: 20 + in_epoch,
            epoch: 1,
            in_epoch,
            loss: 0.25,
            rate: 3e-4,
            gradient_norm: Some(1.5),
            per_second: 12_345.6,
            unit: "tokens".to_owned(),
        })
    }

    #[test]
    fn lines_are_plain_text_a_tenth_of_an_epoch_each() {
        let written = Written::default();
        let mut console = Console::plain(Box::new(written.clone())).validation_name("test");
        console.observe(&Event::Epoch(EpochStart { epoch: 1, epochs: 3, done: 0, steps: 20 })).unwrap();
        (1..=20).for_each(|step| console.observe(&report(step)).unwrap());
        let values = vec![("loss".to_owned(), 0.5), ("accuracy".to_owned(), f64::NAN)];
        console.observe(&Event::Validation { step: 40, epoch: 1, training_loss: 0.25, values }).unwrap();
        console.observe(&Event::End { step: 40, epoch: 1, ended: Ended::Interrupted }).unwrap();
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 12, "{text}");
        let step = "epoch 2/3: step 2/20, loss 0.2500, rate 3.000e-4, gradient norm 1.5000, 12,346 tokens/s";
        assert_eq!(lines[0], step);
        assert_eq!(lines[10], "epoch 2/3: mean loss 0.2500, test loss 0.5000, test accuracy NaN");
        assert_eq!(lines[11], "interrupted after 40 steps");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
    }

    #[test]
    fn epochs_of_few_steps_and_resumed_ones_have_a_line_where_a_tenth_is_passed() {
        let written = Written::default();
        let mut console = Console::plain(Box::new(written.clone()));
        console.observe(&Event::Epoch(EpochStart { epoch: 0, epochs: 1, done: 15, steps: 20 })).unwrap();
        [15, 16].map(report).iter().for_each(|event| console.observe(event).unwrap());
        console.observe(&Event::Epoch(EpochStart { epoch: 0, epochs: 1, done: 0, steps: 2 })).unwrap();
        [1, 2].map(report).iter().for_each(|event| console.observe(event).unwrap());
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 3, "{text}");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([short(0.0), short(1e-5), short(0.25), short(f64::NAN)], ["0.0000", "1.000e-5", "0.2500", "NaN"]);
        assert_eq!([grouped(999.0), grouped(1_234_567.0), grouped(f64::INFINITY)], ["999", "1,234,567", "inf"]);
    }
}
