//! The profile as text for a terminal.

use super::{Bucket, Clock, Key, Profile};
use std::fmt;

/// Rows of a table; the rest is summed up in one.
const MOST_ROWS: usize = 24;

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = if self.clock == Clock::Device { "the device's timestamps" } else { "the host's clock" };
        writeln!(f, "{}: {} steps, medians by {clock}", self.device, self.steps.len())?;
        let ceilings = &self.ceilings;
        write!(f, "ceilings: {} f32", amount(ceilings.flops, "FLOP/s"))?;
        if let Some(flops) = ceilings.matrix_flops {
            write!(f, ", {} on matrix units", amount(flops, "FLOP/s"))?;
        }
        writeln!(f, ", {}", amount(ceilings.bytes, "B/s"))?;
        let total = self.total();
        for key in Key::ALL {
            let buckets = self.by(key);
            // With one layer only, layers tell nothing.
            if buckets.len() > 1 || key == Key::Family {
                writeln!(f)?;
                table(f, self, key.name(), &buckets, &total)?;
            }
        }
        writeln!(f)?;
        let each = self.dispatches.iter().map(|dispatch| Bucket {
            name: format!("{} [{}]", dispatch.label, dispatch.family),
            dispatches: 1,
            cost: dispatch.cost,
            seconds: dispatch.seconds,
            least_seconds: dispatch.least_seconds,
        });
        let mut each: Vec<Bucket> = each.collect();
        each.sort_by(|one, two| two.seconds.total_cmp(&one.seconds));
        table(f, self, "dispatch", &each, &total)
    }
}

fn table(
    f: &mut fmt::Formatter<'_>,
    profile: &Profile,
    title: &str,
    buckets: &[Bucket],
    total: &Bucket,
) -> fmt::Result {
    let (shown, rest) = buckets.split_at(buckets.len().min(MOST_ROWS));
    writeln!(
        f,
        "{:>10} {:>7} {:>5}  {:>12} {:>6}  {:>11} {:>6}  {:>7}  {title}",
        "µs", "time", "count", "rate", "share", "traffic", "share", "ceiling"
    )?;
    shown.iter().try_for_each(|bucket| row(f, profile, bucket, total))?;
    if !rest.is_empty() {
        let mut others = Bucket { name: format!("{} others", rest.len()), dispatches: 0, ..total.clone() };
        others.cost = rest.iter().map(|bucket| bucket.cost).sum();
        others.seconds = rest.iter().map(|bucket| bucket.seconds).sum();
        others.least_seconds = rest.iter().map(|bucket| bucket.least_seconds).sum();
        others.dispatches = rest.iter().map(|bucket| bucket.dispatches).sum();
        row(f, profile, &others, total)?;
    }
    row(f, profile, total, total)
}

fn row(f: &mut fmt::Formatter<'_>, profile: &Profile, bucket: &Bucket, total: &Bucket) -> fmt::Result {
    let share = |part: f64, whole: f64| if whole > 0.0 { 100.0 * part / whole } else { 0.0 };
    let ceilings = &profile.ceilings;
    writeln!(
        f,
        "{:>10.1} {:>5.1} % {:>5}  {:>12} {:>4.0} %  {:>11} {:>4.0} %  {:>5.0} %  {}",
        bucket.seconds * 1e6,
        share(bucket.seconds, total.seconds),
        bucket.dispatches,
        amount(bucket.flops(), "FLOP/s"),
        share(bucket.flops(), ceilings.flops),
        amount(bucket.bytes(), "B/s"),
        share(bucket.bytes(), ceilings.bytes),
        100.0 * bucket.share_of_ceiling(),
        bucket.name,
    )
}

/// Three digits and a prefix of the unit.
fn amount(value: f64, unit: &str) -> String {
    let prefixes = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let (scale, prefix) = prefixes.into_iter().find(|(scale, _)| value >= *scale).unwrap_or((1.0, ""));
    let value = value / scale;
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {prefix}{unit}")
}

#[cfg(test)]
mod tests {
    use super::amount;

    #[test]
    fn amounts_have_three_digits() {
        let shown = [0.0, 3.26, 41_800.0, 5.12e9, 47.0e12, 999e12].map(|value| amount(value, "B/s"));
        assert_eq!(shown, ["0.00 B/s", "3.26 B/s", "41.8 kB/s", "5.12 GB/s", "47.0 TB/s", "999 TB/s"]);
    }
}
