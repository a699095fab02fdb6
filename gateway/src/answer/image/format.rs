//! Whether bytes are an image of their type, as far as that can be told without decoding it. Models refuse a broken image, and with it
//! the whole conversation that holds it.

/// Whether the bytes begin and end as an image of that type does.
pub(super) fn is_whole(mime_type: &str, bytes: &[u8]) -> bool {
    match mime_type {
        "image/png" => is_png(bytes),
        "image/jpeg" => is_jpeg(bytes),
        "image/gif" => is_gif(bytes),
        "image/webp" => is_webp(bytes),
        _ => false,
    }
}

/// A header of a size that isn't nothing, data, and chunks up to the last one (PNG, 5.3).
fn is_png(bytes: &[u8]) -> bool {
    let Some(mut rest) = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n") else { return false };
    if rest.get(4..8) != Some(b"IHDR") || number(rest, 8) == Some(0) || number(rest, 12) == Some(0) {
        return false;
    }
    let mut has_data = false;
    while let (Some(length), Some(kind)) = (number(rest, 0), rest.get(4..8)) {
        match kind {
            b"IEND" => return has_data,
            b"IDAT" => has_data = true,
            _ => {}
        }
        let Some(next) = rest.get(length.saturating_add(12)..) else { return false };
        rest = next;
    }
    false
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
    usize::try_from(u32::from_be_bytes(four)).ok()
}

/// From its first marker to the last one (ITU-T T.81, B.1); something may follow.
fn is_jpeg(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\xff\xd8\xff") && bytes.windows(2).any(|two| two == b"\xff\xd9")
}

/// A size that isn't nothing, and the trailer (`GIF89a`, 27).
fn is_gif(bytes: &[u8]) -> bool {
    let is_named = bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a");
    is_named && bytes.len() > 13 && bytes[6..8] != [0, 0] && bytes[8..10] != [0, 0] && bytes[13..].contains(&b';')
}

/// As long as it says, and with a picture in it (RFC 9649, 2.3 and 2.4).
fn is_webp(bytes: &[u8]) -> bool {
    let Some(length) = bytes.get(4..8).and_then(|four| four.try_into().ok()).map(u32::from_le_bytes) else {
        return false;
    };
    let is_long_enough = usize::try_from(length).is_ok_and(|length| bytes.len() >= length.saturating_add(8));
    bytes.starts_with(b"RIFF") && bytes.get(8..15) == Some(b"WEBPVP8") && bytes.len() > 20 && is_long_enough
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::is_whole;

    /// The smallest of each type, with where it may be cut without that being seen.
    const IMAGES: [(&str, &[u8]); 4] = [
        (
            "image/png",
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0\x3a\x7e\x9b\x55\0\0\0\nIDAT\x78\x9c\x63\x60\0\0\0\x02\0\x01\x48\xaf\xa4\x71\0\0\0\0IEND\xae\x42\x60\x82",
        ),
        ("image/jpeg", b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0\xff\xd9"),
        ("image/gif", b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x01\0\x01\0\0\x02\x01D\0;"),
        ("image/webp", b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\0\0\0\x10\x07\x10\x11\x11\x88\x88\xfe\x07\0"),
    ];

    #[test]
    fn an_image_is_one_of_its_own_type_alone() {
        for (mime_type, bytes) in IMAGES {
            assert!(is_whole(mime_type, bytes), "{mime_type}");
            for (other, _) in IMAGES.iter().filter(|(other, _)| *other != mime_type) {
                assert!(!is_whole(other, bytes), "{mime_type} as {other}");
            }
        }
        assert!(!is_whole("image/bmp", b"BM"));
    }

    #[test]
    fn a_part_of_an_image_is_none() {
        for (mime_type, bytes) in IMAGES {
            for end in 0..bytes.len() - 8 {
                assert!(!is_whole(mime_type, &bytes[..end]), "{mime_type} {end}");
            }
        }
        let mut zeros = IMAGES[0].1[..33].to_vec();
        zeros.extend([0; 100]);
        assert!(!is_whole("image/png", &zeros));
        assert!(!is_whole("image/png", b"notbytes"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(
            start in prop::sample::select(vec![&b""[..], b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF"]),
            bytes in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            for (mime_type, _) in IMAGES {
                is_whole(mime_type, &[start, &bytes].concat());
            }
        }
    }
}
