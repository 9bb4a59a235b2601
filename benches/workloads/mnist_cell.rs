//! What was measured of the step of MNIST, and how it is shown.

use crate::cell::quantile;
use crate::common::median;
use serde_json::{Value as Json, json};

/// One batch and path.
pub struct MnistCell {
    pub path: &'static str,
    pub batch: usize,
    /// Seconds of building the graph, compiling it, filling the store, making the session.
    pub stages: [f64; 4],
    pub peak_bytes: usize,
    /// Label and family of each dispatch.
    pub labels: Vec<String>,
    /// Seconds of single steps, each waited for.
    pub samples: Vec<f64>,
    /// Seconds of each dispatch by the device's timestamps.
    pub dispatches: Option<Vec<f64>>,
    /// Seconds of a step of many on unchanged inputs.
    pub queued: f64,
    /// Seconds of a step of many with inputs written before each.
    pub fed: f64,
    /// Of the first and the last step.
    pub losses: [f32; 2],
}

impl MnistCell {
    pub const HEADER: &str = "workload   batch path    dispatches  graph s  compile s  store s  session s    step µs   kernels µs  queued/s     fed/s  loss";

    pub fn learned(&self) -> bool {
        self.losses[1] < self.losses[0]
    }

    fn device_seconds(&self) -> Option<f64> {
        self.dispatches.as_ref().map(|seconds| seconds.iter().sum())
    }

    pub fn print_profile(&self) {
        println!("\nmnist {}, {}: {} dispatches", self.batch, self.path, self.labels.len());
        let (Some(seconds), Some(all)) = (&self.dispatches, self.device_seconds()) else {
            println!("  the device has no timestamps for dispatches");
            return self.labels.iter().for_each(|label| println!("  {label}"));
        };
        println!("        µs   share  dispatch");
        for (label, seconds) in self.labels.iter().zip(seconds) {
            println!("{:>10.2} {:>5.1} %  {label}", seconds * 1e6, 100.0 * seconds / all);
        }
    }

    pub fn row(&self) -> String {
        let [built, compiled, filled, bound] = self.stages;
        let kernels = self.device_seconds().map_or_else(|| "–".to_owned(), |seconds| format!("{:.1}", seconds * 1e6));
        let [first, last] = self.losses;
        let verdict = if self.learned() { "" } else { " DID NOT LEARN" };
        format!(
            "mnist     {:>6} {:<7} {:>10} {built:>8.4} {compiled:>10.4} {filled:>8.4} {bound:>10.4} {:>10.1} {kernels:>12} {:>9.1} {:>9.1}  {first:.4} → {last:.4}{verdict}",
            self.batch,
            self.path,
            self.labels.len(),
            median(self.samples.clone()) * 1e6,
            1.0 / self.queued,
            1.0 / self.fed,
        )
    }

    pub fn json(&self) -> Json {
        let [graph, compile, store, session] = self.stages;
        let mut sorted: Vec<f64> = self.samples.iter().map(|seconds| seconds * 1e3).collect();
        sorted.sort_by(f64::total_cmp);
        json!({
            "workload": "mnist", "mode": "strict", "phase": "step",
            "execution": format!("{}, batch {}", self.path, self.batch),
            "median_ms": quantile(&sorted, 0.5), "iqr_ms": quantile(&sorted, 0.75) - quantile(&sorted, 0.25),
            "min_ms": quantile(&sorted, 0.0), "max_ms": quantile(&sorted, 1.0),
            "samples_ms": self.samples.iter().map(|seconds| seconds * 1e3).collect::<Vec<_>>(),
            "compile_s": graph + compile + session, "peak_bytes": self.peak_bytes, "loss": self.losses[1],
            "batch": self.batch, "dispatch_labels": self.labels, "dispatch_seconds": self.dispatches,
            "device_seconds": self.device_seconds(), "queued_steps_per_second": 1.0 / self.queued,
            "fed_steps_per_second": 1.0 / self.fed, "losses": self.losses,
            "ready_seconds": { "graph": graph, "compile": compile, "store": store, "session": session },
        })
    }
}
