//! Folders of images, good and hostile ones.

use crate::folder::Folder;
use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, GrayImage, ImageFormat, Rgb, RgbImage, RgbaImage};
use meganeura_nn::data::{Channels, DataError, Dataset, ImageFolder, Loader, LoaderError, LoaderOptions};
use meganeura_nn::random::Random;
use std::io::Cursor;
use std::path::Path;

fn png(image: impl Into<DynamicImage>) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    image.into().write_to(&mut bytes, ImageFormat::Png).unwrap();
    bytes.into_inner()
}

fn one_color(color: [u8; 3], width: u32, height: u32) -> RgbImage {
    RgbImage::from_pixel(width, height, Rgb(color))
}

/// Two classes of two images each, and what is to be skipped.
fn pets(test: &str) -> Folder {
    let folder = Folder::new(test);
    for name in ["cat", "dog", ".hidden", "dog/more.png"] {
        std::fs::create_dir_all(folder.0.join(name)).unwrap();
    }
    let mut ramp = one_color([0, 0, 0], 3, 2);
    ramp.enumerate_pixels_mut().for_each(|(x, y, pixel)| *pixel = Rgb([(10 * x + y) as u8, 51, 255]));
    folder.write("cat/a.PNG", &png(ramp));
    let mut jpeg = Vec::new();
    JpegEncoder::new_with_quality(&mut jpeg, 100).encode_image(&one_color([200, 100, 50], 30, 20)).unwrap();
    folder.write("cat/b.jpeg", &jpeg);
    folder.write("dog/a.png", &png(GrayImage::from_pixel(3, 2, image::Luma([51]))));
    // A JPEG image under another name is still one.
    folder.write("dog/b.png", &jpeg);
    folder.write("dog/notes.txt", b"good dog");
    folder.write(".hidden/a.png", b"");
    folder.write("readme.png", b"no class");
    folder
}

#[test]
fn classes_are_folders_and_images_have_one_size() {
    let folder = pets("pets");
    let set = ImageFolder::open(&folder.0, Channels::Rgb, 2, 3).unwrap();
    assert_eq!(set.classes(), ["cat", "dog"]);
    let names: Vec<_> = set.files().iter().map(|(path, label)| (path.file_name().unwrap(), *label)).collect();
    assert_eq!(
        names,
        [("a.PNG", 0), ("b.jpeg", 0), ("a.png", 1), ("b.png", 1)].map(|(name, label)| (name.as_ref(), label))
    );
    let item = |index| {
        let item = set.item(index, &mut Random::new(0, "")).unwrap();
        (item[0].as_f32().unwrap().iter().map(|x| (x * 255.0).round() as u8).collect::<Vec<_>>(), item[1].clone())
    };
    assert_eq!(item(0).0, [0, 10, 20, 1, 11, 21, 51, 51, 51, 51, 51, 51, 255, 255, 255, 255, 255, 255]);
    assert_eq!((item(2).0, item(2).1.as_u32().unwrap()), (vec![51; 18], &[1][..]));
    for index in [1, 3] {
        let expected = [[200; 6], [100; 6], [50; 6]].concat();
        assert!(item(index).0.iter().zip(expected).all(|(a, b): (&u8, u8)| a.abs_diff(b) <= 2), "{:?}", item(index).0);
    }
    let gray = ImageFolder::open(&folder.0, Channels::Gray, 4, 4).unwrap();
    let mut loader = Loader::new(gray, LoaderOptions { batch: 4, workers: 2, ..LoaderOptions::default() }).unwrap();
    let batch = loader.next_batch().unwrap().unwrap();
    assert_eq!(batch.tensor("images").unwrap().shape().to_vec(), [4, 1, 4, 4]);
}

#[test]
fn a_larger_image_is_scaled_and_its_middle_taken() {
    let folder = Folder::new("scaled");
    std::fs::create_dir_all(folder.0.join("a")).unwrap();
    // Black at both ends of the long side, white in the middle half; transparency is ignored.
    let bars = RgbaImage::from_fn(40, 10, |x, _| image::Rgba([if (10..30).contains(&x) { 255 } else { 0 }, 0, 0, 7]));
    folder.write("a/bars.png", &png(bars));
    let set = ImageFolder::open(&folder.0, Channels::Rgb, 5, 5).unwrap();
    let item = set.item(0, &mut Random::new(0, "")).unwrap();
    assert_eq!(item[0].as_f32().unwrap()[..25], [1.0; 25]);
}

#[test]
fn damaged_images_are_typed_and_name_the_file() {
    let whole = png(one_color([1, 2, 3], 9, 9));
    // A header that claims 400 MB of pixels, with its right sum.
    let mut huge = whole.clone();
    huge[16..24].copy_from_slice(&[20_000_u32.to_be_bytes(), 20_000_u32.to_be_bytes()].concat());
    let mut sum = flate2::Crc::new();
    sum.update(&huge[12..29]);
    huge[29..33].copy_from_slice(&sum.sum().to_be_bytes());
    let cases: [(&str, Vec<u8>); 4] = [
        ("empty", Vec::new()),
        ("cut", whole[..whole.len() / 2].to_vec()),
        ("html", b"<!DOCTYPE html><title>404</title>".to_vec()),
        ("huge", huge),
    ];
    for (name, bytes) in cases {
        let folder = Folder::new(&format!("damaged-{name}"));
        std::fs::create_dir_all(folder.0.join("a")).unwrap();
        folder.write(&format!("a/{name}.png"), &bytes);
        let set = ImageFolder::open(&folder.0, Channels::Gray, 4, 4).unwrap();
        let mut loader = Loader::new(set, LoaderOptions { batch: 1, ..LoaderOptions::default() }).unwrap();
        let error = loader.next_batch().unwrap_err();
        assert!(matches!(error, LoaderError::Item { index: 0, .. }), "{error}");
        assert!(error.to_string().contains(&format!("{name}.png: no image that can be read")), "{error}");
        assert_eq!(error.to_string().contains("imit"), name == "huge", "{error}");
    }
}

#[test]
fn folders_without_images_are_refused() {
    let folder = pets("lacking");
    std::fs::create_dir_all(folder.0.join("fish")).unwrap();
    let error = ImageFolder::open(&folder.0, Channels::Rgb, 2, 3).unwrap_err();
    assert!(matches!(&error, DataError::Empty { path } if path.ends_with("fish")), "{error}");
    let error = ImageFolder::open(&folder.0.join("dog"), Channels::Rgb, 2, 3).unwrap_err();
    assert!(matches!(&error, DataError::Empty { path } if path.ends_with("more.png")), "{error}");
    assert!(matches!(ImageFolder::open(&folder.0.join("fish"), Channels::Rgb, 2, 3), Err(DataError::Empty { .. })));
    let missing = ImageFolder::open(Path::new("/nonexistent"), Channels::Rgb, 2, 3);
    assert!(matches!(missing, Err(DataError::Read { .. })));
}
