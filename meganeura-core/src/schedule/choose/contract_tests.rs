//! The choices for shapes that were measured.

use super::*;
use crate::index::Index;
use crate::kernel::{Access, Arg, Axis, Store};
use crate::schedule::expand::split_contraction;
use crate::schedule::{SpecError, verify};

fn product([batch, rows, cols, depth]: [usize; 4], dtype: DType) -> Kernel {
    let axis = |extent, role| Axis { extent, role };
    let arg = |dtype, elements, access| Arg { dtype, elements, access };
    let index = |terms: [(usize, usize); 3]| {
        terms.iter().fold(Index::constant(0), |sum, &(axis, stride)| sum.plus(&Index::axis(axis).times(stride as i64)))
    };
    Kernel {
        axes: vec![
            axis(batch, Role::Parallel),
            axis(rows, Role::Row),
            axis(cols, Role::Col),
            axis(depth, Role::Reduce),
        ],
        args: vec![
            arg(dtype, batch * rows * depth, Access::Read),
            arg(dtype, batch * depth * cols, Access::Read),
            arg(DType::F32, batch * rows * cols, Access::Write),
        ],
        exprs: vec![
            Expr::Load { arg: 0, index: index([(0, rows * depth), (1, depth), (3, 1)]), mask: vec![] },
            Expr::Load { arg: 1, index: index([(0, depth * cols), (3, cols), (2, 1)]), mask: vec![] },
            Expr::Acc,
        ],
        dtypes: vec![dtype, dtype, DType::F32],
        body: Body::Contract { lhs: ExprId(0), rhs: ExprId(1), accumulate: DType::F32 },
        stores: vec![Store {
            arg: 2,
            index: index([(0, rows * cols), (1, cols), (2, 1)]),
            value: ExprId(2),
            per_element: false,
        }],
    }
}

fn choose(shape: [usize; 4], numerics: Numerics) -> Choice {
    super::choose(&product(shape, DType::F32), &Caps::h200(), numerics)
}

fn tile_of(choice: &Choice) -> [u32; 3] {
    match choice.spec {
        Spec::Contract(contract) => contract.tile,
        other => panic!("{other:?} is no tile"),
    }
}

#[test]
fn square_products_take_the_largest_tile_that_fills_the_device() {
    for (size, area) in [(8192, 128 * 256), (4096, 128 * 256), (2048, 128 * 256), (1024, 64 * 128)] {
        let choice = choose([1, size, size, size], Numerics::Strict);
        let [rows, cols, _] = tile_of(&choice);
        assert_eq!((rows * cols, choice.parts), (area, 1), "{size}³: {choice:?}");
    }
}

#[test]
fn few_columns_take_a_narrow_tile_on_a_small_device() {
    let small = Caps { multiprocessors: 2, ..Caps::base() };
    let choice = super::choose(&product([1, 128, 10, 64], DType::F32), &small, Numerics::Strict);
    assert_eq!(tile_of(&choice), [32, 16, 16], "{choice:?}");
}

#[test]
fn skinny_products_split_about_as_measured() {
    for (shape, parts) in [
        ([1, 128, 576, 1536], 16),
        ([1, 128, 576, 49152], 64),
        ([1, 50, 720, 2048], 32),
        ([1, 1500, 384, 1536], 4),
        ([1, 576, 1536, 128], 1),
        ([1, 64, 147, 50176], 64),
        ([1, 4096, 49152, 64], 1),
        ([96, 128, 128, 64], 1),
        ([512, 64, 64, 64], 1),
        // Convolutions of 64 channels at 56², forward and weight gradient.
        ([1, 12544, 64, 576], 2),
        ([1, 576, 64, 12544], 44),
    ] {
        let choice = choose(shape, Numerics::Strict);
        assert!(choice.parts * 2 >= parts && choice.parts <= parts * 2, "{shape:?}: {choice:?}, measured {parts}");
    }
}

