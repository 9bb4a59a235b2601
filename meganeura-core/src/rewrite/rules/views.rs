//! Views: reshapes, permutes, broadcasts, slices, pads.

use crate::ops::{Op, Permute, Reduce, Reshape, Slice};
use crate::rewrite::engine::{Rewrite, Site};

/// After differentiation, stopping a gradient means nothing.
pub(super) fn stop_gradient(site: &Site<'_>) -> Option<Rewrite> {
    matches!(site.op, Op::StopGradient(_)).then(|| Rewrite::Value(site.operands[0]))
}

/// A view that changes nothing.
pub(super) fn without_effect(site: &Site<'_>) -> Option<Rewrite> {
    let nothing = match site.op {
        Op::Reshape(_) | Op::Broadcast(_) | Op::Slice(_) | Op::Pad(_) | Op::Cast(_) | Op::Bitcast(_) => {
            site.operand(0).ty == *site.ty
        }
        Op::Permute(permute) => permute.order.iter().copied().eq(0..permute.order.len()),
        Op::Reduce(reduce) => reduce.axes.is_empty(),
        _ => false,
    };
    nothing.then(|| Rewrite::Value(site.operands[0]))
}

/// Two views of one kind in a row are one.
pub(super) fn of_view(site: &Site<'_>) -> Option<Rewrite> {
    site.operands.first()?;
    let below = site.operand(0);
    let op = match (site.op, &below.op) {
        (Op::Reshape(outer), Op::Reshape(_)) => Op::Reshape(outer.clone()),
        (Op::Broadcast(outer), Op::Broadcast(_)) => Op::Broadcast(outer.clone()),
        (Op::Permute(outer), Op::Permute(inner)) => {
            Op::Permute(Permute { order: outer.order.iter().map(|&dim| inner.order[dim]).collect() })
        }
        (Op::Slice(outer), Op::Slice(inner)) => {
            let starts = outer.starts.iter().zip(&inner.starts).map(|(a, b)| a + b).collect();
            Op::Slice(Slice { starts, extents: outer.extents.clone() })
        }
        _ => return None,
    };
    Some(Rewrite::Node(op, below.operands.clone()))
}

/// A fold over dimensions of extent 1 is a reshape.
pub(super) fn fold_of_single_elements(site: &Site<'_>) -> Option<Rewrite> {
    let Op::Reduce(Reduce { axes, .. }) = site.op else { return None };
    let single = axes.iter().all(|&axis| site.operand(0).ty.shape[axis] == 1);
    single.then(|| Rewrite::Node(Op::Reshape(Reshape { shape: site.ty.shape.clone() }), site.operands.to_vec()))
}
