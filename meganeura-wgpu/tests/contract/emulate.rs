//! Cooperative matrices in plain WGSL, so that their kernels' addressing is tested where no adapter has them.
//!
//! A left or right matrix becomes a place in workgroup memory, read when it is multiplied; of a sum each of 32 lanes holds
//! consecutive elements, row-major.

use meganeura_wgpu::wgsl::Module;

/// The same module without cooperative matrices; `size` is theirs.
pub fn emulate(module: &Module, size: usize) -> Module {
    let mut functions = multiply_add(size);
    let mut lines: Vec<String> = Vec::new();
    for line in module.source.lines().filter(|line| !line.contains("enable wgpu_cooperative_matrix")) {
        let line = line.replace(", @builtin(subgroup_id) subgroup: u32", "");
        let begins = line.starts_with("fn main(");
        lines.push(rewrite(&line, size, &mut functions, &module.source));
        if begins {
            lines.push("    let subgroup = local / 32u;".to_owned());
        }
    }
    // Extensions come first.
    let at = lines.iter().position(|line| !line.starts_with("enable")).unwrap_or(0);
    lines.insert(at, functions);
    let mut needs = module.needs;
    (needs.cooperative, needs.subgroup) = (false, false);
    Module { source: lines.join("\n"), needs, ..module.clone() }
}

fn multiply_add(size: usize) -> String {
    let count = size * size / 32;
    format!(
        "struct Place {{ at: u32, stride: u32, row_major: bool }}
fn multiply_add(a: Place, b: Place, sum: array<f32, {count}>, lane: u32) -> array<f32, {count}> {{
    var result = sum;
    for (var t = 0u; t < {count}u; t++) {{
        let row = (lane * {count}u + t) / {size}u;
        let col = (lane * {count}u + t) % {size}u;
        for (var k = 0u; k < {size}u; k++) {{
            let x = element_sa(select(k, row, a.row_major), select(row, k, a.row_major), a);
            let y = element_sb(select(col, k, b.row_major), select(k, col, b.row_major), b);
            result[t] += f32(x) * f32(y);
        }}
    }}
    return result;
}}
{}{}",
        element("sa", size),
        element("sb", size)
    )
}

/// The element of a staged matrix: vectors of four at size 16, scalars at size 8.
fn element(array: &str, size: usize) -> String {
    let text = match size {
        16 => format!("{array}[p.at + outer * p.stride + inner / 4u][inner % 4u]"),
        _ => format!("{array}[p.at + outer * p.stride + inner]"),
    };
    format!("fn element_{array}(outer: u32, inner: u32, p: Place) -> f16 {{ return {text}; }}\n")
}

fn rewrite(line: &str, size: usize, functions: &mut String, source: &str) -> String {
    let count = size * size / 32;
    if let Some((name, load)) = line.split_once(" = coopLoad") {
        let (_, place) = load.split_once("[").unwrap();
        let (at, stride) = place.rsplit_once("], ").unwrap();
        return format!("{name} = Place({at}, {}, {});", stride.trim_end_matches(");"), load.starts_with('T'));
    }
    if let Some((before, rest)) = line.split_once("coopStoreT(") {
        let parts: Vec<&str> = rest.trim_end_matches(");").split(", ").collect();
        let (array, at) = parts[1].trim_start_matches('&').trim_end_matches(']').split_once('[').unwrap();
        if !functions.contains(&format!("fn store_{array}(")) {
            functions.push_str(&store(array, size, source.contains(&format!("{array}: array<vec4<f32>"))));
        }
        return format!("{before}store_{array}({}, {at}, {}, local % 32u);", parts[0], parts[2]);
    }
    let line = line.replace(&format!("coop_mat{size}x{size}<f32, C>()"), &format!("array<f32, {count}>()"));
    match line.contains("coopMultiplyAdd(") {
        true => line.replace("coopMultiplyAdd(", "multiply_add(").replace(");", ", local % 32u);"),
        false => line,
    }
}

fn store(array: &str, size: usize, vectors: bool) -> String {
    let count = size * size / 32;
    let target = match vectors {
        true => format!("{array}[at + row * stride + col / 4u][col % 4u]"),
        false => format!("{array}[at + row * stride + col]"),
    };
    format!(
        "fn store_{array}(sum: array<f32, {count}>, at: u32, stride: u32, lane: u32) {{
    var held = sum;
    for (var t = 0u; t < {count}u; t++) {{
        let row = (lane * {count}u + t) / {size}u;
        let col = (lane * {count}u + t) % {size}u;
        {target} = held[t];
    }}
}}
"
    )
}