#[test]
fn matrix_units_are_used_as_measured() {
    for (shape, rows, parts) in [
        ([1, 4096, 4096, 4096], 128, 1),
        ([1, 2048, 2048, 2048], 128, 1),
        ([1, 1024, 1024, 1024], 64, 1),
        ([1, 128, 576, 1536], 64, 8),
        ([1, 128, 576, 49152], 128, 32),
        ([1, 52, 720, 2048], 64, 8),
        ([1, 1500, 384, 1536], 128, 2),
        ([64, 512, 512, 64], 128, 1),
        ([96, 128, 128, 64], 64, 1),
    ] {
        let choice = choose(shape, Numerics::Accelerated);
        assert_eq!(tile_of(&choice)[0], rows, "{shape:?}: {choice:?}");
        assert!(choice.parts * 2 >= parts && choice.parts <= parts * 2, "{shape:?}: {choice:?}, measured {parts}");
    }
}

#[test]
fn strict_numerics_never_round_operands() {
    let is_scalar = |dtype, numerics| {
        let choice = super::choose(&product([1, 512, 512, 512], dtype), &Caps::h200(), numerics);
        matches!(choice.spec, Spec::Contract(ContractSpec { unit: Unit::Scalar { .. }, .. }))
    };
    assert!(is_scalar(DType::F32, Numerics::Strict));
    assert!(!is_scalar(DType::F32, Numerics::Accelerated));
    assert!(!is_scalar(DType::F16, Numerics::Strict));
}

#[test]
fn every_choice_is_legal_and_repeatable() {
    let extents = [1, 2, 7, 33, 300, 5000_usize];
    for caps in [Caps::base(), Caps::h200()] {
        for point in 0..extents.len().pow(3) {
            let [rows, cols, depth] = [1, 6, 36].map(|stride| extents[point / stride % 6]);
            for numerics in [Numerics::Strict, Numerics::Accelerated] {
                let kernel = product([3, rows, cols, depth], DType::F32);
                let choice = super::choose(&kernel, &caps, numerics);
                assert_eq!(verify(&kernel, &choice.spec, &caps), Ok(()), "{choice:?}");
                assert_eq!(choice, super::choose(&kernel, &caps, numerics));
                assert!(choice.parts == 1 || split_contraction(&kernel, choice.parts).is_some(), "{choice:?}");
            }
        }
    }
}

#[test]
fn vectors_take_the_matrix_as_it_lies() {
    let spec = |kernel: &Kernel| match super::choose(kernel, &Caps::h200(), Numerics::Strict) {
        Choice { parts, spec: Spec::Gemv(gemv) } => (gemv, parts),
        other => panic!("{other:?}"),
    };
    let (rows, parts) = spec(&product([1, 1, 8192, 8192], DType::F32));
    assert_eq!(rows.adjacent, Adjacent::Rows);
    assert!((5..=8).contains(&parts), "split {parts}, measured best 8");
    let (elements, parts) = spec(&product([1, 8192, 1, 8192], DType::F32));
    assert_eq!((elements.adjacent, elements.lanes, parts), (Adjacent::Elements, 32, 1));
}

#[test]
fn tiles_of_broken_vectors_are_refused() {
    let kernel = product([1, 64, 64, 64], DType::F32);
    let Spec::Contract(good) = choose([1, 64, 64, 64], Numerics::Strict).spec else { panic!("no tile") };
    let refused = |spec: ContractSpec| match verify(&kernel, &Spec::Contract(spec), &Caps::h200()) {
        Err(SpecError::Field { field, value }) => (field, value),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(ContractSpec { unit: Unit::Scalar { thread: [2, 4] }, ..good }), ("thread or subgroup", 2));
    assert_eq!(refused(ContractSpec { unit: Unit::Scalar { thread: [4, 12] }, ..good }), ("thread or subgroup", 12));
    assert_eq!(refused(ContractSpec { staging: Staging::Pad(2), ..good }), ("pad", 2));
    assert_eq!(refused(ContractSpec { tile: [64, 64, 0], ..good }), ("tile", 4));
}
