//! Many steps: neither the process nor the device holds more memory after them.

use super::*;
use meganeura_wgpu::DeviceError;
use std::io::Write;
use std::process::Command;

/// Names the device and the recording to a child process, which measures its own memory.
const CHILD: &str = "MEGANEURA_TEST_SOAK";

/// How many steps; 2,000 unless it says otherwise.
const STEPS: &str = "MEGANEURA_TEST_STEPS";

/// Steps before the first measurement: pools and queues fill up.
const WARM: usize = 500;

#[test]
fn memory_does_not_grow_with_steps() {
    if let Some(child) = std::env::var_os(CHILD) {
        return soak(child.to_str().unwrap());
    }
    let mut runs = vec!["cpu"];
    if let Some(device) = gpu() {
        runs.extend(
            recordings(&device).iter().map(|recording| if *recording == Recording::Safe { "safe" } else { "native" }),
        );
    }
    for run in runs {
        // Alone in a process: other tests' memory is not this one's.
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "soak::memory_does_not_grow_with_steps", "--nocapture"])
            .env(CHILD, run)
            .output()
            .unwrap();
        let [out, err] = [&child.stdout, &child.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        assert!(child.status.success(), "{run}: {out}{err}");
        if std::env::var_os(STEPS).is_some() {
            std::io::stderr().write_all(&child.stderr).unwrap();
        }
    }
}

fn soak(run: &str) {
    let steps = std::env::var(STEPS).map_or(2000, |steps| steps.parse().unwrap());
    let (device, handle, recording) = match run {
        "cpu" => (Device::cpu(), None, Recording::Safe),
        gpu => {
            let (handle, device) = faults::shared().unwrap();
            (device, Some(handle), if gpu == "safe" { Recording::Safe } else { Recording::Native })
        }
    };
    let store = StateStore::new(&device, &layout()).unwrap();
    let mut session = open(&device, accumulate(), &store, &recorded(recording), 0.5);
    let memory = || (resident(), handle.as_ref().and_then(on_device));
    take(&mut session, WARM).unwrap();
    let before = memory();
    take(&mut session, steps).unwrap();
    let after = memory();
    let told = format!(
        "{run}: {steps} steps, host {} → {} KiB, device {:?} → {:?}
",
        before.0, after.0, before.1, after.1
    );
    std::io::stderr().write_all(told.as_bytes()).unwrap();
    // The losses of steps and staged inputs would come to more.
    assert!(after.0 <= before.0 + 1024, "the process grew from {} to {} KiB", before.0, after.0);
    assert_eq!(before.1, after.1, "the device's memory grew");
    assert_eq!(store.read("total").unwrap(), ramp(0.5 * (WARM + steps) as f32));
}

/// Steps as a training takes them: a batch before each, and now and then a value, at once or later.
fn take(session: &mut Session, steps: usize) -> Result<(), DeviceError> {
    let mut pending = None;
    for step in 0..steps {
        session.write("x", &ramp(0.5))?;
        session.step()?;
        if step % 10 == 0
            && let Some(read) = pending.replace(session.read_later("sum")?)
        {
            read.wait()?;
        }
        if step % 97 == 0 {
            session.read("sum")?;
        }
    }
    session.read("sum").map(|_| ())
}

/// KiB of the process in memory.
fn resident() -> usize {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return 0 };
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Bytes and blocks that wgpu holds on the device, and bytes of them in use.
fn on_device(device: &wgpu::Device) -> Option<(u64, usize, u64)> {
    let report = device.generate_allocator_report()?;
    Some((report.total_reserved_bytes, report.blocks.len(), report.total_allocated_bytes))
}
