//! Random bits: Threefry-2x32-20, the same function as [`meganeura_core::kernel::threefry`].

use super::math::Function;
use super::writer::Writer;

/// The first word for a key of two `u32` texts and the counter `(counter, stream)`.
pub fn first_word(w: &mut Writer, key: [&str; 2], counter: &str, stream: u32) -> String {
    format!("{}(vec2<u32>({}, {}), vec2<u32>({counter}, {stream}u)).x", w.call(Function::Threefry), key[0], key[1])
}

/// WGSL of the generator. Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
pub const THREEFRY: &str = "
fn threefry_round(x: vec2<u32>, rotation: u32) -> vec2<u32> {
    let sum = x.x + x.y;
    return vec2<u32>(sum, ((x.y << rotation) | (x.y >> (32u - rotation))) ^ sum);
}

fn threefry(key: vec2<u32>, counter: vec2<u32>) -> vec2<u32> {
    let third = 0x1bd11bdau ^ key.x ^ key.y;
    var x = counter + key;
    x = threefry_round(threefry_round(threefry_round(threefry_round(x, 13u), 15u), 26u), 6u);
    x += vec2<u32>(key.y, third + 1u);
    x = threefry_round(threefry_round(threefry_round(threefry_round(x, 17u), 29u), 16u), 24u);
    x += vec2<u32>(third, key.x + 2u);
    x = threefry_round(threefry_round(threefry_round(threefry_round(x, 13u), 15u), 26u), 6u);
    x += vec2<u32>(key.x, key.y + 3u);
    x = threefry_round(threefry_round(threefry_round(threefry_round(x, 17u), 29u), 16u), 24u);
    x += vec2<u32>(key.y, third + 4u);
    x = threefry_round(threefry_round(threefry_round(threefry_round(x, 13u), 15u), 26u), 6u);
    return x + vec2<u32>(third, key.x + 5u);
}
";
