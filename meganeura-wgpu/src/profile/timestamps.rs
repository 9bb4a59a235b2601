//! Times of dispatches by the GPU's own clock.

use super::StepTimes;
use crate::buffers::{clear, create_for};
use crate::device::Gpu;
use crate::error::DeviceError;
use crate::record::Commands;
use crate::record::safe::{self, Bound, new_encoder};
use crate::transfer::read_bytes;
use web_time::{Duration, Instant};
use wgpu::{
    BufferUsages, CommandEncoder, ComputePassDescriptor, ComputePassTimestampWrites, Features, QUERY_SET_MAX_QUERIES,
    QuerySet, QuerySetDescriptor, QueryType,
};

/// What is being done, in errors.
const ACTION: &str = "time dispatches";

/// Where a device can take timestamps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stamps {
    /// Between the dispatches of one pass: the end of one is the start of the next.
    Between,
    /// At the ends of passes only (Apple's GPUs): a pass a dispatch, and two timestamps each.
    AtPasses,
}

/// Submits one step with timestamps around each dispatch, and waits for it.
pub(crate) fn time(gpu: &Gpu, commands: &Commands, watchdog: Duration) -> Result<StepTimes, DeviceError> {
    let features = gpu.device.features();
    let stamps = match features.contains(Features::TIMESTAMP_QUERY_INSIDE_PASSES) {
        _ if !features.contains(Features::TIMESTAMP_QUERY) => {
            return Err(DeviceError::Unsupported { action: ACTION, feature: "timestamps" });
        }
        true => Stamps::Between,
        false => Stamps::AtPasses,
    };
    time_with(gpu, commands, stamps, watchdog)
}

fn time_with(gpu: &Gpu, commands: &Commands, stamps: Stamps, watchdog: Duration) -> Result<StepTimes, DeviceError> {
    gpu.check()?;
    let dispatches = commands.len() as u32;
    if dispatches == 0 {
        return Ok(StepTimes { submitted: Instant::now(), dispatches: Vec::new() });
    }
    let count = if stamps == Stamps::Between { dispatches + 1 } else { dispatches * 2 };
    let bytes = u64::from(count) * 8;
    let usage = BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
    let resolved = create_for(gpu, "timestamps", bytes, usage)?;
    clear(gpu, std::iter::once(&resolved))?;
    let submit = || match commands {
        Commands::Safe(commands) => {
            let sets = query_sets(gpu, count);
            let mut encoder = new_encoder(gpu);
            match stamps {
                Stamps::Between => one_pass(commands, &mut encoder, &sets),
                Stamps::AtPasses => pass_each(commands, &mut encoder, &sets),
            }
            for (at, set) in sets.iter().enumerate() {
                let first = at as u32 * QUERY_SET_MAX_QUERIES;
                let queries = QUERY_SET_MAX_QUERIES.min(count - first);
                encoder.resolve_query_set(set, 0..queries, &resolved, u64::from(first) * 8);
            }
            let commands = encoder.finish();
            let submitted = Instant::now();
            gpu.queue.submit([commands]);
            Ok(submitted)
        }
        Commands::Native(commands) => {
            let submitted = Instant::now();
            commands.submit(gpu, Some(&resolved)).map(|_| submitted)
        }
    };
    let submitted = gpu.call(submit).map_err(|error| error.during(ACTION))??;
    let ticks = read_bytes(gpu, &resolved, 0, bytes, watchdog)?;
    let ticks: Vec<u64> = ticks.chunks_exact(8).map(bytemuck::pod_read_unaligned).collect();
    let dispatches = spans(&ticks, stamps, f64::from(gpu.queue.get_timestamp_period()) * 1e-9);
    Ok(StepTimes { submitted, dispatches })
}

/// Start and end of each dispatch in seconds after the first one's start.
fn spans(ticks: &[u64], stamps: Stamps, seconds_per_tick: f64) -> Vec<[f64; 2]> {
    let first = ticks.first().copied().unwrap_or(0);
    let seconds = |tick: u64| tick.saturating_sub(first) as f64 * seconds_per_tick;
    let span = |pair: &[u64]| [seconds(pair[0]), seconds(pair[1].max(pair[0]))];
    match stamps {
        Stamps::Between => ticks.windows(2).map(span).collect(),
        Stamps::AtPasses => ticks.chunks_exact(2).map(span).collect(),
    }
}

fn one_pass(commands: &safe::Commands, encoder: &mut CommandEncoder, sets: &[QuerySet]) {
    let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor { label: Some("step"), timestamp_writes: None });
    let stamp = |pass: &mut wgpu::ComputePass<'_>, at: usize| {
        if let Some(set) = sets.get(at / QUERY_SET_MAX_QUERIES as usize) {
            pass.write_timestamp(set, at as u32 % QUERY_SET_MAX_QUERIES);
        }
    };
    stamp(&mut pass, 0);
    let mut bound = Bound::default();
    for (at, dispatch) in commands.dispatches.iter().enumerate() {
        commands.dispatch(&mut pass, &mut bound, dispatch);
        stamp(&mut pass, at + 1);
    }
}

fn pass_each(commands: &safe::Commands, encoder: &mut CommandEncoder, sets: &[QuerySet]) {
    for (at, dispatch) in commands.dispatches.iter().enumerate() {
        let first = 2 * at as u32;
        // Sets have an even number of queries, so that a pair is never torn.
        let timestamp_writes =
            sets.get((first / QUERY_SET_MAX_QUERIES) as usize).map(|query_set| ComputePassTimestampWrites {
                query_set,
                beginning_of_pass_write_index: Some(first % QUERY_SET_MAX_QUERIES),
                end_of_pass_write_index: Some(first % QUERY_SET_MAX_QUERIES + 1),
            });
        let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor { label: Some("dispatch"), timestamp_writes });
        commands.dispatch(&mut pass, &mut Bound::default(), dispatch);
    }
}

fn query_sets(gpu: &Gpu, count: u32) -> Vec<QuerySet> {
    let set = |first: u32| {
        gpu.device.create_query_set(&QuerySetDescriptor {
            label: Some("dispatch times"),
            ty: QueryType::Timestamp,
            count: QUERY_SET_MAX_QUERIES.min(count - first),
        })
    };
    (0..count).step_by(QUERY_SET_MAX_QUERIES as usize).map(set).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_spans_that_never_run_backwards() {
        assert_eq!(spans(&[10, 14, 15], Stamps::Between, 0.5), [[0.0, 2.0], [2.0, 2.5]]);
        assert_eq!(spans(&[10, 14, 20, 19], Stamps::AtPasses, 0.5), [[0.0, 2.0], [5.0, 5.0]]);
        assert!(spans(&[], Stamps::Between, 1.0).is_empty());
    }
}
