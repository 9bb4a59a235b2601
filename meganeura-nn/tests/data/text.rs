//! Texts and windows of them.

use crate::folder::Folder;
use flate2::{Compression, write::GzEncoder};
use meganeura_nn::data::{DataError, Dataset, TextWindows, Vocabulary, read_text};
use meganeura_nn::random::Random;
use std::io::Write;
use std::path::Path;

#[test]
fn characters_are_numbered_by_code_point_and_come_back() {
    let vocabulary = Vocabulary::of("bœuf à la mode");
    assert_eq!(vocabulary.characters().iter().collect::<String>(), " abdeflmouàœ");
    let tokens = vocabulary.encode("fœbà").unwrap();
    assert_eq!(tokens, [5, 11, 2, 10]);
    assert_eq!(vocabulary.decode(&tokens), "fœbà");
    assert_eq!(vocabulary.decode(&[1, 12]), "a\u{fffd}");
    let unknown = vocabulary.encode("deux").unwrap_err().to_string();
    assert_eq!(unknown, "character 3 is 'x', which is not among the 12 of the vocabulary");
    assert_eq!(Vocabulary::of("").size(), 0);
}

#[test]
fn windows_and_what_follows_them() {
    let item = |windows: &TextWindows, index| {
        let item = windows.item(index, &mut Random::new(0, "")).unwrap();
        [0, 1].map(|field| item[field].as_u32().unwrap().to_vec())
    };
    let all = TextWindows::new((0..10).collect(), 4, 1);
    assert_eq!((all.len(), item(&all, 5)), (6, [vec![5, 6, 7, 8], vec![6, 7, 8, 9]]));
    let apart = TextWindows::new((0..9).collect(), 4, 4);
    assert_eq!((apart.len(), item(&apart, 1)), (2, [vec![4, 5, 6, 7], vec![5, 6, 7, 8]]));
    for (tokens, expected) in [(0, 0), (4, 0), (5, 1), (8, 1)] {
        assert_eq!(TextWindows::new((0..tokens).collect(), 4, 4).len(), expected, "{tokens} tokens");
    }
    assert!(all.item(7, &mut Random::new(0, "")).is_err());
}

#[test]
fn texts_are_raw_or_compressed_bounded_and_utf_8() {
    let folder = Folder::new("text");
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&vec![b'a'; 32 << 20]).unwrap();
    let bomb = folder.write("bomb.txt", &encoder.finish().unwrap());
    assert!(matches!(read_text(&bomb, 1 << 20), Err(DataError::TooLong { limit: 1_048_576, .. })));
    assert_eq!(read_text(&bomb, 32 << 20).unwrap().len(), 32 << 20);
    let raw = folder.write("raw.txt", "à la".as_bytes());
    assert_eq!(read_text(&raw, 5).unwrap(), "à la");
    assert!(matches!(read_text(&raw, 4), Err(DataError::TooLong { .. })));
    let latin = folder.write("latin.txt", b"la \xe0 la");
    assert!(matches!(read_text(&latin, 99), Err(DataError::Encoding { offset: 3, .. })));
    assert!(matches!(read_text(Path::new("/nonexistent"), 99), Err(DataError::Read { .. })));
}
