//! Digits as text.

use meganeura::prelude::Mnist;

/// From background to ink.
const SHADES: [char; 8] = [' ', '.', ':', '-', '=', '+', '*', '#'];
/// MNIST's digits lie in the inner 20 × 20 pixels.
const MARGIN: usize = 4;

/// Images side by side, two pixels a character above each other, as characters are twice as high as wide.
pub fn draw(images: &[&[u8]]) -> Vec<String> {
    let inner = MARGIN..Mnist::SIDE - MARGIN;
    let row = |top: usize| {
        let shade = |image: &[u8], column: usize| {
            let pixel = |row: usize| image.get(row * Mnist::SIDE + column).map_or(0, |&ink| usize::from(ink));
            SHADES[(pixel(top) + pixel(top + 1)) * SHADES.len() / 512]
        };
        let drawn = images.iter().map(|image| inner.clone().map(|column| shade(image, column)).collect::<String>());
        drawn.collect::<Vec<_>>().join("    ").trim_end().to_owned()
    };
    inner.clone().step_by(2).map(row).collect()
}
