//! What the user sees: a progress bar on a terminal, plain lines elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::fmt;
use std::io::{self, IsTerminal, Write};

/// Writes to the standard output. Unlike `println!`, a closed pipe is an error and no panic.
pub fn line(text: impl fmt::Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// The progress of one epoch.
pub struct Progress {
    bar: Option<ProgressBar>,
    epoch: String,
    steps: usize,
    done: usize,
}

impl Progress {
    /// Starts an epoch of that many steps.
    pub fn new(epoch: String, steps: usize) -> Progress {
        let terminal = io::stdout().is_terminal() && io::stderr().is_terminal();
        let bar = terminal.then(|| {
            let style = ProgressStyle::with_template("{prefix} {bar:40} {pos}/{len} {per_sec} {msg}");
            let bar = ProgressBar::new(steps as u64).with_prefix(epoch.clone());
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Progress { bar, epoch, steps, done: 0 }
    }

    /// One more step was done. Without a terminal every tenth of an epoch is a line.
    pub fn step(&mut self, loss: f32) -> io::Result<()> {
        self.done += 1;
        match &self.bar {
            Some(bar) => {
                bar.set_message(format!("loss {loss:.4}"));
                bar.inc(1);
                Ok(())
            }
            None if self.done * 10 / self.steps > (self.done - 1) * 10 / self.steps => {
                line(format_args!("{}: step {}/{}, loss {loss:.4}", self.epoch, self.done, self.steps))
            }
            None => Ok(()),
        }
    }

    /// Ends the epoch with a line.
    pub fn finish(self, result: impl fmt::Display) -> io::Result<()> {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        line(format_args!("{}: {result}", self.epoch))
    }
}
