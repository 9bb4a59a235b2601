//! From sums to memory: the function `finish`, called for every quad of a result row.

use super::context::Context;
use super::operand::{COMPONENT, in_elements, load_vector, vector_load};
use super::quad::quartered;
use super::space::{Coords, Flat};
use crate::wgsl::expr::Exprs;
use crate::wgsl::writer::Writer;
use meganeura_core::kernel::{Expr, ExprId, Store};

/// Prints `finish(z, m, n, acc)`: the epilogue and stores of four neighbouring results of batch point `z` and row `m`.
/// `n` counts quads if the columns have a quad axis, else it is the first column and those beyond the end are skipped.
pub fn finish(context: &Context<'_>, w: &mut Writer) {
    w.define("fn finish(z: u32, m: u32, n: u32, acc: vec4<f32>)", |w| body(context, w));
}

fn body(context: &Context<'_>, w: &mut Writer) {
    let mut coords = context.batch_coords();
    context.batch.decode(w, &Flat::any("z"), "z", &mut coords);
    context.rows.decode(w, &Flat::any("m"), "m", &mut coords);
    match context.cols.quad_axis() {
        Some(axis) => {
            context.cols.decode_quads(w, &Flat::any("n"), "n", &mut coords);
            finish_quad(context, w, &coords, axis);
        }
        None => finish_each(context, w, &coords),
    }
}

fn finish_quad(context: &Context<'_>, w: &mut Writer, coords: &Coords, axis: usize) {
    let named = vector_operands(context, w, coords, axis);
    let values: Vec<String> = (0..context.kernel.stores.len()).map(|n| format!("s{n}")).collect();
    let plain = context.kernel.stores.iter().all(|store| matches!(context.kernel.expr(store.value), Expr::Acc));
    if !plain {
        for (store, value) in context.kernel.stores.iter().zip(&values) {
            w.line(format!("var {value}: vec4<{}>;", context.scalar_type(store.value)));
        }
        for (c, component) in COMPONENT.iter().enumerate() {
            w.open("");
            let mut exprs = context.exprs(in_elements(coords, axis, c));
            for (id, name) in &named {
                exprs.bind(*id, format!("{name}.{component}"));
            }
            bind_sum(context, &mut exprs, &format!("acc.{component}"));
            exprs.emit(w, &store_values(context));
            for (store, value) in context.kernel.stores.iter().zip(&values) {
                w.line(format!("{value}.{component} = {};", exprs.text(store.value)));
            }
            w.close();
        }
    }
    for (store, value) in context.kernel.stores.iter().zip(&values) {
        store_quad(context, w, coords, axis, store, if plain { "acc" } else { value });
    }
}

/// Loads what the epilogue reads as vectors.
fn vector_operands(context: &Context<'_>, w: &mut Writer, coords: &Coords, axis: usize) -> Vec<(ExprId, String)> {
    let mut named = Vec::new();
    for id in context.kernel.needed_for(&store_values(context), true) {
        let Some((arg, index, mask)) = vector_load(context, id, axis) else { continue };
        let name = format!("l{}", id.0);
        load_vector(context, w, &name, coords, (arg, &index, &mask));
        named.push((id, name));
    }
    named
}

fn store_quad(context: &Context<'_>, w: &mut Writer, coords: &Coords, axis: usize, store: &Store, value: &str) {
    if context.vectors[store.arg]
        && let Some(index) = quartered(&store.index, axis)
    {
        let at = context.exprs(coords.clone()).index_text(&index);
        w.line(format!("{} = {value};", context.vector(store.arg, &at)));
        return;
    }
    for (c, component) in COMPONENT.iter().enumerate() {
        store_scalar(context, w, &in_elements(coords, axis, c), store, &format!("{value}.{component}"));
    }
}

fn store_scalar(context: &Context<'_>, w: &mut Writer, coords: &Coords, store: &Store, value: &str) {
    w.open("");
    let mut exprs = context.exprs(coords.clone());
    exprs.emit(w, &store.index.values());
    let at = exprs.index_text(&store.index);
    w.line(context.store(store.arg, &at, value));
    w.close();
}

fn finish_each(context: &Context<'_>, w: &mut Writer, coords: &Coords) {
    for (c, component) in COMPONENT.iter().enumerate() {
        w.open(format!("if n + {c}u < {}u", context.cols.points()));
        let mut coords = coords.clone();
        context.cols.decode(w, &Flat::any(format!("(n + {c}u)")), "n", &mut coords);
        finish_point(context, w, &coords, &format!("acc.{component}"));
        w.close();
    }
}

/// Prints `finish_one(z, m, n, acc)`: the epilogue and stores of one result.
pub fn finish_one(context: &Context<'_>, w: &mut Writer) {
    w.define("fn finish_one(z: u32, m: u32, n: u32, acc: f32)", |w| {
        let mut coords = context.batch_coords();
        context.batch.decode(w, &Flat::any("z"), "z", &mut coords);
        context.rows.decode(w, &Flat::any("m"), "m", &mut coords);
        context.cols.decode(w, &Flat::any("n"), "n", &mut coords);
        finish_point(context, w, &coords, "acc");
    });
}

/// All values first: a store may overwrite what another value is computed from.
fn finish_point(context: &Context<'_>, w: &mut Writer, coords: &Coords, sum: &str) {
    let mut exprs = context.exprs(coords.clone());
    bind_sum(context, &mut exprs, sum);
    exprs.emit(w, &store_values(context));
    for (n, store) in context.kernel.stores.iter().enumerate() {
        w.bind(&format!("s{n}"), exprs.text(store.value));
    }
    for (n, store) in context.kernel.stores.iter().enumerate() {
        store_scalar(context, w, coords, store, &format!("s{n}"));
    }
}

/// The values of all stores.
fn store_values(context: &Context<'_>) -> Vec<ExprId> {
    context.kernel.stores.iter().map(|store| store.value).collect()
}

/// Names the contraction's sum.
fn bind_sum(context: &Context<'_>, exprs: &mut Exprs<'_>, text: &str) {
    for (at, expr) in context.kernel.exprs.iter().enumerate() {
        if matches!(expr, Expr::Acc) {
            exprs.bind(ExprId(at as u32), text.to_owned());
        }
    }
}
