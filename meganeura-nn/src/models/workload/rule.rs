//! The first weights: a function of each parameter's name and each element's position alone (`name-index-uniform-v1`).

use super::Workload;
use crate::init::Init;
use crate::params::ParameterSpec;

/// The first values of a parameter, row-major: 0 for what is named `bias`; `1 + spread · u` for the weight of a norm (what a
/// layer fills with ones), where [`Workload::norm_spread`] is rarely other than 0; `scale · u` for all others. `u` is
/// uniform over [−1, 1), see [`scaled_uniform`].
pub fn weights(workload: &dyn Workload, parameter: &ParameterSpec) -> Vec<f32> {
    let (name, elements) = (parameter.name.as_str(), parameter.ty.elements());
    if name.rsplit('.').next() == Some("bias") {
        return vec![0.0; elements];
    }
    if parameter.init != Init::Ones {
        return scaled_uniform(name, elements, workload.weight_scale());
    }
    scaled_uniform(name, elements, workload.norm_spread(name)).into_iter().map(|offset| 1.0 + offset).collect()
}

/// `scale · u` with `u = (x ≫ 8) · 2⁻²³ − 1`, where `x` is the element's position ^ the name's hash, well mixed. `u` is exact,
/// the product rounded once.
pub fn scaled_uniform(name: &str, elements: usize, scale: f32) -> Vec<f32> {
    let hash = hash(name);
    let element = |index: u32| {
        let centred = (mix(index ^ hash) >> 8) as i32 - (1 << 23);
        centred as f32 * (1.0 / (1 << 23) as f32) * scale
    };
    (0..elements as u32).map(element).collect()
}

/// The polynomial of the name's bytes at 31, modulo 2³².
fn hash(name: &str) -> u32 {
    name.bytes().fold(0, |hash: u32, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)))
}

/// A permutation of u32 that spreads each bit over all. Wellons, "Prospecting for Hash Functions", 2018 (lowbias32).
fn mix(x: u32) -> u32 {
    let x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    let x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

#[cfg(test)]
mod tests {
    use super::super::{FULL_SCALE, Phase, Variant, all, find, program};
    use super::*;

    #[test]
    fn hashes_and_values_are_those_of_the_definition() {
        let vectors = [
            ("model.embed_tokens.weight", 0, 0xe39d_c421, 0x8acd_9670, 0x3b07_7c49),
            ("conv1.weight", 7, 0x0c3f_ba09, 0x9687_c77c, 0x3b8d_47f7),
            ("layers.0.q_proj.weight", 123_456, 0x912d_8571, 0xd121_958e, 0x3c7e_5fd8),
        ];
        for (name, index, hashed, mixed, value) in vectors {
            assert_eq!(hash(name), hashed, "{name}");
            assert_eq!(mix(index as u32 ^ hashed), mixed, "{name}");
            let found = scaled_uniform(name, index + 1, FULL_SCALE)[index];
            assert_eq!(found.to_bits(), value, "{name}: {found}");
        }
    }

    #[test]
    fn scales_are_those_of_the_definition() {
        let bits = |name, variant| find(name, variant).unwrap().weight_scale().to_bits();
        let expected = |name| match name {
            "resnet50" => [0x3eb3_3333, 0x3d8f_5c29],
            _ => [0x3e4c_cccd, 0x3cc8_a986],
        };
        for name in all(Variant::Tiny).iter().map(|workload| workload.name()) {
            assert_eq!(Variant::ALL.map(|variant| bits(name, variant)), expected(name), "{name}");
        }
    }

    #[test]
    fn biases_are_zero_norms_one_and_a_spread_norm_differs() {
        let workload = find("whisper", Variant::Tiny).unwrap();
        let parameters = program(&*workload, Phase::Inference).unwrap().parameters;
        let of = |name: &str| weights(&*workload, parameters.iter().find(|spec| spec.name == name).unwrap());
        assert!(of("conv1.bias").iter().all(|&value| value == 0.0));
        assert!(of("layers.0.final_layer_norm.weight").iter().all(|&value| value == 1.0));
        assert_eq!(of("conv2.weight"), scaled_uniform("conv2.weight", 32 * 32 * 3, 0.2));
        let last = of("layer_norm.weight");
        assert!(last.iter().all(|value| (0.5..1.5).contains(value)) && last[0] != last[1]);
    }

    #[test]
    fn full_workloads_have_the_published_number_of_parameters() {
        let expected = [
            ("smollm2", 134_515_008),
            ("smolvla", 99_848_592),
            ("unet", 10_928_768),
            ("resnet50", 25_530_472),
            ("whisper", 8_208_384),
        ];
        for (name, count) in expected {
            let workload = find(name, Variant::Full).unwrap();
            let parameters = program(&*workload, Phase::Inference).unwrap().parameters;
            assert_eq!(parameters.iter().map(|spec| spec.ty.elements()).sum::<usize>(), count, "{name}");
        }
    }
}
