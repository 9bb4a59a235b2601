//! Lists the adapters of this machine with their limits and features, and says which device `Device::best` takes.
//!
//! ```text
//! cargo run --example devices
//! MEGANEURA_DEVICE=llvmpipe cargo run --example devices
//! cargo run --example devices -- --check     # fails where there is no adapter
//! ```
#![allow(clippy::print_stdout)]

use meganeura_core::schedule::Caps;
use meganeura_wgpu::{AdapterSummary, Device, adapters};
use std::process::ExitCode;

fn main() -> ExitCode {
    let all = adapters();
    if all.is_empty() {
        println!("no adapter: neither a Vulkan, a Metal nor a DirectX 12 driver was found\n");
    }
    all.iter().for_each(print_adapter);
    println!("Device::cpu(): {} threads", Device::cpu().caps().multiprocessors);
    let best = Device::best();
    println!("Device::best(): {}", best.notice().unwrap_or_default());
    let check = std::env::args().any(|argument| argument == "--check");
    if check && all.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn print_adapter(adapter: &AdapterSummary) {
    println!("adapter {}: {}", adapter.index, adapter.info);
    println!("  driver                    {}", adapter.info.driver);
    print_caps(&adapter.caps);
    println!("  wgpu features             {}\n", adapter.features.join(", "));
}

fn print_caps(caps: &Caps) {
    let [x, y, z] = caps.max_workgroup_size;
    println!("  invocations per workgroup {} (at most {x} × {y} × {z})", caps.max_invocations);
    println!("  workgroups per dimension  {}", caps.max_workgroups);
    println!("  workgroup memory          {} bytes", caps.workgroup_bytes);
    println!("  multiprocessors           {} (estimate)", caps.multiprocessors);
    println!("  storage bindings          {} of {} bytes", caps.max_bindings, caps.max_binding_bytes);
    println!("  buffer                    {} bytes", caps.max_buffer_bytes);
    println!("  binding alignment         {} bytes", caps.binding_alignment);
    println!(
        "  subgroup                  {}",
        caps.subgroup.map_or("varies".to_owned(), |lanes| format!("{lanes} lanes"))
    );
    println!("  f16                       {}", if caps.f16 { "yes" } else { "no" });
    let products: Vec<String> = caps
        .cooperative
        .iter()
        .map(|product| format!("{0}×{0}×{0} {1} → {2}", product.size, product.operand, product.accumulate))
        .collect();
    println!(
        "  cooperative matrices      {}",
        if products.is_empty() { "none".to_owned() } else { products.join(", ") }
    );
}
